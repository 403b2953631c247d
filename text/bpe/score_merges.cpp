#include "text/bpe/score_merges.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <unordered_map>

#include "base/utf8.h"

namespace weft::text {

std::vector<TokenPair> merges_by_scores(std::span<const std::string> tokens, std::span<const double> scores) {
  struct Scored {
    double score;
    std::size_t left_length, right_length, left, right;
    TokenPair pair;
  };
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < tokens.size(); ++id) ids.emplace(tokens[id], id);
  std::vector<Scored> all;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    std::vector<std::size_t> starts;  // of characters
    for (std::size_t at = 0; at < token.size(); at += first_character(token.substr(at)).length) starts.push_back(at);
    const auto first = std::ssize(all);
    for (std::size_t i = 1; i < starts.size(); ++i) {
      const TokenPair pair{token.substr(0, starts[i]), token.substr(starts[i])};
      const auto left = ids.find(pair.first), right = ids.find(pair.second);
      if (left == ids.end() || right == ids.end()) continue;
      all.push_back({scores[id], i, starts.size() - i, left->second, right->second, pair});
    }
    std::sort(all.begin() + first, all.end(),
              [](const Scored& a, const Scored& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
  }
  std::ranges::stable_sort(all, [](const Scored& a, const Scored& b) {
    return std::tuple(a.score, a.left_length, a.right_length) > std::tuple(b.score, b.left_length, b.right_length);
  });
  std::vector<TokenPair> pairs;
  for (const Scored& scored : all) pairs.push_back(scored.pair);
  return pairs;
}

}  // namespace weft::text
