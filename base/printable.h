// Text made safe for a terminal: names from files and texts of models may contain terminal control sequences.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/status_line.h"

namespace weft {

/// `text` made safe for a terminal. New lines and tabs stay, since messages have lines. Other control characters become
/// "\x1b" (C0) and "\u009b" (DEL and C1), characters that change the direction of writing become "\u202e", and bytes
/// that aren't UTF-8 become "\xff". In a JSON or TOML document only quoted text can change, and its escapes mean the
/// same.
std::string printable(std::string_view text);

/// Like printable(), on one line: new lines and tabs become "\\n" and "\\t" too.
std::string printable_line(std::string_view text);

/// printable() for a text that comes in pieces; their borders may split characters.
class PrintableStream {
 public:
  /// Takes the next bytes and returns the text that is complete so far.
  std::string add(std::string_view bytes);
  /// The remaining bytes, of an incomplete character.
  std::string finish();

 private:
  std::string pending_;
};

/// All output of commands to a person goes through here: fmt::print() made printable, above a status line.
template <class... Arguments>
void say(std::FILE* file, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  write_above_status(file, printable(fmt::format(format, std::forward<Arguments>(arguments)...)));
}
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say(stdout, format, std::forward<Arguments>(arguments)...);
}

}  // namespace weft
