// Unicode's normal forms and lower case.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::text {

enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// `text`, which is UTF-8, in a normal form. ASCII is copied without being composed.
std::string normalized(std::string_view text, NormalForm form);

/// Each character in lower case by itself, as Rust's char::to_lowercase does: no rules for languages and endings.
std::string lower_case(std::string_view text);

/// Without the marks that don't take space (Mn).
std::string without_accents(std::string_view text);

}  // namespace weft::text
