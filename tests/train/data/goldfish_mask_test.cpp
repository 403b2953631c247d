#include "train/data/goldfish_mask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/hash.h"

namespace weft::train {
namespace {

using Ids = std::vector<std::int32_t>;
using Strategy = Goldfish::Strategy;

/// 1 for each target that is dropped.
Ids dropped(const Goldfish& goldfish, const Ids& window, std::uint64_t sequence = 0, std::uint64_t seed = 1) {
  Ids targets(window.begin() + 1, window.end());
  GoldfishMask(goldfish, seed).drop(window, {}, sequence, targets);
  Ids marks;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    EXPECT_TRUE(targets[t] == -1 || targets[t] == window[t + 1]);
    marks.push_back(targets[t] == -1 ? 1 : 0);
  }
  return marks;
}

Ids random_ids(std::size_t count, std::int32_t vocab, std::uint32_t seed) {
  std::mt19937 numbers(seed);
  Ids ids(count);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(numbers() % static_cast<std::uint32_t>(vocab));
  return ids;
}

TEST(GoldfishMask, ContextsEndWithDocumentsWhereThatIsAsked) {
  for (const Strategy strategy : {Strategy::hash, Strategy::avalanche}) {
    const Goldfish goldfish{2, 3, strategy};
    const GoldfishMask mask(goldfish, 1, GoldfishMask::Contexts::end_with_documents);
    const Ids document = random_ids(40, 500, 5), other = random_ids(23, 500, 6);
    const auto targets_behind = [&](const Ids& before) {
      Ids window = before;
      window.insert(window.end(), document.begin(), document.end());
      Ids targets(window.begin() + 1, window.end()), starts(targets.size(), 0);
      std::fill(starts.begin() + static_cast<std::ptrdiff_t>(before.size()), starts.end(),
                static_cast<std::int32_t>(before.size()));
      mask.drop(window, starts, 0, targets);
      return Ids(targets.end() - 39, targets.end());
    };
    const Ids alone = targets_behind({});
    EXPECT_EQ(targets_behind(other), alone);
    EXPECT_EQ(Ids(alone.begin(), alone.begin() + 2), Ids(document.begin() + 1, document.begin() + 3));
    EXPECT_GT(std::ranges::count(alone, -1), 0);
  }
}

TEST(GoldfishMask, DropsOneInK) {
  constexpr std::size_t kTargets = 200'000;
  const Ids window = random_ids(kTargets + 1, 50257, 3);
  for (const Strategy strategy : {Strategy::hash, Strategy::random, Strategy::fixed}) {
    for (const std::int64_t k : {2, 3, 4, 50}) {
      const Ids marks = dropped({k, 13, strategy}, window);
      const double rate = static_cast<double>(std::ranges::count(marks, 1)) / kTargets;
      const double p = 1.0 / static_cast<double>(k);
      EXPECT_NEAR(rate, p, 4.5 * std::sqrt(p * (1 - p) / kTargets)) << static_cast<int>(strategy) << " " << k;
    }
  }
}

TEST(GoldfishMask, NoTargetWithoutAWholeContextIsDropped) {
  const Ids window = random_ids(64, 7, 6);
  for (const Strategy strategy : {Strategy::hash, Strategy::avalanche}) {
    for (const std::int64_t h : {1, 4, 13, 63}) {
      const Ids marks = dropped({2, h, strategy}, window);
      EXPECT_EQ(std::count(marks.begin(), marks.begin() + h - 1, 1), 0) << h;
    }
  }
}

// The documented sum, without its shortcut from one target to the next.
TEST(GoldfishMask, TheHashIsTheDocumentedOne) {
  const Ids window = random_ids(200, 300, 7);
  for (const std::size_t h : {std::size_t{1}, std::size_t{2}, std::size_t{13}}) {
    const Ids marks = dropped({4, static_cast<std::int64_t>(h), Strategy::hash}, window);
    for (std::size_t t = h - 1; t < marks.size(); ++t) {
      std::uint64_t key = 0, factor = 1;
      for (std::size_t n = 0; n < h; ++n, factor *= 0x9e3779b97f4a7c15ULL) {
        key += factor * mixed_bits(static_cast<std::uint64_t>(window[t - n]));
      }
      EXPECT_EQ(marks[t] == 1, mixed_bits(key) < UINT64_MAX / 4);
    }
  }
}

// Marks that the paper's code gave, in Python with integers of 64 bits.
TEST(GoldfishMask, TheAvalancheIsThePapers) {
  Ids window;
  for (std::int32_t i = 0; i < 41; ++i) window.push_back((i * 7919 + 13) % 50257);
  const Ids expected = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0,
                        0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0};
  EXPECT_EQ(dropped({4, 4, Strategy::avalanche}, window), expected);
}

TEST(GoldfishMask, StaticDropsEveryKthTarget) {
  EXPECT_EQ(dropped({3, 13, Strategy::fixed}, Ids(9, 1)), (Ids{1, 0, 0, 1, 0, 0, 1, 0}));
}

TEST(GoldfishMask, RandomIsAFunctionOfSeedAndPlace) {
  const Goldfish goldfish{2, 13, Strategy::random};
  const Ids window(101, 5);
  EXPECT_EQ(dropped(goldfish, window, 3, 8), dropped(goldfish, Ids(101, 6), 3, 8));
  EXPECT_NE(dropped(goldfish, window, 3, 8), dropped(goldfish, window, 4, 8));
  EXPECT_NE(dropped(goldfish, window, 3, 8), dropped(goldfish, window, 3, 9));
}

}  // namespace
}  // namespace weft::train
