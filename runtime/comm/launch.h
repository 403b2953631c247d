// Runs one function on every rank, and turns its exceptions into one report and an exit code.
#pragma once

#include <functional>
#include <iosfwd>

#include "runtime/comm/communicator.h"
#include "runtime/comm/tcp.h"

namespace weft::comm {

/// The work of one rank; returns its exit code.
using RankBody = std::function<int(World&)>;

/// Runs `body` on `ranks` threads of this process. When a rank throws, the others get PeerLost. The first failure is
/// logged once, as an error, and decides the result: 2 after UserError, 3 after any other exception. Without a failure,
/// returns the greatest code that a rank returned.
int run_ranks(int ranks, const RankBody& body);
/// The same, but writes the report to `errors`, in the form that stderr would get.
int run_ranks(int ranks, const RankBody& body, std::ostream& errors);

/// Runs `body` on this process as one rank of an MPI job. When all ranks throw the same UserError, rank 0 reports it
/// and 2 is returned everywhere. On any other failure the failing rank reports it and ends every process with exit code
/// 2 or 3, as above; this function then doesn't return.
int run_mpi(const RankBody& body);

/// The same as one rank of a job whose processes meet over TCP. A failure ends the other ranks with PeerLost and the
/// same exit code. The failing rank reports it; where it doesn't, as it was lost, and on other nodes, the first rank of
/// a node does.
int run_tcp(const TcpLaunch& launch, const TcpSettings& settings, const RankBody& body);

}  // namespace weft::comm
