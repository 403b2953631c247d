#include "base/printable.h"

#include "base/utf8.h"

namespace weft {
namespace {

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

}  // namespace weft
