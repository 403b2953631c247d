#include "study/memorisation/recall.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::study {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(Recall, ComparesWhatWasWritten) {
  EXPECT_EQ(recall_of(Ids{1, 2, 3}, Ids{1, 2, 3}), (Recall{true, 3, 1}));
  EXPECT_EQ(recall_of(Ids{1, 2, 3, 4}, Ids{1, 2, 9, 4}), (Recall{false, 2, 0.75}));
  EXPECT_EQ(recall_of(Ids{1, 2}, Ids{}), (Recall{false, 0, 0}));
  EXPECT_EQ(recall_of(Ids{}, Ids{}), (Recall{true, 0, 1}));
}

TEST(Recall, RougeLReadsTheLongestCommonSubsequence) {
  EXPECT_DOUBLE_EQ(rouge_l(Ids{1, 2, 3, 4, 5, 6}, Ids{9, 2, 4, 3, 6}), 2.0 * 3 / 11);  // 2 4 6, or 2 3 6
  EXPECT_DOUBLE_EQ(rouge_l(Ids{1, 2, 3}, Ids{3, 2, 1}), 2.0 * 1 / 6);
}

TEST(MeanInterval, IsAPointWithoutSpread) {
  const MeanInterval same = mean_interval(std::vector<std::vector<double>>{{2, 2}, {2}, {}});
  EXPECT_EQ(same.mean, 2);
  EXPECT_EQ(same.low, 2);
  EXPECT_EQ(same.high, 2);
  EXPECT_EQ(mean_interval({}).mean, 0);
}

TEST(MeanInterval, CoversTheMeanOfIndependentValues) {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(i % 2);
  const MeanInterval half = mean_interval(std::vector<std::vector<double>>{values});
  EXPECT_EQ(half.mean, 0.5);
  // A binomial proportion of 100: 1.96 · 0.05, to the bootstrap's own noise.
  EXPECT_NEAR(half.low, 0.402, 0.02);
  EXPECT_NEAR(half.high, 0.598, 0.02);
}

TEST(MeanInterval, IsWiderWhereGroupsDiffer) {
  const MeanInterval mixed = mean_interval(std::vector<std::vector<double>>{{0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 1}});
  const MeanInterval apart = mean_interval(std::vector<std::vector<double>>{{0, 0, 0, 0}, {1, 1, 1, 1}, {0, 1, 0, 1}});
  EXPECT_EQ(mixed.mean, apart.mean);
  EXPECT_GT(apart.high - apart.low, mixed.high - mixed.low);
}

}  // namespace
}  // namespace weft::study
