// Cuts a text into the words that the model encodes one by one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/split/lexer.h"
#include "text/split/pattern.h"

namespace weft::text {

/// What becomes of the matches of a pattern.
enum class Matches : std::uint8_t { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// Where a word begins that had a space before it.
enum class PrefixScheme : std::uint8_t { always, first, never };

/// A pattern with a lexer of its own, whose matches are the whole text.
struct SplitByLexer {
  const Lexer* lexer;
};
struct SplitByPattern {
  Pattern pattern;
  Matches matches = Matches::isolated;
  bool invert = false;  // matches are what lies between matches
};
struct SplitByText {
  std::string text;
  Matches matches = Matches::isolated;
  bool invert = false;
};
/// Cuts around characters with one of these CharClass bits.
struct SplitByClass {
  std::uint8_t bits = 0;
  Matches matches = Matches::isolated;
};
/// A space before a text that doesn't begin with one.
struct SpaceBefore {};
/// SentencePiece's "▁" in place of spaces, and before a text.
struct Metaspace {
  std::string blank = "\xE2\x96\x81";
  PrefixScheme scheme = PrefixScheme::always;
  bool split = true;
};

using SplitStep = std::variant<SplitByLexer, SplitByPattern, SplitByText, SplitByClass, SpaceBefore, Metaspace>;

/// Steps, each of which cuts the pieces of the one before. Immutable.
struct PreTokenizer {
  std::vector<SplitStep> steps;
  bool bytes = false;  // words are bytes: ByteLevel is among the components

  /// Calls `take` for each word. `begins`: the text stands at the begin of the whole text.
  void operator()(std::string_view text, bool begins, const std::function<void(std::string_view word)>& take) const;
  /// The lexer if it alone cuts the text.
  const Lexer* only_lexer() const;
};

}  // namespace weft::text
