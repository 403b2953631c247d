#include "base/text_width.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace weft {
namespace {

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
