// The level for which the kernels beside this file were compiled.
#pragma once

#include <string_view>

namespace weft::cpu {

/// "v3", "v4" or "v4-bf16" if these kernels were compiled for exactly a level of level.h. For another -march it is the
/// highest of these that the instructions include (or "avx512f", "baseline") with the -march: "v3-native",
/// "v4-bf16-znver4". Compilers round otherwise for another CPU (some avoid chains of multiply-adds), so the bits of
/// "v3" and "v3-native" may differ.
std::string_view compiled_level();

}  // namespace weft::cpu
