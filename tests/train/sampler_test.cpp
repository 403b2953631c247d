// Each filter on logits made by hand, and the distribution of the draws.
#include "train/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::train {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kDraws = 20000;

/// How often each id is drawn.
std::vector<double> frequencies(const SamplerOptions& options, std::span<const float> logits) {
  Sampler sampler(options);
  std::vector<double> share(logits.size(), 0.0);
  for (std::uint64_t i = 0; i < kDraws; ++i) share[static_cast<std::size_t>(sampler.sample(logits, i))] += 1;
  for (double& value : share) value /= kDraws;
  return share;
}

// Probabilities 0.1, 0.4, 0.2, 0.3.
const std::array<float, 4> kLogits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
// Four standard deviations of a share of 20,000 draws.
constexpr double kNear = 0.015;

TEST(Sampler, TemperatureZeroTakesTheLargestAndTheLowestIdOfATie) {
  Sampler greedy({0.0, 0, 1.0, 1});
  EXPECT_EQ(greedy.sample(kLogits, 0), 1);
  EXPECT_EQ(greedy.sample(std::array{1.0F, 3.0F, 2.0F, 3.0F}, 5), 1);
}

TEST(Sampler, DrawsWithTheSoftmaxProbabilities) {
  const auto share = frequencies({}, kLogits);
  EXPECT_NEAR(share[0], 0.1, kNear);
  EXPECT_NEAR(share[1], 0.4, kNear);
  EXPECT_NEAR(share[2], 0.2, kNear);
  EXPECT_NEAR(share[3], 0.3, kNear);
}

TEST(Sampler, TemperatureSharpens) {
  // At 1/2 the probabilities are squared: 1, 16, 4, 9 of 30.
  const auto share = frequencies({0.5, 0, 1.0, 42}, kLogits);
  EXPECT_NEAR(share[0], 1.0 / 30, kNear);
  EXPECT_NEAR(share[1], 16.0 / 30, kNear);
  EXPECT_NEAR(share[3], 9.0 / 30, kNear);
  EXPECT_EQ(frequencies({1e-300, 0, 1.0, 42}, kLogits)[1], 1.0);  // no overflow
}

TEST(Sampler, TopKKeepsTheKLargest) {
  const auto share = frequencies({1.0, 2, 1.0, 42}, kLogits);
  EXPECT_NEAR(share[1], 4.0 / 7, kNear);
  EXPECT_NEAR(share[3], 3.0 / 7, kNear);
  EXPECT_EQ(share[0] + share[2], 0.0);
}

TEST(Sampler, TopKKeepsTheLowerIdsOfATie) {
  const auto share = frequencies({1.0, 2, 1.0, 42}, std::array{0.0F, 1.0F, 0.0F, 0.0F});
  EXPECT_GT(share[0], 0.0);
  EXPECT_EQ(share[2] + share[3], 0.0);
}

TEST(Sampler, TopKOfTheWholeVocabularyIsNoFilter) {
  Sampler all({1.0, 0, 1.0, 7}), four({1.0, 4, 1.0, 7}), more({1.0, 100, 1.0, 7});
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(four.sample(kLogits, i), all.sample(kLogits, i));
    EXPECT_EQ(more.sample(kLogits, i), all.sample(kLogits, i));
  }
}

TEST(Sampler, TopPKeepsTheFewestThatHoldP) {
  // 0.4 + 0.3 reach 0.6; 0.4 alone doesn't.
  const auto share = frequencies({1.0, 0, 0.6, 42}, kLogits);
  EXPECT_NEAR(share[1], 4.0 / 7, kNear);
  EXPECT_NEAR(share[3], 3.0 / 7, kNear);
  EXPECT_EQ(share[0] + share[2], 0.0);
  EXPECT_EQ(frequencies({1.0, 0, 1e-9, 42}, kLogits)[1], 1.0);  // one token at least
}

TEST(Sampler, TopPActsOnWhatTopKLeaves) {
  // After top-k 2 the probabilities are 4/7 and 3/7: 0.5 is reached by the first alone.
  EXPECT_EQ(frequencies({1.0, 2, 0.5, 42}, kLogits)[1], 1.0);
}

TEST(Sampler, IsAFunctionOfSeedAndPosition) {
  Sampler a({1.0, 0, 1.0, 3}), b({1.0, 0, 1.0, 3}), other({1.0, 0, 1.0, 4});
  int differences = 0;
  for (std::uint64_t i = 100; i-- > 0;) {
    b.sample(kLogits, i + 1000);
    EXPECT_EQ(a.sample(kLogits, i), b.sample(kLogits, i));
    differences += a.sample(kLogits, i) != other.sample(kLogits, i) ? 1 : 0;
  }
  EXPECT_GT(differences, 30);
}

TEST(Sampler, MinusInfinityIsNeverDrawn) {
  const auto share = frequencies({}, std::array{-kInfinity, 0.0F, -kInfinity, 0.0F, -kInfinity});
  EXPECT_EQ(share[0] + share[2] + share[4], 0.0);
}

TEST(Sampler, BrokenLogitsAreAFaultThatNamesTheToken) {
  Sampler sampler({0.0, 0, 1.0, 1});
  const auto sample = [&](std::vector<float> logits) {
    return testing::message_of<RuntimeFault>([&] { sampler.sample(logits, 0); });
  };
  EXPECT_TRUE(has_parts(sample({0.0F, NAN}), {"token 1 is nan"}));
  EXPECT_TRUE(has_parts(sample({kInfinity, 0.0F}), {"token 0 is inf"}));
  EXPECT_TRUE(has_parts(sample({-kInfinity, -kInfinity}), {"no token"}));
  EXPECT_TRUE(has_parts(sample({}), {"no token"}));
}

TEST(Sampler, RefusesSettingsOutOfRange) {
  const auto make = [](double temperature, std::int64_t k, double p) {
    return testing::message_of<UserError>([&] { Sampler({temperature, k, p, 1}); });
  };
  EXPECT_TRUE(has_parts(make(-0.1, 0, 1), {"temperature -0.1"}));
  EXPECT_TRUE(has_parts(make(NAN, 0, 1), {"temperature nan"}));
  EXPECT_TRUE(has_parts(make(1, -1, 1), {"top-k -1"}));
  EXPECT_TRUE(has_parts(make(1, 0, 0), {"top-p 0"}));
  EXPECT_TRUE(has_parts(make(1, 0, 1.5), {"top-p 1.5"}));
  EXPECT_EQ(make(0, 0, 1), "");
}

}  // namespace
}  // namespace weft::train
