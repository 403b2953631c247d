#include "tools/version.h"

#include <string_view>

#include "base/assertions.h"
#include "base/error.h"
#include "kernels/cpu/isa/kernel_choice.h"

namespace weft::tools {

std::string version_text() {
  // The four come from CMake, at configure time.
  const std::string_view commit = WEFT_COMMIT;
  std::string text = "weft " WEFT_VERSION " (";
  if (!commit.empty()) text.append(commit).append(", ");
  text.append(WEFT_COMPILER ", " WEFT_BUILD_TYPE ", ").append(kAssertions ? "assertions, " : "");
  return text + "kernels for " + join(cpu::built_levels(), " ") + ")";
}

}  // namespace weft::tools
