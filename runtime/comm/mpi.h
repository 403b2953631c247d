// Ranks as MPI processes.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// True when a launcher (mpirun, srun with PMI or PMIx) started this process as one of an MPI job. Looks for the
/// variables through which launchers talk to MPI; doesn't initialise MPI.
bool launched_by_mpi();

/// True when the launcher started this process as a rank other than 0. Doesn't initialise MPI.
bool launched_as_later_rank();

/// "Open MPI v4.1.4". Doesn't initialise MPI.
std::string mpi_version();

/// The ranks of MPI_COMM_WORLD. MPI is finalised when this object and all communicators made from it are destroyed.
///
/// Collectives are built on MPI_Isend and MPI_Irecv: MPI_Iallreduce takes twice the time that the wire needs, and its
/// order of summation is unspecified. Large messages are sent in pieces, of which a few are in flight, so any count
/// works and TCP queues don't overflow.
///
/// MPI is initialised for MPI_THREAD_SERIALIZED: any thread may call, one at a time. Only abort() may be called at any
/// time, as it ends the process.
class MpiWorld final : public World {
 public:
  /// At most one may be made in the life of a process (a rule of MPI); a second throws std::logic_error.
  MpiWorld();
  ~MpiWorld() override;
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const override;
  int size() const override;
  std::string name() const override;
  int ranks_on_node() const override;
  int rank_on_node() const override;
  std::unique_ptr<Communicator> split(int color) override;
  void barrier() override;
  void broadcast(std::vector<std::byte>& bytes, int root) override;
  std::vector<std::uint64_t> all_gather(std::uint64_t value) override;
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override;
  void expect_peers() override {}  // a rank that gives up ends all processes
  void abort(const std::string& reason, int exit_code) override;

  /// True when all ranks call this with the same `value` within about `seconds` of each other: ranks find out in this
  /// way that they all threw the same error. After false, only abort() may be called.
  bool all_say(std::uint64_t value, double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::unique_ptr<MpiWorld> make_mpi_world();

}  // namespace weft::comm
