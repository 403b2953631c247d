// Text for people: made safe for a terminal, since names from files and texts of models may contain terminal control
// sequences, and with emphasis, which becomes colour on a terminal that has colours and disappears everywhere else.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
void say_formatted(std::FILE* file, fmt::string_view format, fmt::format_args arguments);
template <class... Arguments>
void say(std::FILE* file, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say_formatted(file, format, fmt::make_format_args(arguments...));
}
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  say_formatted(stdout, format, fmt::make_format_args(arguments...));
}

enum class Emphasis : std::uint8_t { none, heading, good, bad, error, warning };

///   StyledText text("policy lhs: ");
///   text.add("0.31 ms exposed", Emphasis::bad);
///   say(stdout, text);
class StyledText {
 public:
  StyledText() = default;
  explicit StyledText(std::string_view text) { add(text); }

  StyledText& add(std::string_view text, Emphasis emphasis = Emphasis::none);
  StyledText& add(const StyledText& text);

  bool empty() const { return pieces_.empty(); }
  std::string plain() const;
  /// With control sequences for colours; everything else is printable().
  std::string coloured() const;

 private:
  struct Piece {
    std::string text;
    Emphasis emphasis;
  };
  std::vector<Piece> pieces_;
};

/// In colours if `file` is a terminal that has them.
void say(std::FILE* file, const StyledText& text);

}  // namespace weft
