// Text for a terminal: names out of files and texts of models may hold what makes a terminal do things.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/status_line.h"

namespace weft {

/// `text` as a terminal may show it. New lines and tabs stay, since messages have lines. Other control characters
/// become
/// "\x1b" (C0) and "\u009b" (DEL and C1), what turns the direction of writing "\u202e", and bytes that are no UTF-8
/// "\xff". In a JSON or TOML document only what stands in quotes can change, and into escapes that mean the same.
std::string printable(std::string_view text);

/// The same on one line: new lines and tabs become "\\n" and "\\t" too.
std::string printable_line(std::string_view text);

/// printable() of a text that comes in pieces, which may cut characters.
class PrintableStream {
 public:
  /// Takes the next bytes and returns the text that is complete by now.
  std::string add(std::string_view bytes);
  /// The rest, of a character that broke off.
  std::string finish();

 private:
  std::string pending_;
};

/// Everything that commands tell a person goes through here: fmt::print(), but printable, and above a status line.
template <class... Arguments>
void say(std::FILE* file, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_above_status(file, printable(fmt::format(format, std::forward<Arguments>(arguments)...)));
}
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say(stdout, format, std::forward<Arguments>(arguments)...);
}

}  // namespace weft
