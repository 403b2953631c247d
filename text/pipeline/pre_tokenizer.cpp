#include "text/pipeline/pre_tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/overloaded.h"
#include "text/pipeline/normalizer.h"
#include "text/unicode/char_class.h"

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
    bool begins = false;  // at the begin of the whole text
  };

  Cutting(std::string_view text, bool begins) : pieces_{{text, begins}} {}

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
    if (piece.text.starts_with(' ')) {
      pieces_.push_back(piece);
    } else {
      pieces_.push_back({made_.emplace_back(" " + std::string(piece.text)), piece.begins});
    }
  }
  void cut(const Piece& piece, const Metaspace& by) {
    std::string text = replaced(piece.text, " ", by.blank);
    const bool prefix = by.scheme == PrefixScheme::always || (by.scheme == PrefixScheme::first && piece.begins);
    if (prefix && !text.starts_with(by.blank)) text.insert(0, by.blank);
    const Piece whole{made_.emplace_back(std::move(text)), piece.begins};
    if (by.split) {
      cut(whole, SplitByText{by.blank, Matches::merged_with_next});
    } else {
      pieces_.push_back(whole);
    }
  }

  void add(const Piece& whole, std::string_view text) {
    if (!text.empty()) pieces_.push_back({text, whole.begins && text.data() == whole.text.data()});
  }
  void add_all(const Piece& whole, const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      if (!part.removed) add(whole, part.text);
    }
  }

  std::vector<Piece> pieces_;
  std::deque<std::string> made_;
};

}  // namespace

const Lexer* PreTokenizer::only_lexer() const {
  if (steps.size() != 1) return nullptr;
  const auto* by = std::get_if<SplitByLexer>(&steps.front());
  return by == nullptr ? nullptr : by->lexer;
}

void PreTokenizer::operator()(std::string_view text, bool begins,
                              const std::function<void(std::string_view word)>& take) const {
  Cutting cutting(text, begins);
  for (const SplitStep& step : steps) cutting.step(step);
  for (const auto& piece : cutting.pieces()) {
    if (!piece.text.empty()) take(piece.text);
  }
}

}  // namespace weft::text
