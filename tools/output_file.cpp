#include "tools/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace weft {

void expect_writable(const std::filesystem::path& output) {
  const std::filesystem::path folder = output.has_parent_path() ? output.parent_path() : ".";
  const bool fits = std::filesystem::is_directory(folder) && !std::filesystem::is_directory(output) &&
                    access(folder.c_str(), W_OK) == 0;
  if (fits) return;
  throw UserError(fmt::format("'{}' can't be written", output.string()), "a file in a folder that is there",
                  "make the folder, or name another file");
}

}  // namespace weft
