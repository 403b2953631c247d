#include "tools/version.h"

#include <string_view>

namespace weft::tools {

std::string version_text() {
  // The four come from CMake, at configure time.
  const std::string_view commit = WEFT_COMMIT;
  std::string text = "weft " WEFT_VERSION " (";
  if (!commit.empty()) text.append(commit).append(", ");
  return text + WEFT_COMPILER ", " WEFT_BUILD_TYPE ")";
}

}  // namespace weft::tools
