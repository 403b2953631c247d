// Regular expressions by PCRE2, for patterns that have no lexer of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "text/split/regex_syntax.h"

namespace weft::text {

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

}  // namespace weft::text
