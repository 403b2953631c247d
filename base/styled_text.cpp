#include "base/styled_text.h"

#include <array>

#include "base/printable.h"
#include "base/status_line.h"
#include "base/terminal.h"

namespace weft {
namespace {

// SGR sequences (ECMA-48) of Emphasis, in the 16 colours that every terminal's owner has chosen to be readable.
constexpr std::array<std::string_view, 6> kBegin = {"", "\x1b[1m", "\x1b[32m", "\x1b[31m", "\x1b[1;31m", "\x1b[33m"};
constexpr std::string_view kEnd = "\x1b[0m";

}  // namespace

StyledText& StyledText::add(std::string_view text, Emphasis emphasis) {
  if (text.empty()) return *this;
  if (!pieces_.empty() && pieces_.back().emphasis == emphasis) {
    pieces_.back().text += text;
  } else {
    pieces_.push_back({std::string(text), emphasis});
  }
  return *this;
}

StyledText& StyledText::add(const StyledText& text) {
  for (const Piece& piece : text.pieces_) add(piece.text, piece.emphasis);
  return *this;
}

std::string StyledText::plain() const {
  std::string text;
  for (const Piece& piece : pieces_) text += piece.text;
  return text;
}

std::string StyledText::coloured() const {
  std::string text;
  for (const Piece& piece : pieces_) {
    const std::string_view begin = kBegin.at(static_cast<std::size_t>(piece.emphasis));
    text += begin;
    text += printable(piece.text);
    if (!begin.empty()) text += kEnd;
  }
  return text;
}

void say(std::FILE* file, const StyledText& text) {
  write_above_status(file, terminal_of(file).colours ? text.coloured() : printable(text.plain()));
}

}  // namespace weft
