#include "tools/teller.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/text/printable.h"

namespace weft {
namespace {

constexpr const char* kErase = "\r\033[K";  // what the line showed

}  // namespace

Teller::Teller(bool tells) : tells_(tells), terminal_(isatty(STDERR_FILENO) != 0) {}

Teller::~Teller() {
  if (tells_ && terminal_) std::fputs(kErase, stderr);
}

void Teller::operator()(const std::string& line) const {
  if (!tells_) return;
  if (terminal_) std::fputs(kErase, stderr);
  say(stderr, "{}{}", line, terminal_ ? "" : "\n");
}

}  // namespace weft
