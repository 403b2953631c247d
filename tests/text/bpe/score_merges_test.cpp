#include "text/bpe/score_merges.h"

#include <gtest/gtest.h>

namespace weft::text {
namespace {

TEST(MergesByScores, TheHighestScoreComesFirst) {
  const std::vector<std::string> tokens = {"a", "b", "é", "ab", "abé", "bé", "x"};
  const std::vector<double> scores = {0, 0, 0, -2, -3, -1, -9};
  EXPECT_EQ(merges_by_scores(tokens, scores),
            (std::vector<TokenPair>{{"b", "é"}, {"a", "b"}, {"ab", "é"}, {"a", "bé"}}));
}

TEST(MergesByScores, EqualScoresGoByTheLengthsInCharacters) {
  const std::vector<std::string> tokens = {"é", "b", "éb", "bb", "bbb"};
  const std::vector<double> scores = {0, 0, -1, -1, -1};
  EXPECT_EQ(merges_by_scores(tokens, scores),
            (std::vector<TokenPair>{{"bb", "b"}, {"b", "bb"}, {"é", "b"}, {"b", "b"}}));
}

}  // namespace
}  // namespace weft::text
