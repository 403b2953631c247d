// Ways to compute the same on a GPU, side by side: cuDNN's attention engines, and work within cuBLASLt's products
// against kernels after them.
#pragma once

namespace weft::bench {

/// Prints lines of name, value and unit, separated by tabs. Throws RuntimeFault at the end if two ways gave different
/// values. `quick`: small sizes, for tests.
void print_pairs(bool quick);

}  // namespace weft::bench
