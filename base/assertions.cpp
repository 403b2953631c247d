#include "base/assertions.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/printable.h"

namespace weft {

void report_broken(std::string_view invariant, const std::source_location& where) {
  say(stderr, "weft: broken invariant: {}\n  {}:{}, {}\n", invariant, where.file_name(), where.line(),
      where.function_name());
  std::abort();
}

}  // namespace weft
