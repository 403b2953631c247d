// Encodes many texts with several threads, in their order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "text/corpus/id_range.h"
#include "text/corpus/text_files.h"
#include "text/corpus/text_pieces.h"
#include "text/tokenizer.h"

namespace weft::text {

struct EncodedPart {
  std::span<const std::int32_t> ids;
  std::vector<IdRange> ignored = {};  // of `ids`: the pieces that aren't learnt
  std::uint64_t text_bytes = 0;
  bool differs = false;  // the ids of a piece were decoded to another text
};

struct ParallelEncode {
  const Tokenizer& tokenizer;
  EncodeOptions options;
  int threads = 1;
  bool verify = false;  // decodes the ids again
  /// The next part; nothing at the end. Called by one thread at a time, as `take` is.
  std::function<std::optional<TextPart>()> next;
  /// The pieces of a line of JSON, each of which is encoded by itself. Called by several threads.
  std::function<std::vector<TextPiece>(const TextPart&)> pieces;
  /// Takes the result of a part, whose text is gone, in the order of next().
  std::function<void(const TextPart&, const EncodedPart&)> take;
};

/// Throws what a callback throws.
void encode_in_order(const ParallelEncode& work);

}  // namespace weft::text
