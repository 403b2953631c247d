// What NCCL's calls take of the host, in each of the ways that `--nccl` offers.
#pragma once

namespace weft::bench {

/// Prints lines of name, value and unit, separated by tabs: the host's microseconds for a gather of one rank, for which
/// one GPU is enough. `quick`: for tests.
void print_nccl(bool quick);

}  // namespace weft::bench
