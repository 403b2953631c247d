// Ranks as processes that meet over TCP, without MPI: as torchrun, Slurm or a shell starts them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// What a launcher tells a process about itself and the others.
struct TcpLaunch {
  int rank = 0, ranks = 1;
  int rank_on_node = -1;           // −1: the launcher didn't tell
  std::string host = "127.0.0.1";  // of rank 0
  int port = 29500;                // at which rank 0 listens until all are there
  std::string run = {};            // the launcher's name of this run, "" if it has none: other runs are turned away
  std::string token_file = {};     // the user's own, for runs that name none; made where it is missing
  friend bool operator==(const TcpLaunch&, const TcpLaunch&) = default;
};

/// What the user decides.
struct TcpSettings {
  std::string token;             // the secret of all ranks
  bool beyond_loopback = false;  // may listen at, and connect to, addresses of other machines
  double peer_timeout = 120;     // seconds for ranks to come, and after which a silent machine is lost
};

/// How a run ended, if not well.
struct RunEnd {
  int rank = -1;  // that failed or was lost; −1: all of them, with one error
  int code = 3;
  bool reported = false;  // the rank has printed the text itself
  std::string text = {};
};

/// Collectives and exchanges over TCP. Exchanges of the world go through rank 0; a communicator has a connection
/// between any two of its ranks, over which its collectives move as over MPI, with the same bits. A thread of each
/// process watches the connection to rank 0, so that every rank hears at once that another one has failed or was lost.
class TcpWorld : public World {
 public:
  /// The last exchange: afterwards processes may end. Collective over the world.
  virtual void leave() = 0;
  /// Whether the run has ended because of another rank; how.
  virtual bool ended(RunEnd& end) = 0;
  /// Tells the others of an error of this rank, and waits for the end that all ranks hear of, at most a few seconds.
  /// Ranks that throw one UserError within two seconds end with the rank −1.
  virtual RunEnd give_up(const std::string& reason, int exit_code) = 0;
  /// Whether this rank is the one of its node that prints an end which another rank caused.
  virtual bool speaks_for(const RunEnd& end) const = 0;
};

/// Meets the other ranks; returns when all are there. Throws UserError that names the cause and the fix if they don't
/// come within the limit, or don't belong together.
std::unique_ptr<TcpWorld> make_tcp_world(const TcpLaunch& launch, const TcpSettings& settings);

}  // namespace weft::comm
