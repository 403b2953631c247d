#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace weft {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Terminal terminal_of(std::FILE* file) {
  Terminal terminal;
  const int descriptor = ::fileno(file);
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.columns = size.ws_col;
  terminal.is_terminal = ::isatty(descriptor) != 0;
  terminal.colours = terminal.is_terminal && environment("TERM") != "dumb" && environment("NO_COLOR").empty();
  return terminal;
}

}  // namespace weft
