// The kernels that this process runs: those of the build (WEFT_ISA=native), or of the level that is chosen at the start
// (WEFT_ISA=all).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::cpu {

/// The levels of this build, lowest first; one of them with WEFT_ISA=native.
std::vector<std::string> built_levels();

/// The level for which kernels are compiled: "v3", "v4" or "v4-bf16" if it is exactly one of level.h. For another
/// -march it is the highest of these that the instructions include (or "avx512f", "baseline") with the -march:
/// "v3-native", "v4-bf16-znver4". Compilers round otherwise for another CPU (some avoid chains of multiply-adds), so
/// the bits of "v3" and "v3-native" may differ.
std::string_view compiled_level();

/// Chooses the level for this process: `asked`, or the CPU's highest if it is empty. The first call, or the first call
/// of a kernel, decides; std::logic_error if it decided otherwise. Throws UserError if the CPU or the build lacks the
/// level, or if its library can't be loaded.
void choose_kernels(std::string_view asked);

/// The level in use. It decides the bits of results, as do compiler and libraries.
std::string_view kernel_level();

}  // namespace weft::cpu
