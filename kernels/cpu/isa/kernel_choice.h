// The kernels that this process runs: those of the build (WEFT_ISA=native), or of the level that is chosen at the start
// (WEFT_ISA=all).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::cpu {

/// The levels of this build, lowest first; one of them with WEFT_ISA=native.
std::vector<std::string> built_levels();

/// Chooses the level for this process: `asked`, or the CPU's highest if it is empty. The first call, or the first call
/// of a kernel, decides; std::logic_error if it decided otherwise. Throws UserError if the CPU or the build lacks the
/// level, or if its library can't be loaded.
void choose_kernels(std::string_view asked);

/// The level in use. It decides the bits of results, as do compiler and libraries.
std::string_view kernel_level();

}  // namespace weft::cpu
