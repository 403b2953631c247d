// Runs one function on every rank, and turns what it throws into one report and an exit code.
#pragma once

#include <functional>
#include <iosfwd>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// What a rank does; returns its exit code.
using RankBody = std::function<int(World&)>;

/// Runs `body` on `ranks` threads of this process. A rank that throws ends the others with PeerLost. The first failure
/// is reported by the log as an error, once, and decides the result: 2 after UserError, 3 after anything else.
/// Otherwise the greatest code that a rank returned.
int run_ranks(int ranks, const RankBody& body);
/// The same with the report in `errors`, as it would stand on stderr.
int run_ranks(int ranks, const RankBody& body, std::ostream& errors);

/// Runs `body` on this process as one rank of an MPI job. When all ranks throw the same UserError, rank 0 reports it
/// and 2 is returned everywhere. Any other failure is reported by the rank that met it and ends every process, with
/// exit code 2 or 3 as above; this function then doesn't return.
int run_mpi(const RankBody& body);

}  // namespace weft::comm
