#include "text/split/lexer.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>

#include "text/unicode/characters.h"

namespace weft::text {
namespace {

constexpr std::uint8_t kSymbols = kMark | kOther;  // neither L nor N nor white space

/// A character and its class.
struct Character {
  std::uint32_t length = 0;
  std::uint8_t bits = 0;
};

struct Reader {
  const std::uint8_t* table = class_table();
  const char* end;

  Character at(const char* place) const {
    const Decoded decoded = decode_valid(place);
    return {decoded.length, table[decoded.code]};
  }
  /// Behind the characters from `place` on whose class is among `bits`, at most `most` of them.
  const char* run(const char* place, std::uint8_t bits, int most = INT_MAX) const {
    for (; place < end && most > 0; --most) {
      const Character character = at(place);
      if ((character.bits & bits) == 0) break;
      place += character.length;
    }
    return place;
  }
};

bool is_newline(char c) {
  return c == '\n' || c == '\r';
}

/// The end of 's, 't, 're, 've, 'm, 'll or 'd at `at`, or `at`. `any_case` counts "ſ" as an s, as Unicode does.
const char* contraction(const char* at, const char* end, bool any_case) {
  if (end - at < 2 || *at != '\'') return at;
  const auto letter = [&](const char* place) {
    const char c = *place;
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (end - at < 3) return at;
  if (any_case && at[1] == '\xC5' && at[2] == '\xBF') return at + 3;
  const char second = letter(at + 2);
  const bool is_one = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return is_one ? at + 3 : at;
}

/// White space up to its last line end, if line ends count; else all of it but the last character, if something
/// follows: \s*[\r\n]+|\s+(?!\S)|\s+
const char* white_space(const Reader& reader, const char* at, bool line_ends, bool whole_end = false) {
  const char *stop = at, *before = at, *behind_newline = nullptr;
  while (stop < reader.end) {
    const Character character = reader.at(stop);
    if ((character.bits & kSpace) == 0) break;
    before = stop;
    stop += character.length;
    if (line_ends && is_newline(*before)) behind_newline = stop;
  }
  if (whole_end && stop == reader.end) return stop;
  if (behind_newline != nullptr) return behind_newline;
  return stop == reader.end || before == at ? stop : before;
}

const char* next_gpt2(const char* at, const char* end) {
  const Reader reader{.end = end};
  if (const char* stop = contraction(at, end, false); stop != at) return stop;
  const char* begin = *at == ' ' && at + 1 < end ? at + 1 : at;
  const Character first = reader.at(begin);
  if ((first.bits & kSpace) != 0) return white_space(reader, at, false);
  if ((first.bits & kLetter) != 0) return reader.run(begin, kLetter);
  if ((first.bits & kNumber) != 0) return reader.run(begin, kNumber);
  return reader.run(begin, kSymbols);
}

/// The differences between the patterns that followed GPT-2's.
struct Rules {
  int most_digits;     // of a number
  bool cased = false;  // words end where a capital follows; contractions stay with their word
  bool contractions = true;
  bool slashes = false;    // line ends and slashes follow punctuation, else line ends alone
  bool whole_end = false;  // white space at the text's end is one piece, with its line ends
};

/// [^\r\n\p{L}\p{N}]?\p{L}+, or `at`.
const char* word(const Reader& reader, const char* at, const Character& first) {
  const char* begin = at;
  if ((first.bits & kLetter) == 0) {
    if ((first.bits & kNumber) != 0 || is_newline(*at)) return at;
    begin += first.length;
    if (begin == reader.end || (reader.at(begin).bits & kLetter) == 0) return at;
  }
  return reader.run(begin, kLetter);
}

constexpr std::uint8_t kHead = kUpper | kCaseless | kMark, kTail = kLower | kCaseless | kMark;

/// The end of [head]*[tail]+ at `at`, or `at`: the expression gives heads back until a tail is left.
const char* head_and_tail(const Reader& reader, const char* at) {
  const char *stop = at, *last_tail = at;
  while (stop < reader.end) {
    const Character character = reader.at(stop);
    if ((character.bits & kHead) == 0) {
      if ((character.bits & kTail) != 0) return reader.run(stop, kTail);
      break;
    }
    stop += character.length;
    if ((character.bits & kTail) != 0) last_tail = stop;
  }
  return last_tail;
}

/// A word of o200k, without its contraction, or `at`.
const char* cased_word(const Reader& reader, const char* at, const Character& first) {
  const bool may_precede = (first.bits & (kLetter | kNumber)) == 0 && !is_newline(*at);
  const char* behind = at + first.length;
  if (may_precede && behind < reader.end) {
    if (const char* stop = head_and_tail(reader, behind); stop != behind) return stop;
  }
  if (const char* stop = head_and_tail(reader, at); stop != at) return stop;
  // No tail: capitals alone.
  if (may_precede) {
    if (const char* stop = reader.run(behind, kHead); stop != behind) return stop;
  }
  return reader.run(at, kHead);
}

template <Rules rules>
const char* next_by(const char* at, const char* end) {
  const Reader reader{.end = end};
  if (rules.contractions && !rules.cased && *at == '\'') {
    if (const char* stop = contraction(at, end, true); stop != at) return stop;
  }
  const Character first = reader.at(at);
  if (rules.cased) {
    if (const char* stop = cased_word(reader, at, first); stop != at) {
      return rules.contractions ? contraction(stop, end, true) : stop;
    }
  } else if (const char* stop = word(reader, at, first); stop != at) {
    return stop;
  }
  if ((first.bits & kNumber) != 0) return reader.run(at, kNumber, rules.most_digits);
  const char* begin = *at == ' ' && at + 1 < end ? at + 1 : at;
  if (const char* stop = reader.run(begin, kSymbols); stop != begin) {
    while (stop < end && (is_newline(*stop) || (rules.slashes && *stop == '/'))) ++stop;
    return stop;
  }
  return white_space(reader, at, true, rules.whole_end);
}

constexpr Rules kThreeDigits{.most_digits = 3}, kTwoDigits{.most_digits = 2}, kOneDigit{.most_digits = 1},
    kTiktokenCl100k{.most_digits = 3, .whole_end = true}, kO200k{.most_digits = 3, .cased = true, .slashes = true},
    kTekken{.most_digits = 1, .cased = true, .contractions = false, .slashes = true};

constexpr std::array kLexers = {
    Lexer{"gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", &next_gpt2},
    Lexer{"gpt2", R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)", &next_gpt2},
    Lexer{
        "llama3",
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        &next_by<kThreeDigits>},
    Lexer{
        "cl100k",
        R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
        &next_by<kTiktokenCl100k>, true},
    Lexer{
        "two-digits",
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        &next_by<kTwoDigits>},
    Lexer{
        "two-digits",
        R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
        &next_by<kTwoDigits>},
    Lexer{
        "qwen2",
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        &next_by<kOneDigit>},
    Lexer{
        "o200k",
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        &next_by<kO200k>},
    Lexer{
        "tekken",
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
        &next_by<kTekken>},
};

}  // namespace

std::span<const Lexer> lexers() {
  return kLexers;
}

const Lexer* lexer_of(std::string_view expression) {
  const auto found = std::ranges::find(kLexers, expression, &Lexer::expression);
  return found == kLexers.end() ? nullptr : &*found;
}

const Lexer* lexer_named(std::string_view name) {
  const auto found = std::ranges::find(kLexers, name, &Lexer::name);
  return found == kLexers.end() ? nullptr : &*found;
}

std::size_t cut_after(std::string_view text, std::size_t from) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  for (std::size_t at = text.find('\n', from); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (at == 0 || at + 1 >= text.size() || !is_word(text[at + 1])) continue;
    const Decoded before = decode_valid_before(text.data() + at);
    if ((class_table()[before.code] & kSpace) == 0) return at + 1;
  }
  return text.size();
}

}  // namespace weft::text
