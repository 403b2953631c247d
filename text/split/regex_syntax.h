// Regular expressions of tokenizers, which Oniguruma or Rust's crates were to read, in the syntax of PCRE2.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace weft::text {

/// The library that a pattern was written for. They differ in the meaning of most escapes, of POSIX's classes, "$",
/// "^", "(?m)" and intervals.
enum class RegexFlavour : std::uint8_t {
  oniguruma,  // the package `tokenizers`: borders of lines, sets by Unicode
  rust        // tiktoken, by fancy-regex and regex: borders of the text
};

/// An expression for PCRE2 (UTF, UCP) with the matches that the flavour's library finds. `refuse`, which throws, gets
/// the construct that isn't known to mean the same, and what it is: "\Q, which Oniguruma takes for a letter".
std::string in_pcre_syntax(std::string_view expression, RegexFlavour flavour,
                           const std::function<void(const std::string& construct)>& refuse);

}  // namespace weft::text
