#include "base/hash.h"

#include <fmt/format.h>

#include <charconv>

namespace weft {

std::string hex_fingerprint(std::uint64_t value) {
  return fmt::format("{:#018x}", value);
}

std::optional<std::uint64_t> parse_hex_fingerprint(std::string_view text) {
  std::uint64_t value = 0;
  if (!text.starts_with("0x")) return std::nullopt;
  std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  return hex_fingerprint(value) == text ? std::optional(value) : std::nullopt;
}

}  // namespace weft
