// The part of an error's message that fits into a table.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// The first line: of a UserError what was found and expected, without the fix. Never empty.
inline std::string first_line(std::string_view message) {
  const std::string line(message.substr(0, message.find('\n')));
  return line.empty() ? "no reason is known" : line;
}

}  // namespace weft
