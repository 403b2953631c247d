// The choice of kernels in a build that has one level, linked statically; see kernel_choice.h.
#include "base/error.h"
#include "kernels/cpu/isa/kernel_choice.h"

namespace weft::cpu {

std::vector<std::string> built_levels() {
  return {std::string(compiled_level())};
}

void choose_kernels(std::string_view asked) {
  if (asked.empty() || asked == compiled_level()) return;
  throw UserError("--isa " + std::string(asked), "the level of this build, " + std::string(compiled_level()),
                  "leave --isa out, or build with -DWEFT_ISA=all");
}

std::string_view kernel_level() {
  return compiled_level();
}

}  // namespace weft::cpu
