// The steps of a tokenizer besides its model: tokens that are found in a text before it is split, special ones and
// those that a person added; changes of the text; the cut into words that the model encodes one by one; and the way
// from the texts of tokens back to a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "text/pipeline/text_place.h"
#include "text/split/lexer.h"
#include "text/split/pattern.h"
#include "text/unicode/characters.h"

namespace weft::text {

struct Lowercase {};
struct StripAccents {};
/// `text` before a text that isn't empty.
struct Prepend {
  std::string text;
};
struct ReplaceText {
  std::string from, to;
};
struct ReplaceMatches {
  Pattern from;
  std::string to;
};
/// White space at the ends.
struct StripSpace {
  bool left = false, right = false;
};

using NormalizerStep =
    std::variant<NormalForm, Lowercase, StripAccents, Prepend, ReplaceText, ReplaceMatches, StripSpace>;

/// Steps, one after the other. Immutable.
struct Normalizer {
  std::vector<NormalizerStep> steps;

  /// A text that continues another gets nothing prepended.
  std::string operator()(std::string_view text, TextPlace place = TextPlace::begins) const;
};

/// `text` with each `from`, which isn't empty, replaced.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

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

  /// Calls `take` for each word.
  void operator()(std::string_view text, TextPlace place, const std::function<void(std::string_view word)>& take) const;
  /// The lexer if it alone cuts the text.
  const Lexer* only_lexer() const;
};

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

struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool special = false;
  bool single_word = false;  // only where no word goes on before and behind it
  bool strip_left = false;   // white space before it belongs to it
  bool strip_right = false;  // and behind it
  bool normalized = false;   // it is looked for in the normalized text
};

/// Finds texts in a text: at each place the longest. Any number of threads may search.
class AddedTokens {
 public:
  using Normalize = std::function<std::string(std::string_view)>;

  AddedTokens() = default;
  /// `normalize` is applied to the texts of tokens that are looked for in normalized text, if there are any.
  explicit AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize = {});

  /// Calls `plain` for the pieces between tokens and `token` for tokens, in order; with `special` false, texts of
  /// special tokens are plain text. `normalized`: looks for the tokens of normalized text, else for the others.
  void split(std::string_view text, bool normalized, bool special, const std::function<void(std::string_view)>& plain,
             const std::function<void(const AddedToken&)>& token) const;

  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view text) const;
  std::optional<std::int32_t> id_of(std::string_view text) const;
  /// Whether a token could lie across a place where cut_after() cuts.
  bool may_cross_lines() const { return crosses_lines_; }

 private:
  using Index = std::map<std::string, std::size_t, std::less<>>;  // of tokens_, by text
  /// Texts that are looked for, and their first bytes.
  struct Wanted {
    Index tokens;
    std::array<bool, 256> begins{};
  };
  static Index::const_iterator longest_at_begin(const Wanted& wanted, std::string_view text);

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::int32_t, std::size_t> by_id_;
  Index by_text_;
  Wanted raw_, normalized_;
  bool crosses_lines_ = false;
};

}  // namespace weft::text
