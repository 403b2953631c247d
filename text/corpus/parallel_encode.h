// Encodes many texts with several threads, in their order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "text/corpus/text_files.h"
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
  TextFiles& files;     // of which each piece of a part is encoded by itself
  /// Takes the result of a part, whose text is gone, in the order of the files. Called by one thread at a time.
  std::function<void(const TextPart&, const EncodedPart&)> take;
};

/// Throws what the files and `take` throw.
void encode_in_order(const ParallelEncode& work);

}  // namespace weft::text
