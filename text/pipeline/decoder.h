// From the texts of tokens back to a text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pipeline/pre_tokenizer.h"

namespace weft::text {

/// Tokens such as <0x0A> become their byte.
struct DecodeByteFallback {};
/// All tokens become one.
struct DecodeFuse {};
/// Bytes of the alphabet of bytes; a token with another character stays as it is.
struct DecodeByteLevel {};
struct DecodeReplace {
  std::string from, to;
};
/// Up to so many of a character at the begin and the end of each token.
struct DecodeStrip {
  std::string content;
  std::size_t start = 0, stop = 0;
};
struct DecodeMetaspace {
  std::string blank = "\xE2\x96\x81";
  PrefixScheme scheme = PrefixScheme::always;
};

using DecoderStep =
    std::variant<DecodeByteFallback, DecodeFuse, DecodeByteLevel, DecodeReplace, DecodeStrip, DecodeMetaspace>;

/// The byte that a token such as "<0x0A>" stands for.
std::optional<char> byte_of_fallback(std::string_view token);

/// Steps, each on all tokens. Immutable.
struct Decoder {
  std::vector<DecoderStep> steps;
  std::string separator;  // between the tokens that the steps leave

  std::string operator()(std::vector<std::string> tokens) const;
};

}  // namespace weft::text
