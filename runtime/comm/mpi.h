// Ranks as MPI processes.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// True when a launcher (mpirun, srun with PMI or PMIx) started this process as one of an MPI job. Looks for the
/// variables through which launchers talk to MPI; doesn't initialise MPI.
bool launched_by_mpi();

/// True when the launcher says that this process is another rank than the first. Doesn't initialise MPI either.
bool launched_as_later_rank();

/// "Open MPI v4.1.4". Doesn't initialise MPI either.
std::string mpi_version();

/// The world of MPI_COMM_WORLD. MPI is finalised when it and all communicators made from it are gone.
///
/// Collectives are built on MPI_Isend and MPI_Irecv: MPI_Iallreduce takes twice the time that the wire needs, and its
/// order of summation is the library's secret. Large messages travel in pieces of which a few are in flight, so any
/// count works and TCP queues don't overflow.
///
/// MPI is initialised for MPI_THREAD_SERIALIZED: any thread may call, one at a time. Only abort() is exempt: it ends
/// the process, in whatever state MPI is.
class MpiWorld final : public World {
 public:
  /// At most one in the life of a process (an MPI rule; else std::logic_error).
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

  /// True when all ranks call this within about `seconds` of each other and with the same `value`: how ranks find out
  /// that they all failed alike. After false only abort() is of use.
  bool all_say(std::uint64_t value, double seconds);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::unique_ptr<MpiWorld> make_mpi_world();

}  // namespace weft::comm
