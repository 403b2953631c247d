// Regular expressions by PCRE2, for patterns that have no lexer of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weft::text {

/// The library that a pattern was written for. They differ in the meaning of "$" and "^".
enum class RegexFlavour : std::uint8_t {
  oniguruma,  // the package `tokenizers`: borders of lines
  rust        // tiktoken: borders of the text
};

/// Immutable; any number of threads may search with it.
class Pattern {
 public:
  /// Throws UserError, with the position of the error in the expression; `place` opens the message.
  Pattern(std::string expression, RegexFlavour flavour, std::string_view place);

  /// Calls `take` for the pieces of `text`, which is UTF-8, in order: matches and what lies between them. A match of
  /// nothing between two characters is an empty piece. Throws RuntimeFault if a search takes too long.
  void for_each_piece(std::string_view text, const std::function<void(std::string_view piece, bool match)>& take) const;

 private:
  struct Compiled;

  std::string expression_;
  std::shared_ptr<const Compiled> compiled_;
};

/// `expression` for PCRE2: \s has Unicode's White_Space, of which PCRE2 has one character more. Nothing if it has sets
/// in sets or their intersections, which Oniguruma reads, and which PCRE2 would take as characters.
std::optional<std::string> in_pcre_syntax(std::string_view expression);

}  // namespace weft::text
