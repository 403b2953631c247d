// The sequences into which a stream of tokens is cut.
#pragma once

#include <cstdint>
#include <vector>

#include "train/data/token_stream.h"

namespace weft::train {

/// Tokens of a stream that one sequence reads. The target of each is the token after it, where the stream has one.
struct TokenWindow {
  std::uint64_t begin = 0, tokens = 0;
  friend bool operator==(const TokenWindow&, const TokenWindow&) = default;
};

/// Sequences of whole documents: each takes as many as fit, in the stream's order, and the rest of it is padding. A
/// document that is longer than `seq_len` begins a sequence of its own and is cut after each `seq_len` tokens; its last
/// piece may be followed by other documents. Every token is in exactly one window. `stream` knows its documents.
///
/// Example: documents of 3, 4, 9 and 2 tokens in sequences of 8: {0, 7}, {7, 8}, {15, 3}.
std::vector<TokenWindow> document_windows(const TokenStream& stream, std::int64_t seq_len);

}  // namespace weft::train
