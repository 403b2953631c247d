#include "text/pipeline/pipeline.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <system_error>
#include <utility>

#include "base/overloaded.h"
#include "text/bpe/byte_alphabet.h"

namespace weft::text {
namespace {

struct Part {
  std::string_view text;
  bool match = false;
  bool removed = false;
};

/// The package `tokenizers`' treatment of matches, on parts that are the whole text.
std::vector<Part> treated(std::vector<Part> parts, Matches matches) {
  if (matches == Matches::isolated) return parts;
  if (matches == Matches::removed) {
    for (Part& part : parts) part.removed = part.match;
    return parts;
  }
  const bool to_next = matches == Matches::merged_with_next;
  if (to_next) std::ranges::reverse(parts);
  std::vector<Part> out;
  bool previous = false;
  for (const Part& part : parts) {
    const bool joins = matches == Matches::contiguous ? part.match == previous : part.match && !previous;
    if (joins && !out.empty()) {
      std::string_view& text = out.back().text;
      text = {to_next ? part.text.data() : text.data(), text.size() + part.text.size()};
    } else {
      out.push_back(part);
    }
    previous = part.match;
  }
  if (to_next) std::ranges::reverse(out);
  return out;
}

/// Matches and what lies between them. `find` gives the text of the next match from an offset on; empty: there is none.
template <class Find>
std::vector<Part> parts_of(std::string_view text, const Find& find) {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (std::string_view match = find(done); !match.empty(); match = find(done)) {
    const auto at = static_cast<std::size_t>(match.data() - text.data());
    if (at > done) parts.push_back({text.substr(done, at - done)});
    parts.push_back({match, true});
    done = at + match.size();
  }
  if (done < text.size()) parts.push_back({text.substr(done)});
  return parts;
}

std::vector<Part> parts_of_text(std::string_view text, const SplitByText& by) {
  return parts_of(text, [&](std::size_t from) {
    const std::size_t at = text.find(by.text, from);
    return at == std::string_view::npos ? std::string_view() : text.substr(at, by.text.size());
  });
}

std::vector<Part> parts_of_class(std::string_view text, std::uint8_t bits) {
  return parts_of(text, [&](std::size_t from) {
    while (from < text.size()) {
      const Decoded character = decode_valid(text.data() + from);
      if ((class_table()[character.code] & bits) != 0) return text.substr(from, character.length);
      from += character.length;
    }
    return std::string_view();
  });
}

/// The pieces of a text while steps cut it, and the texts that steps made.
class Cutting {
 public:
  struct Piece {
    std::string_view text;
    TextPlace place = TextPlace::after_token;
  };

  Cutting(std::string_view text, TextPlace place) : pieces_{{text, place}} {}

  void step(const SplitStep& step) {
    std::vector<Piece> before;
    before.swap(pieces_);
    for (const Piece& piece : before) {
      if (piece.text.empty()) continue;
      std::visit([&](const auto& by) { cut(piece, by); }, step);
    }
  }
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  void cut(const Piece& piece, const SplitByLexer& by) {
    for_each_piece(*by.lexer, piece.text, [&](std::string_view text) { add(piece, text); });
  }
  void cut(const Piece& piece, const SplitByPattern& by) {
    std::vector<Part> parts;
    by.pattern.for_each_piece(piece.text, [&](std::string_view text, bool match) {
      parts.push_back({text, match != by.invert});
    });
    add_all(piece, treated(std::move(parts), by.matches));
  }
  void cut(const Piece& piece, const SplitByText& by) {
    std::vector<Part> parts = parts_of_text(piece.text, by);
    for (Part& part : parts) part.match = part.match != by.invert;
    add_all(piece, treated(std::move(parts), by.matches));
  }
  void cut(const Piece& piece, const SplitByClass& by) {
    add_all(piece, treated(parts_of_class(piece.text, by.bits), by.matches));
  }
  void cut(const Piece& piece, const SpaceBefore&) {
    if (piece.text.starts_with(' ') || piece.place == TextPlace::continues) {
      pieces_.push_back(piece);
    } else {
      pieces_.push_back({made_.emplace_back(" " + std::string(piece.text)), piece.place});
    }
  }
  void cut(const Piece& piece, const Metaspace& by) {
    std::string text = replaced(piece.text, " ", by.blank);
    const bool may_prefix = by.scheme == PrefixScheme::always
                                ? piece.place != TextPlace::continues
                                : by.scheme == PrefixScheme::first && piece.place == TextPlace::begins;
    if (may_prefix && !text.starts_with(by.blank)) text.insert(0, by.blank);
    const Piece whole{made_.emplace_back(std::move(text)), piece.place};
    if (by.split) {
      cut(whole, SplitByText{by.blank, Matches::merged_with_next});
    } else {
      pieces_.push_back(whole);
    }
  }

  void add(const Piece& whole, std::string_view text) {
    const bool first = text.data() == whole.text.data();
    if (!text.empty()) pieces_.push_back({text, first ? whole.place : TextPlace::after_token});
  }
  void add_all(const Piece& whole, const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      if (!part.removed) add(whole, part.text);
    }
  }

  std::vector<Piece> pieces_;
  std::deque<std::string> made_;
};

void decode_step(const DecodeByteFallback&, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_fallback(token)) token.assign(1, *byte);
  }
}

void decode_step(const DecodeFuse&, std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  tokens = {std::move(all)};
}

void decode_step(const DecodeByteLevel&, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) {
    if (auto bytes = bytes_of_alphabet(token)) token = std::move(*bytes);
  }
  decode_step(DecodeFuse(), tokens);
}

void decode_step(const DecodeReplace& step, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) token = replaced(token, step.from, step.to);
}

void decode_step(const DecodeStrip& step, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) {
    std::string_view text = token;
    for (std::size_t i = 0; i < step.start && text.starts_with(step.content); ++i) {
      text.remove_prefix(step.content.size());
    }
    for (std::size_t i = 0; i < step.stop && text.ends_with(step.content); ++i) {
      text.remove_suffix(step.content.size());
    }
    token = std::string(text);
  }
}

void decode_step(const DecodeMetaspace& step, std::vector<std::string>& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool drop = i == 0 && step.scheme != PrefixScheme::never;
    tokens[i] = replaced(tokens[i], step.blank, drop ? "" : " ");
  }
}

bool word_ends(std::string_view text) {
  return !text.empty() && is_word_character(decode_valid_before(text.data() + text.size()).code);
}

bool word_begins(std::string_view text) {
  return !text.empty() && is_word_character(decode_valid(text.data()).code);
}

}  // namespace

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return out.append(text.substr(done));
}

std::string Normalizer::operator()(std::string_view text, TextPlace place) const {
  std::string out(text);
  for (const NormalizerStep& step : steps) {
    std::visit(Overloaded{[&](NormalForm form) { out = normalized(out, form); },
                          [&](const Lowercase&) { out = lower_case(out); },
                          [&](const StripAccents&) { out = without_accents(out); },
                          [&](const Prepend& prepend) {
                            if (!out.empty() && place != TextPlace::continues) out.insert(0, prepend.text);
                          },
                          [&](const ReplaceText& replace) { out = replaced(out, replace.from, replace.to); },
                          [&](const ReplaceMatches& replace) {
                            std::string made;
                            replace.from.for_each_piece(out, [&](std::string_view piece, bool match) {
                              made.append(match ? std::string_view(replace.to) : piece);
                            });
                            out = std::move(made);
                          },
                          [&](const StripSpace& ends) {
                            if (ends.right) out.erase(out.size() - space_at_end(out));
                            if (ends.left) out.erase(0, space_at_begin(out));
                          }},
               step);
  }
  return out;
}

const Lexer* PreTokenizer::only_lexer() const {
  if (steps.size() != 1) return nullptr;
  const auto* by = std::get_if<SplitByLexer>(&steps.front());
  return by == nullptr ? nullptr : by->lexer;
}

void PreTokenizer::operator()(std::string_view text, TextPlace place,
                              const std::function<void(std::string_view word)>& take) const {
  Cutting cutting(text, place);
  for (const SplitStep& step : steps) cutting.step(step);
  for (const auto& piece : cutting.pieces()) {
    if (!piece.text.empty()) take(piece.text);
  }
}

std::optional<char> byte_of_fallback(std::string_view token) {
  constexpr std::size_t kSize = 6;
  if (token.size() != kSize || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const char *begin = token.data() + 3, *end = begin + 2;
  const auto [stop, error] = std::from_chars(begin, end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(value);
}

std::string Decoder::operator()(std::vector<std::string> tokens) const {
  for (const DecoderStep& step : steps) {
    std::visit([&](const auto& one) { decode_step(one, tokens); }, step);
  }
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += separator;
    text += tokens[i];
  }
  return text;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    by_id_.emplace(token.id, i);
    by_text_.emplace(token.text, i);
    const std::string text = token.normalized ? normalize(token.text) : token.text;
    if (text.empty()) continue;
    Wanted& wanted = token.normalized ? normalized_ : raw_;
    wanted.tokens[text] = i;
    wanted.begins[static_cast<unsigned char>(text.front())] = true;
    const bool word = word_begins(text.substr(0, 1)) && static_cast<unsigned char>(text[0]) < 0x80;
    crosses_lines_ = crosses_lines_ || word || text.find('\n') != std::string::npos;
  }
}

/// The longest of the texts that `text` begins with; the end if there is none.
AddedTokens::Index::const_iterator AddedTokens::longest_at_begin(const Wanted& wanted, std::string_view text) {
  if (!wanted.begins[static_cast<unsigned char>(text.front())]) return wanted.tokens.end();
  while (true) {
    auto found = wanted.tokens.upper_bound(text);
    if (found == wanted.tokens.begin()) return wanted.tokens.end();
    --found;
    if (text.starts_with(found->first)) return found;
    // What is longer than the part that they share is no beginning of `text`.
    text = text.substr(0, static_cast<std::size_t>(std::ranges::mismatch(found->first, text).in2 - text.begin()));
  }
}

void AddedTokens::split(std::string_view text, bool normalized, bool special,
                        const std::function<void(std::string_view)>& plain,
                        const std::function<void(const AddedToken&)>& token) const {
  const Wanted& wanted = normalized ? normalized_ : raw_;
  std::size_t done = 0;
  for (std::size_t at = 0; !wanted.tokens.empty() && at < text.size();) {
    const auto match = longest_at_begin(wanted, text.substr(at));
    if (match == wanted.tokens.end()) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + match->first.size();
    at = end;
    const AddedToken& found = tokens_[match->second];
    if (found.special && !special) continue;
    if (found.single_word && (word_ends(text.substr(0, begin)) || word_begins(text.substr(end)))) continue;
    if (found.strip_left) begin = std::max(begin - space_at_end(text.substr(0, begin)), done);
    if (found.strip_right) end += space_at_begin(text.substr(end));
    if (begin > done) plain(text.substr(done, begin - done));
    token(found);
    done = end;
  }
  if (done < text.size()) plain(text.substr(done));
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? nullptr : &tokens_[found->second];
}

std::optional<std::int32_t> AddedTokens::id_of(std::string_view text) const {
  const AddedToken* token = find(text);
  return token == nullptr ? std::nullopt : std::optional(token->id);
}

}  // namespace weft::text
