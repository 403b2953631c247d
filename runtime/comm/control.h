// The connections of all ranks to rank 0: exchanges of the world, and news of ranks that fail or are lost.
//
// Each process has one thread that waits at its connections and sleeps otherwise. Rank 0's thread gathers what the
// ranks deposit, sends it back to all, and tells all how a run has ended as soon as one rank fails or its connection
// breaks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/rendezvous.h"
#include "runtime/comm/tcp.h"

namespace weft::comm {

/// A message over a connection to rank 0.
struct Frame {
  enum class Kind : std::uint8_t {
    deposit,       // a rank's bytes of an exchange
    last_deposit,  // the same of the last exchange, after which the processes end
    result,        // all ranks' bytes
    failure,       // an error of the sender
    end            // how the run has ended
  };
  Kind kind = Kind::deposit;
  std::vector<std::byte> content;
};

/// Takes bytes as they come, and gives the frames in them.
class FrameReader {
 public:
  /// Throws RuntimeFault for bytes that aren't frames.
  void add(std::span<const std::byte> bytes);
  /// The next complete frame.
  std::optional<Frame> next();

 private:
  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;  // of the next frame
};

std::vector<std::byte> to_bytes(const Frame& frame);

/// The contents of frames. The parsers throw RuntimeFault.
std::vector<std::byte> to_content(const std::vector<std::vector<std::byte>>& of_ranks);
std::vector<std::vector<std::byte>> parse_result(std::span<const std::byte> content);
std::vector<std::byte> to_content(const RunEnd& end);
RunEnd parse_end(std::span<const std::byte> content);

class Control {
 public:
  Control(int rank, Meeting meeting);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const std::vector<Peer>& peers() const { return peers_; }
  /// The address by which this process reached rank 0; nothing on rank 0.
  std::optional<Address> address_of_rank_0() const { return address_of_rank_0_; }

  /// Every rank's bytes, by rank. Throws PeerLost. One thread at a time; the other functions are for any thread.
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> bytes, bool last = false);

  bool ended() const { return ended_.load(std::memory_order_relaxed); }
  /// How the run ended, if it does within the time.
  std::optional<RunEnd> end_within(double seconds);
  /// Returns if the run goes on.
  void expect_peers();
  /// Of a connection to another rank that broke: throws PeerLost with the cause.
  [[noreturn]] void throw_lost(int rank, const std::string& during);
  /// Tells rank 0 of an error of this rank; returns when that is sent, or after a second.
  void tell_failure(const std::string& reason, int exit_code);

 private:
  struct Connection {
    int rank = 0;  // at the other end
    Socket socket;
    FrameReader reader;
    std::vector<std::byte> out;
    std::size_t sent = 0;
    bool idle() const { return sent == out.size(); }
  };

  void run();
  void wait(std::unique_lock<std::mutex>& lock);
  bool receive(Connection& connection);
  bool send(Connection& connection);
  void handle(Connection& connection, Frame frame);
  void deposit(int rank, std::vector<std::byte> bytes, bool last);
  void take_failure(int rank, const RunEnd& failure);
  void lose(Connection& connection, const std::string& why);
  void conclude(RunEnd end);
  void post(Connection& connection, Frame::Kind kind, std::span<const std::byte> content);
  bool all_sent() const;
  bool all_closed();
  void wake() const;

  const int rank_, ranks_;
  const std::vector<Peer> peers_;
  std::optional<Address> address_of_rank_0_;
  Socket wake_;  // an eventfd
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Connection> connections_;
  std::vector<std::optional<std::vector<std::byte>>> deposits_;  // on rank 0, by rank
  int last_deposits_ = 0;
  std::optional<std::vector<std::vector<std::byte>>> result_;
  std::vector<RunEnd> failures_;  // on rank 0: UserErrors, until it is known whether all ranks throw the same
  Deadline agreement_;
  std::optional<RunEnd> end_;
  bool leaving_ = false;  // in the last exchange
  bool over_ = false;     // after it: connections may close
  bool stopping_ = false;
  Deadline stop_by_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace weft::comm
