// Which ids of a text hold ranges of its bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace weft::text {

/// Of `ids`, the ids of `text` as `tokenizer` encodes it with `options`: for each range of bytes the ids that hold a
/// part of it, as transformers' return_assistant_tokens_mask has them. Ranges are in order. Where a tokenizer changes
/// texts (normal forms, lower case), an id that reaches over the border of a range belongs to the range after it.
std::vector<IdRange> ids_of_ranges(const Tokenizer& tokenizer, std::string_view text, std::span<const std::int32_t> ids,
                                   std::span<const IdRange> ranges, const EncodeOptions& options);

}  // namespace weft::text
