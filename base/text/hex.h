// Fingerprints as files write them: 0x and 16 lower-case hexadecimal digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

inline constexpr std::string_view kHexFingerprint = "0x and 16 hex digits";

std::string hex_fingerprint(std::uint64_t value);
/// Nothing unless `text` has the form that hex_fingerprint() writes.
std::optional<std::uint64_t> parse_hex_fingerprint(std::string_view text);

}  // namespace weft
