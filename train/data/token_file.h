// Token files (.bin): the position and width of their ids, a check against the vocabulary, where documents begin, and
// which of them are held out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/data/token_stream.h"

namespace weft::train {

/// By its name: x.bin.
inline bool is_token_file(const std::filesystem::path& path) {
  return path.extension() == ".bin";
}

/// What the description of a token file tells of its ids, as far as it does.
struct TokenDescription {
  std::optional<std::uint64_t> tokenizer = {};  // its digest
  std::optional<std::int32_t> vocabulary = {};  // of the tokenizer
  std::optional<std::int32_t> separator = {};   // before each document
  std::vector<text::IdRange> ignored = {};      // tokens that aren't learnt, in order
};

/// A file that was read through once.
struct CheckedTokens {
  TokenStream::Part part;      // all of its tokens
  std::uint32_t checksum = 0;  // CRC-32C of the bytes of their ids
  TokenDescription described = {};
};

/// The tokenizer whose ids a model reads.
struct ExpectedTokenizer {
  std::uint64_t digest = 0;
  std::optional<std::int32_t> vocabulary = {};  // as descriptions tell it, if it is known
  std::string named = {};                       // for messages: where it comes from
};

/// A .bin file: llm.c's format (header of 256 int32: 20240520, 1, count, then u16 ids; or 20240801, 7, count, then u32
/// ids), or bare ids as nanoGPT writes them, little-endian. `width`: of bare ids. `automatic` takes u16 where the
/// file's ids are below `vocab` at that width and not at u32; where both widths or none fit, the file is refused.
///
/// If ids of 32 bits are below the vocabulary, so are their 16-bit halves, of which every second is 0 or small. So
/// `automatic` never takes u32, and refuses files that look like it.
///
/// Throws UserError, naming the file: of another kind, truncated, of a length that the width doesn't divide, or with an
/// id outside of the vocabulary (with its position).
CheckedTokens check_token_file(const std::shared_ptr<const InputFile>& file, TokenWidth width, std::int64_t vocab);

/// The first token of each document of a checked file, in order; the first of all is 0. A text is one document. Of a
/// token file the description that `weft tokenize` wrote beside it tells them. Throws UserError if it has none, or one
/// of another file; `instead` is what the user may do then, beside writing a description.
std::vector<std::uint64_t> document_begins(const CheckedTokens& file, const std::string& instead);

/// What is known of a checked file's ids: of a text those of bytes, of a token file what the description that
/// `weft tokenize` wrote beside it tells. Throws UserError if that is of another file: by the number or the width of
/// its ids, or by the separators before its documents.
TokenDescription description_of(const CheckedTokens& file);

/// The digest of the tokenizer of all files, as far as they tell it, else that of `expected`. Notes how many don't tell
/// it, where it is known. Throws UserError, naming a file, unless `accepts_others`: of another tokenizer than
/// `expected` or than another file, or of the same with another vocabulary or separator.
std::optional<std::uint64_t> one_tokenizer(std::span<const CheckedTokens> files,
                                           const std::optional<ExpectedTokenizer>& expected, bool accepts_others,
                                           std::vector<std::string>& notes);

/// Whether a document is held out. Of each ten documents in a row one is: number 10·g + mixed_bits(g) mod 10 of tens g,
/// counted from 0; the last tens have none if they aren't full. Of fewer than ten documents in all, number
/// mixed_bits(0) mod `documents` is. So it is the same on every rank and for a run that goes on.
bool is_held_out_document(std::uint64_t number, std::uint64_t documents);

}  // namespace weft::train
