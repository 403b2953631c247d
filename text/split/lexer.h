// The patterns of well-known models, cut by hand-written lexers: many times as fast as a regular expression.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace weft::text {

/// The end of the piece that begins at `at`, which isn't `end`, of text that is UTF-8. A piece is never empty, and the
/// pieces are the whole text.
using NextPiece = const char* (*)(const char* at, const char* end);

struct Lexer {
  std::string_view name;        // "gpt2", for command lines and messages
  std::string_view expression;  // the regular expression whose matches the pieces are
  NextPiece next;
  bool rust_alone = false;  // Oniguruma finds other matches of the expression
};

/// Calls `take` for each piece of `text`, which is UTF-8.
template <class Take>
void for_each_piece(const Lexer& lexer, std::string_view text, Take take) {
  const char* end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* stop = lexer.next(at, end);
    take(std::string_view(at, static_cast<std::size_t>(stop - at)));
    at = stop;
  }
}

/// All lexers. Several expressions may share a name: the first is the one to write.
std::span<const Lexer> lexers();

/// The lexer of an expression, character by character.
const Lexer* lexer_of(std::string_view expression);
/// The first lexer of a name.
const Lexer* lexer_named(std::string_view name);

/// A place after `from` where a long text may be cut: the pieces of the two parts are those of the whole, under each of
/// lexers(). It stands before an ASCII letter or digit that begins a line, where the line before isn't empty and
/// doesn't end in white space. The text's size if there is no such place.
std::size_t cut_after(std::string_view text, std::size_t from);

}  // namespace weft::text
