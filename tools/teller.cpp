#include "tools/teller.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace weft {

Teller::Teller(bool tells) : tells_(tells), terminal_(isatty(STDERR_FILENO) != 0) {}

Teller::~Teller() {
  if (tells_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Teller::operator()(const std::string& line) const {
  if (tells_) fmt::print(stderr, "{}{}{}", terminal_ ? "\r\033[K" : "", line, terminal_ ? "" : "\n");
}

}  // namespace weft
