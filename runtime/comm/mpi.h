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
class MpiWorld : public World {
 public:
  /// True when all ranks call this with the same `value` within about `seconds` of each other: ranks find out in this
  /// way that they all threw the same error. After false, only abort() may be called.
  virtual bool all_say(std::uint64_t value, double seconds) = 0;
};

/// At most one may be made in the life of a process (a rule of MPI); a second throws std::logic_error.
std::unique_ptr<MpiWorld> make_mpi_world();

}  // namespace weft::comm
