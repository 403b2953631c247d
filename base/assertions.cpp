#include "base/assertions.h"

#include <cstdlib>

#include "base/printable.h"

namespace weft {

void report_broken(std::string_view invariant, const CodePlace& where) {
  say(stderr, "weft: broken invariant: {}\n  {}:{}, {}\n", invariant, where.file, where.line, where.function);
  std::abort();
}

}  // namespace weft
