#include "base/printable.h"

#include <array>

#include "base/status_line.h"
#include "base/utf8.h"

namespace weft {
namespace {

// SGR sequences (ECMA-48) of Emphasis, in the 16 colours that every terminal's owner has chosen to be readable.
constexpr std::array<std::string_view, 6> kBegin = {"", "\x1b[1m", "\x1b[32m", "\x1b[31m", "\x1b[1;31m", "\x1b[33m"};
constexpr std::string_view kEnd = "\x1b[0m";

bool turns_direction(std::uint32_t code) {
  return code == 0x061C || code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

/// Appends the first character of `text`, or its first byte if that isn't UTF-8; returns the number of bytes taken.
std::size_t append_first(std::string_view text, std::string& out) {
  const auto [code, length] = first_character(text);
  const bool control = code < 0x20 && code != '\n' && code != '\t';
  if (length == 0 || control) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text.front())));
    return 1;
  }
  if ((code >= 0x7F && code < 0xA0) || turns_direction(code)) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += text.substr(0, length);
  }
  return length;
}

}  // namespace

std::string PrintableStream::add(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty() && !breaks_off(rest)) rest.remove_prefix(append_first(rest, out));
  pending_ = std::string(rest);
  return out;
}

std::string PrintableStream::finish() {
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) rest.remove_prefix(append_first(rest, out));
  pending_.clear();
  return out;
}

std::string printable(std::string_view text) {
  PrintableStream stream;
  std::string out = stream.add(text);
  return out += stream.finish();
}

std::string printable_line(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\n' || c == '\t') out += '\\';
    out += c == '\n' ? 'n' : c == '\t' ? 't' : c;
  }
  return out;
}

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

void say_formatted(std::FILE* file, fmt::string_view format, fmt::format_args arguments) {
  write_above_status(file, printable(fmt::vformat(format, arguments)));
}

void say(std::FILE* file, const StyledText& text) {
  write_above_status(file, terminal_of(file).colours ? text.coloured() : printable(text.plain()));
}

}  // namespace weft
