// Token files (.bin): the position and width of their ids, a check against the vocabulary, where documents begin, and
// which of them are held out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/config/config.h"
#include "train/data/token_stream.h"

namespace weft::train {

/// By its name: x.bin.
inline bool is_token_file(const std::filesystem::path& path) {
  return path.extension() == ".bin";
}

/// A file that was read through once.
struct CheckedTokens {
  TokenStream::Part part;                   // all of its tokens
  std::uint32_t checksum = 0;               // CRC-32C of the bytes of their ids
  std::vector<text::IdRange> ignored = {};  // tokens that aren't learnt, in order
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

/// The tokens of a checked file that aren't learnt: prompts, and messages to an assistant. They are in the description
/// that `weft tokenize` wrote beside it. Throws UserError if that is of another file.
std::vector<text::IdRange> ignored_ranges(const CheckedTokens& file);

/// Whether a document is held out. Of each ten documents in a row one is: number 10·g + mixed_bits(g) mod 10 of tens g,
/// counted from 0; the last tens have none if they aren't full. Of fewer than ten documents in all, number
/// mixed_bits(0) mod `documents` is. So it is the same on every rank and for a run that goes on.
bool is_held_out_document(std::uint64_t number, std::uint64_t documents);

}  // namespace weft::train
