// Token files (.bin): the position and width of their ids, and a check against the vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/config/config.h"
#include "train/data/token_stream.h"

namespace weft::train {

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

}  // namespace weft::train
