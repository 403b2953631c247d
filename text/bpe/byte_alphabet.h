// GPT-2's alphabet: a printable character for each byte, so that vocabularies of bytes can be text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::text {

/// GPT-2's special token between texts.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// The code point for each byte: bytes 33–126, 161–172 and 174–255 have their own number, the others follow from 256.
const std::array<std::uint16_t, 256>& byte_alphabet();

/// " é" → "ĠÃ©"
std::string in_byte_alphabet(std::string_view bytes);

/// The bytes of a text of this alphabet; nothing if it has another character.
std::optional<std::string> bytes_of_alphabet(std::string_view text);

}  // namespace weft::text
