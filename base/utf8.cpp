#include "base/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

/// Bytes of a character whose first byte is `first`; 0 if no character begins with it.
std::size_t length_by(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xC2 ? 0 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : byte < 0xF5 ? 4 : 0;
}

/// The first byte that isn't UTF-8, or the size.
std::size_t valid_bytes(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t word = 0;
    if (text.size() - at >= sizeof word) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & kHighBits) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const std::size_t length = first_character(text.substr(at)).length;
    if (length == 0) return at;
    at += length;
  }
  return at;
}

/// Removes the first character, or a byte that isn't UTF-8, from `line`; returns its columns: one of a byte that isn't
/// printed as it is.
std::size_t take_first(std::string_view& line) {
  const Utf8Character character = first_character(line);
  line.remove_prefix(std::max<std::size_t>(1, character.length));
  if (character.length == 0 || character.code < ' ') return 1;
  return static_cast<std::size_t>(utf8proc_charwidth(static_cast<utf8proc_int32_t>(character.code)));
}

void wrap_line(std::string_view text, std::size_t columns, std::vector<std::string>& lines) {
  std::string line;
  std::size_t width = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    const std::size_t word_width = text_width(word);
    if (!line.empty() && width + 1 + word_width > columns) {
      lines.push_back(std::move(line));
      line.clear();
      width = 0;
    }
    if (!line.empty()) {
      line += ' ';
      ++width;
    }
    line += word;
    width += word_width;
  }
  lines.push_back(std::move(line));
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  utf8proc_int32_t code = 0;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (length <= 0) return {};
  return {static_cast<std::uint32_t>(code), static_cast<std::size_t>(length)};
}

bool breaks_off(std::string_view text) {
  const std::size_t length = text.empty() ? 0 : length_by(text.front());
  if (length <= text.size()) return false;
  // Of the bytes that may follow, the least or the greatest makes a character if any does.
  return std::ranges::any_of(std::string_view("\x80\xBF"), [&](char rest) {
    return first_character(std::string(text) + std::string(length - text.size(), rest)).length > 0;
  });
}

bool is_utf8(std::string_view text) {
  return valid_bytes(text) == text.size();
}

std::string_view valid_utf8(std::string_view text, std::string& storage) {
  std::size_t valid = valid_bytes(text);
  if (valid == text.size()) return text;
  storage.clear();
  storage.reserve(text.size() + 64);
  while (true) {
    storage.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return storage;
    storage.append("\xEF\xBF\xBD");
    std::size_t wrong = 1;
    while (wrong < text.size() && breaks_off(text.substr(0, wrong + 1))) ++wrong;
    text.remove_prefix(wrong);
    valid = valid_bytes(text);
  }
}

std::string utf8_or_ascii(std::string text) {
  if (is_utf8(text)) return text;
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x80 ? c : '?';
  return text;
}

std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

void append_character(std::string& text, std::uint32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::size_t text_width(std::string_view line) {
  std::size_t width = 0;
  while (!line.empty()) width += take_first(line);
  return width;
}

std::string cut_to_width(std::string_view line, std::size_t columns) {
  if (text_width(line) <= columns) return std::string(line);
  if (columns == 0) return "";
  std::string_view rest = line;
  std::size_t kept = 0;
  for (std::size_t width = 0; !rest.empty();) {
    width += take_first(rest);
    if (width + 1 > columns) break;
    kept = line.size() - rest.size();
  }
  return std::string(line.substr(0, kept)) + "…";
}

std::vector<std::string> wrap(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    wrap_line(line, columns, lines);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return lines;
}

}  // namespace weft
