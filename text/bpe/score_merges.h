// The merges that a vocabulary with scores means, as SentencePiece's models and GGUF files have it: of two neighbours
// the pair whose token has the highest score is merged first.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::text {

/// Two tokens that together are a token.
using TokenPair = std::pair<std::string_view, std::string_view>;

/// All pairs, best first, in the order of transformers' generate_merges(): by the score of their token, then by the
/// lengths of left and right in characters, the longest first. `tokens` are UTF-8, each once, in the order of ids, with
/// a score each. The pairs refer to `tokens`.
std::vector<TokenPair> merges_by_scores(std::span<const std::string> tokens, std::span<const double> scores);

}  // namespace weft::text
