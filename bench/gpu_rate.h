// One large matrix product on a GPU: how fast it is after a rest, and how fast it stays under load.
#pragma once

namespace weft::bench {

/// Prints lines of name, value and unit, separated by tabs. `quick`: a small product, for tests.
void print_rate(double seconds, bool quick);

}  // namespace weft::bench
