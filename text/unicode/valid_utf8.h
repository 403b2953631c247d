// The rule for bytes that aren't UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace weft::text {

/// `text` if it is UTF-8. If not, its copy in `storage`, in which each incomplete or wrong sequence is U+FFFD: one for
/// the longest beginning of a character, as Unicode recommends and as Python's errors="replace" does.
std::string_view valid_utf8(std::string_view text, std::string& storage);

}  // namespace weft::text
