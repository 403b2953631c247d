// The order of sequences, the loader's slots and the cover of an evaluation.
#include "train/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/data/written_tokens.h"
#include "train/data/token_source.h"

namespace weft::train {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Tokens 0, 1, 2, …, so that a token is its position.
class Counting : public testing::WrittenTokens {
 public:
  explicit Counting(std::size_t count) : testing::WrittenTokens(ids(count)) {}

 private:
  static std::vector<std::uint32_t> ids(std::size_t count) {
    std::vector<std::uint32_t> ids(count);
    std::iota(ids.begin(), ids.end(), 0U);
    return ids;
  }
};

TEST(Permuted, IsAPermutationOfEverySize) {
  for (std::uint64_t size = 1; size <= 130; ++size) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(permuted(i, size, 7, 3));
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
  }
}

TEST(Permuted, DependsOnSeedAndEpochAndNothingElse) {
  const auto row = [](std::uint64_t seed, std::uint32_t epoch) {
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 50; ++i) values.push_back(permuted(i, 50, seed, epoch));
    return values;
  };
  EXPECT_EQ(row(1, 0), row(1, 0));
  EXPECT_NE(row(1, 0), row(1, 1));
  EXPECT_NE(row(1, 0), row(2, 0));
}

TEST(Permuted, EachPlaceGetsEachElementAboutEquallyOften) {
  constexpr std::uint64_t kSize = 10;
  constexpr std::uint32_t kEpochs = 20000;
  std::vector<std::vector<double>> count(kSize, std::vector<double>(kSize, 0));
  for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::uint64_t i = 0; i < kSize; ++i) count[i][permuted(i, kSize, 5, epoch)] += 1;
  }
  const double expected = static_cast<double>(kEpochs) / kSize;
  for (const auto& place : count) {
    for (const double n : place) EXPECT_NEAR(n, expected, 5 * std::sqrt(expected));
  }
}

/// The windows of an epoch, in the order of the tokens.
std::vector<TokenWindow> windows_of(const BatchPlan& plan, std::uint64_t epoch) {
  std::vector<TokenWindow> windows;
  for (std::uint64_t i = 0; i < plan.windows_per_epoch(); ++i) {
    windows.push_back(plan.window(epoch * plan.windows_per_epoch() + i));
  }
  std::ranges::sort(windows, {}, &TokenWindow::begin);
  return windows;
}

TEST(BatchPlan, AnEpochReadsEveryTargetOnceInAsFewWindowsAsHoldThem) {
  for (std::uint64_t seq_len = 1; seq_len <= 9; ++seq_len) {
    for (std::uint64_t tokens = seq_len + 1; tokens < 60; ++tokens) {
      const BatchPlan plan(tokens, static_cast<std::int64_t>(seq_len), 3);
      std::set<std::uint64_t> of_first;
      for (std::uint64_t epoch = 0; epoch < 60; ++epoch) {
        const std::vector<TokenWindow> windows = windows_of(plan, epoch);
        std::uint64_t next = 0;
        for (const TokenWindow& window : windows) {
          ASSERT_EQ(window.begin, next);
          ASSERT_GE(window.tokens, 1U);
          ASSERT_LE(window.tokens, seq_len);
          const bool inner = &window != &windows.front() && &window != &windows.back();
          ASSERT_TRUE(!inner || window.tokens == seq_len);
          next += window.tokens;
        }
        ASSERT_EQ(next, tokens - 1);
        ASSERT_EQ(windows.size(), (tokens + seq_len - 2) / seq_len);
        of_first.insert(windows.front().tokens);
      }
      EXPECT_EQ(of_first.size() > 1, plan.windows_per_epoch() > 1 && (tokens - 1) % seq_len != 0);
    }
  }
}

TEST(BatchPlan, TwoWindowsHold95TokensInSequencesOf64) {
  const BatchPlan plan(95, 64, 1);
  ASSERT_EQ(plan.windows_per_epoch(), 2U);
  std::set<std::uint64_t> orders;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    const std::vector<TokenWindow> windows = windows_of(plan, epoch);
    EXPECT_EQ(windows[0].tokens + windows[1].tokens, 94U);
    orders.insert(plan.window(2 * epoch).begin == 0 ? 0 : 1);
  }
  EXPECT_EQ(orders.size(), 2U);
}

// Runs that older builds began, whose windows these are.
TEST(BatchPlan, WholeWindowsAreThoseOfOlderBuilds) {
  const BatchPlan plan(1000, 64, 42, BatchPlan::Cut::whole);
  const BatchPlan small(95, 64, 42, BatchPlan::Cut::whole);
  EXPECT_EQ(small.windows_per_epoch(), 1U);
  std::vector<std::uint64_t> begins;
  for (const std::uint64_t sequence : {0U, 1U, 14U, 400U}) begins.push_back(plan.window(sequence).begin);
  for (const std::uint64_t sequence : {0U, 1U}) begins.push_back(small.window(sequence).begin);
  EXPECT_EQ(begins, (std::vector<std::uint64_t>{736, 352, 220, 90, 3, 14}));
}

TEST(BatchPlan, AnEpochReadsEachOfItsWholeWindowsOnceFromOnePhase) {
  const BatchPlan plan(1000, 64, 42, BatchPlan::Cut::whole);
  ASSERT_EQ(plan.windows_per_epoch(), 14U);  // 1000 / 64 = 15, less one for the phase
  std::set<std::uint64_t> phases;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    std::set<std::uint64_t> begins;
    for (std::uint64_t i = 0; i < 14; ++i) begins.insert(plan.window(epoch * 14 + i).begin);
    ASSERT_EQ(begins.size(), 14U);
    const std::uint64_t phase = *begins.begin();
    EXPECT_LT(phase, 64U);
    EXPECT_EQ(*begins.rbegin(), phase + 13 * 64);
    EXPECT_LE(*begins.rbegin() + 65, 1000U);
    phases.insert(phase);
  }
  EXPECT_GT(phases.size(), 10U);
}

TEST(BatchPlan, WholeWindowsStayInsideTheTokensAtEverySize) {
  for (std::int64_t seq_len = 1; seq_len <= 9; ++seq_len) {
    for (std::uint64_t tokens = static_cast<std::uint64_t>(seq_len) + 1; tokens < 60; ++tokens) {
      const BatchPlan plan(tokens, seq_len, 3, BatchPlan::Cut::whole);
      for (std::uint64_t n = 0; n < 200; ++n) {
        ASSERT_LE(plan.window(n).begin + static_cast<std::uint64_t>(seq_len) + 1, tokens) << seq_len << " " << n;
      }
    }
  }
}

TEST(BatchPlan, RefusesTooFewTokens) {
  EXPECT_TRUE(refuses([] { BatchPlan(64, 64, 1); }, {"64 training tokens", "--seq-len"}));
  EXPECT_EQ(BatchPlan(65, 64, 1).window(12345).begin, 0U);
}

TEST(BatchLoader, TargetsAreTheNextTokensOfThePlansWindows) {
  const Counting data(500);
  const BatchPlan plan(500, 8, 9);
  int padded = 0;
  BatchLoader loader(data.stream(), plan, {1, 3, 2, 2}, 0);  // rank 1 of 3, 2 micro-batches of 2: 12 sequences a step
  for (std::int64_t step = 0; step < 30; ++step) {
    const Batch batch = loader.next(step);
    ASSERT_EQ(batch.tokens.size(), 32U);
    ASSERT_EQ(batch.targets.size(), 32U);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto sequence = static_cast<std::uint64_t>(step) * 12 + 4 + i;
      const TokenWindow window = plan.window(sequence);
      padded += window.tokens < 8 ? 1 : 0;
      for (std::size_t t = 0; t < 8; ++t) {
        const auto expected = static_cast<std::int32_t>(window.begin + t);
        ASSERT_TRUE(t >= window.tokens || batch.tokens[i * 8 + t] == expected);
        ASSERT_EQ(batch.targets[i * 8 + t], t < window.tokens ? expected + 1 : -1);
      }
    }
  }
  EXPECT_GT(padded, 0);
}

void expect_part_of_eights(std::span<const std::int32_t> found, std::span<const std::int32_t> whole, std::size_t part,
                           std::size_t parts) {
  const std::size_t length = 8 / parts;
  ASSERT_EQ(found.size() * parts, whole.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], whole[i / length * 8 + part * length + i % length]);
}

TEST(BatchLoader, PartsOfSequencesAreThoseOfTheWhole) {
  const Counting data(500);
  const BatchPlan plan(500, 8, 9);
  BatchLoader whole(data.stream(), plan, {1, 2, 2, 2}, 0), loader(data.stream(), plan, {1, 2, 2, 2, 3, 4}, 0);
  for (std::int64_t step = 0; step < 3; ++step) {
    const Batch found = loader.next(step), all = whole.next(step);
    EXPECT_EQ(found.counted, all.counted);
    expect_part_of_eights(found.tokens, all.tokens, 3, 4);
    expect_part_of_eights(found.targets, all.targets, 3, 4);
  }
}

// The thread reads a step ahead: an error there only ends the step that needs the tokens.
TEST(BatchLoader, AFileThatLosesItsTokensFailsTheStepThatNeedsThem) {
  const Counting data(500);
  const BatchPlan plan(500, 8, 9);
  BatchLoader loader(data.stream(), plan, {0, 1, 1, 2}, 0);
  loader.next(0);
  const Batch batch = loader.next(1);
  const std::vector<std::int32_t> tokens(batch.tokens.begin(), batch.tokens.end());
  std::filesystem::resize_file(data.path(), 0);
  const auto fault = [&](std::int64_t step) { return testing::message_of<RuntimeFault>([&] { loader.next(step); }); };
  // Step 2 may have been read before the file was cut.
  std::string message = fault(2);
  if (message.empty()) message = fault(3);
  EXPECT_TRUE(has_parts(message, {data.path().string(), "has 0 bytes", "had 2000"}));
  EXPECT_EQ(fault(4), message);
}

TEST(BatchLoader, GoesOnFromAStepOnceTheTokensAreBack) {
  const Counting data(500);
  const BatchPlan plan(500, 8, 9);
  const std::string content = testing::TemporaryFolder::read(data.path());
  std::filesystem::resize_file(data.path(), 0);
  BatchLoader loader(data.stream(), plan, {0, 1, 1, 2}, 5);
  EXPECT_THROW(loader.next(5), RuntimeFault);
  std::ofstream(data.path(), std::ios::binary) << content;
  EXPECT_EQ(static_cast<std::uint64_t>(loader.next(7).tokens[0]), plan.window(14).begin);
}

/// The targets of a step over all ranks. Each rank has to count the targets that aren't dropped.
std::vector<std::int32_t> masked_targets(const TokenStream& stream, const Goldfish& goldfish, std::int64_t ranks,
                                         std::int64_t first_step, std::int64_t step) {
  const BatchPlan plan(stream.size(), 8, 9);
  std::vector<std::int32_t> all;
  std::vector<std::int64_t> counted;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    BatchLoader loader(stream, plan, {rank, ranks, 2, 6 / ranks}, first_step, GoldfishMask(goldfish, 9));
    for (std::int64_t s = first_step; s < step; ++s) loader.next(s);
    const Batch batch = loader.next(step);
    counted.push_back(batch.counted);
    for (std::size_t i = 0; i < batch.targets.size(); ++i) {
      const std::int32_t target = batch.targets[i];
      EXPECT_TRUE(target == -1 || target == batch.tokens[i] + 1);
    }
    all.insert(all.end(), batch.targets.begin(), batch.targets.end());
  }
  const auto kept = std::ranges::count_if(all, [](std::int32_t target) { return target >= 0; });
  EXPECT_EQ(counted, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), kept));
  EXPECT_LT(kept, 96);
  EXPECT_GT(kept, 0);
  return all;
}

TEST(BatchLoader, DropsTheSameTargetsOnAnyNumberOfRanksAndFromAnyStep) {
  const Counting data(500);
  using Strategy = Goldfish::Strategy;
  for (const Strategy strategy : {Strategy::hash, Strategy::avalanche, Strategy::fixed, Strategy::random}) {
    const Goldfish goldfish{3, 2, strategy};
    const auto one = masked_targets(data.stream(), goldfish, 1, 0, 5);
    for (const std::int64_t ranks : {1, 2, 3, 6}) {
      EXPECT_EQ(masked_targets(data.stream(), goldfish, ranks, 4, 5), one) << ranks;
    }
  }
  const BatchPlan plan(500, 8, 9);
  BatchLoader all(data.stream(), plan, {1, 3, 2, 2}, 0);
  for (std::int64_t step = 0; step < 8; ++step) {
    std::uint64_t targets = 0;
    for (std::uint64_t i = 0; i < 12; ++i) targets += plan.window(static_cast<std::uint64_t>(step) * 12 + i).tokens;
    EXPECT_EQ(all.next(step).counted, static_cast<std::int64_t>(targets));
  }
}

/// Of every 10 tokens the first 4 aren't learnt.
class PromptsAndCompletions : public testing::WrittenTokens {
 public:
  explicit PromptsAndCompletions(std::uint64_t count) : testing::WrittenTokens(std::vector<std::uint32_t>(count, 1)) {
    std::vector<text::IdRange> prompts;
    for (std::uint64_t begin = 0; begin < count; begin += 10) prompts.push_back({begin, std::min(begin + 4, count)});
    learnt_.append({std::make_shared<const InputFile>(path()), TokenEncoding::u32, 0, count, false}, prompts);
  }
  const TokenStream& learnt() const { return learnt_; }

 private:
  TokenStream learnt_;
};

TEST(BatchLoader, CountsWhatIsLearntOnAllRanks) {
  const PromptsAndCompletions data(507);
  const BatchPlan plan(507, 8, 9);
  for (const bool masked : {false, true}) {
    std::optional<GoldfishMask> mask;
    if (masked) mask.emplace(Goldfish{2, 1, Goldfish::Strategy::fixed}, 1);
    std::vector<std::int64_t> counted;
    std::int64_t learnt = 0;
    for (const std::int64_t rank : {0, 1, 2}) {
      BatchLoader loader(data.learnt(), plan, {rank, 3, 2, 2}, 6, mask);
      const Batch batch = loader.next(6);
      counted.push_back(batch.counted);
      for (std::size_t i = 0; i < batch.targets.size(); ++i) {
        const std::uint64_t sequence = 6 * 12 + static_cast<std::uint64_t>(rank) * 4 + i / 8;
        const TokenWindow window = plan.window(sequence);
        const bool of_completion = i % 8 < window.tokens && (window.begin + 1 + i % 8) % 10 >= 4;
        const bool expected = of_completion && !(masked && i % 2 == 0);
        EXPECT_EQ(batch.targets[i], expected ? 1 : -1);
        learnt += expected ? 1 : 0;
      }
    }
    EXPECT_EQ(counted, std::vector<std::int64_t>(3, learnt));
  }
}

// Of 95 tokens 64 are a prompt: of windows of 8, those whose targets are in it teach nothing.
TEST(BatchPlan, CountsSequencesWithoutATarget) {
  const testing::WrittenTokens data(std::vector<std::uint32_t>(95, 1));
  TokenStream stream;
  const std::vector<text::IdRange> prompt = {{0, 64}};
  stream.append({std::make_shared<const InputFile>(data.path()), TokenEncoding::u32, 0, 95, false}, prompt);
  const BatchPlan given({{0, 8}, {50, 8}, {55, 8}, {56, 8}, {60, 3}, {60, 4}, {94, 1}}, 8, 9);
  EXPECT_EQ(given.sequences_without_target(stream), 5U);  // the last one has no target at all
  const BatchPlan plan(95, 8, 9);
  std::uint64_t without = 0;
  for (std::uint64_t i = 0; i < plan.windows_per_epoch(); ++i) {
    without += plan.window(i).begin + plan.window(i).tokens < 64 ? 1 : 0;
  }
  EXPECT_EQ(plan.sequences_without_target(stream), without);
  EXPECT_GT(without, 5U);
  EXPECT_EQ(plan.sequences_without_target(data.stream()), 0U);
}

TEST(EvalBatches, TargetsThatAreNotLearntAreIgnored) {
  const PromptsAndCompletions data(25);
  const EvalBatches batches(data.learnt(), 8, {0, 1, 1, 3}, 0);
  ASSERT_EQ(batches.size(), 1);
  std::vector<std::int32_t> tokens(24), targets(24);
  batches.fill(0, tokens, targets);
  for (std::size_t t = 0; t < 24; ++t) EXPECT_EQ(targets[t], (t + 1) % 10 < 4 ? -1 : 1);
  EXPECT_TRUE(refuses(
      [&] {
        EvalBatches(PromptsAndCompletions(4).learnt(), 8, {0, 1, 1, 3}, 0);
      },
      {"no completion", "3 held-out tokens", "--val-data"}));
}

TEST(BatchLoader, BeginsAtAnyStepAndCanJump) {
  const Counting data(500);
  const BatchPlan plan(500, 8, 9);
  const auto expected = [&](std::int64_t step) {
    BatchLoader alone(data.stream(), plan, {0, 1, 1, 2}, step);
    const Batch batch = alone.next(step);
    return Tokens(batch.tokens.begin(), batch.tokens.end());
  };
  const auto equal = [](const Batch& batch, const Tokens& tokens) { return std::ranges::equal(batch.tokens, tokens); };
  BatchLoader loader(data.stream(), plan, {0, 1, 1, 2}, 7);
  EXPECT_TRUE(equal(loader.next(7), expected(7)));
  EXPECT_TRUE(equal(loader.next(8), expected(8)));
  EXPECT_TRUE(equal(loader.next(3), expected(3)));
  EXPECT_TRUE(equal(loader.next(4), expected(4)));
  EXPECT_TRUE(equal(loader.next(4), expected(4)));
}

// Steps before may have been larger or smaller.
TEST(BatchLoader, BeginsAtAnySequence) {
  const Counting data(500);
  const BatchPlan plan(500, 8, 9);
  for (const std::uint64_t sequence : {3U, 14U, 20U}) {
    BatchLoader loader(data.stream(), plan, {1, 2, 1, 2}, 7, std::nullopt, sequence);
    for (const std::uint64_t step : {7U, 8U}) {
      const std::uint64_t first = sequence + (step - 7) * 4 + 2;
      const Batch batch = loader.next(static_cast<std::int64_t>(step));
      EXPECT_EQ(static_cast<std::uint64_t>(batch.tokens[0]), plan.window(first).begin);
      EXPECT_EQ(static_cast<std::uint64_t>(batch.tokens[8]), plan.window(first + 1).begin);
    }
  }
}

TEST(BatchLoader, ABatchIsUntouchedUntilTheNextCall) {
  const Counting data(100'000);
  const BatchPlan plan(100'000, 256, 9);
  BatchLoader loader(data.stream(), plan, {0, 1, 2, 8}, 0);
  for (std::int64_t step = 0; step < 40; ++step) {
    const Batch batch = loader.next(step);
    const std::vector<std::int32_t> before(batch.tokens.begin(), batch.tokens.end());
    std::this_thread::yield();
    ASSERT_TRUE(std::equal(before.begin(), before.end(), batch.tokens.begin()));
  }
}

/// Counts each target over all ranks and micro-batches, and checks tokens and padding.
std::vector<int> covered(const EvalBatches& first, const TokenStream& stream, std::int64_t seq_len, BatchShare share,
                         std::int64_t limit) {
  std::vector<int> count(stream.size(), 0);
  std::uint64_t targets = 0;
  const auto size = static_cast<std::size_t>(share.micro_batch * seq_len);
  for (share.rank = 0; share.rank < share.ranks; ++share.rank) {
    const EvalBatches batches(stream, seq_len, share, limit);
    EXPECT_EQ(batches.size(), first.size());
    EXPECT_EQ(batches.targets(), first.targets());
    for (std::int64_t i = 0; i < batches.size(); ++i) {
      std::vector<std::int32_t> tokens(size, 99), aims(size, 99);
      batches.fill(i, tokens, aims);
      for (std::size_t t = 0; t < size; ++t) {
        if (aims[t] < 0) {
          EXPECT_EQ(aims[t], -1);
          EXPECT_EQ(tokens[t], 0);
          continue;
        }
        EXPECT_EQ(aims[t], tokens[t] + 1);
        EXPECT_EQ(tokens[t] % seq_len, static_cast<std::int64_t>(t) % seq_len);  // windows of T from the stream's begin
        ++count[static_cast<std::size_t>(aims[t])];
        ++targets;
      }
    }
  }
  EXPECT_EQ(targets, first.targets());
  return count;
}

TEST(EvalBatches, EachTargetCountsOnceOnAnyNumberOfRanks) {
  for (const std::size_t tokens : {2U, 8U, 9U, 10U, 63U, 64U, 65U, 100U}) {
    const Counting data(tokens);
    for (std::int64_t ranks = 1; ranks <= 3; ++ranks) {
      for (std::int64_t batch = 1; batch <= 3; ++batch) {
        const BatchShare share{0, ranks, 1, batch};
        const EvalBatches batches(data.stream(), 8, share, 0);
        EXPECT_EQ(batches.targets(), tokens - 1);
        auto count = covered(batches, data.stream(), 8, share, 0);
        EXPECT_EQ(count.front(), 0);  // nothing comes before the first token
        count.erase(count.begin());
        EXPECT_EQ(count, std::vector<int>(tokens - 1, 1));
      }
    }
  }
}

TEST(EvalBatches, PartsOfSequencesAreThoseOfTheWhole) {
  const Counting data(21);
  Tokens tokens(24), targets(24), own_tokens(12), own_targets(12);
  EvalBatches(data.stream(), 8, {0, 1, 1, 3}, 0).fill(0, tokens, targets);
  const EvalBatches part(data.stream(), 8, {0, 1, 1, 3, 1, 2}, 0);
  part.fill(0, own_tokens, own_targets);
  expect_part_of_eights(own_tokens, tokens, 1, 2);
  expect_part_of_eights(own_targets, targets, 1, 2);
}

TEST(EvalBatches, ALimitTakesTheFirstSequencesHoweverTheyAreCut) {
  const Counting data(100);  // 99 targets: 12 windows of 8, and 3 more
  struct Limit {
    std::int64_t sequences;
    std::uint64_t targets;
  };
  for (const Limit& limit : {Limit{1, 8}, Limit{5, 40}, Limit{7, 56}, Limit{12, 96}, Limit{13, 99}, Limit{50, 99}}) {
    for (const std::int64_t ranks : {1, 2, 3}) {
      for (const std::int64_t micro_batch : {1, 2, 4}) {
        const BatchShare share{0, ranks, 1, micro_batch};
        const EvalBatches batches(data.stream(), 8, share, limit.sequences);
        ASSERT_EQ(batches.targets(), limit.targets);
        EXPECT_EQ(batches.size(), (std::min<std::int64_t>(limit.sequences, 13) - 1) / (ranks * micro_batch) + 1);
        std::vector<int> expected(100, 0);
        std::fill_n(expected.begin() + 1, limit.targets, 1);
        EXPECT_EQ(covered(batches, data.stream(), 8, share, limit.sequences), expected);
      }
    }
  }
}

// Of each token, the document's start in its window: a document is 10·d … 10·d + 9, so it shows in the token.
Tokens expected_starts(std::span<const std::int32_t> tokens, std::size_t seq_len) {
  Tokens starts;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::size_t first = i / seq_len * seq_len;
    std::size_t start = i;
    while (start > first && tokens[start - 1] / 10 == tokens[i] / 10) --start;
    starts.push_back(static_cast<std::int32_t>(start - first));
  }
  return starts;
}

/// `starts` of sequences of 8 tokens up to each one's padding; in the padding no start is earlier.
void expect_starts(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
                   std::span<const std::int32_t> starts) {
  for (std::size_t first = 0; first < tokens.size(); first += 8) {
    const auto read = static_cast<std::size_t>(
        std::ranges::count_if(targets.subspan(first, 8), [](std::int32_t id) { return id >= 0; }));
    const auto found = starts.subspan(first, read);
    EXPECT_EQ(Tokens(found.begin(), found.end()), expected_starts(tokens.subspan(first, read), 8));
    for (std::size_t t = first + 1; t < first + 8; ++t) EXPECT_GE(starts[t], starts[t - 1]) << "padding, too";
  }
}

TEST(Batches, TellWhereDocumentsStart) {
  const testing::TemporaryFolder folder;
  std::vector<Tokens> documents;
  for (std::int32_t d = 0; d < 20; ++d) {
    Tokens& document = documents.emplace_back();
    for (std::int32_t i = 0; i < 1 + d % 7; ++i) document.push_back(10 * d + i);
  }
  const PathList data = testing::write_documents(folder, "x.bin", documents);
  const TokenSource source = TokenSource::open({.data = data, .val_data = data, .seq_len = 8, .documents = true});
  ASSERT_TRUE(source.train.has_documents());
  constexpr BatchShare kShare{1, 2, 2, 1};
  BatchLoader loader(source.train, BatchPlan(source.train.size(), 8, 3), kShare, 0);
  for (std::int64_t step = 0; step < 6; ++step) {
    const Batch batch = loader.next(step);
    expect_starts(batch.tokens, batch.targets, batch.document_starts);
  }
  const EvalBatches batches(source.held_out, 8, {0, 1, 1, 2}, 0);
  for (std::int64_t i = 0; i < batches.size(); ++i) {
    Tokens tokens(16), targets(16), starts(16);
    batches.fill(i, tokens, targets, starts);
    expect_starts(tokens, targets, starts);
  }
  EXPECT_FALSE(TokenSource::open({.data = data, .val_data = data, .seq_len = 8}).train.has_documents());
}

TEST(EvalBatches, RefusesTooFewTokens) {
  const Counting data(1);
  EXPECT_TRUE(refuses([&] { EvalBatches(data.stream(), 8, {}, 0); }, {"1 held-out tokens"}));
}

/// Documents of these lengths, document d with the ids 10·d, 10·d + 1, …
class Documents {
 public:
  explicit Documents(const std::vector<std::int32_t>& lengths) {
    std::vector<Tokens> documents;
    std::int32_t first = 0;
    for (const std::int32_t length : lengths) {
      Tokens& document = documents.emplace_back();
      for (std::int32_t i = 0; i < length; ++i) document.push_back(first + i);
      first += 10;
    }
    const PathList data = testing::write_documents(folder_, "x.bin", documents);
    source_ = TokenSource::open({.data = data, .val_data = data, .seq_len = 2, .documents = true});
  }
  const TokenStream& stream() const { return source_.train; }

 private:
  testing::TemporaryFolder folder_;
  TokenSource source_;
};

TEST(DocumentWindows, HoldWholeDocumentsAndPiecesOfLongOnes) {
  EXPECT_EQ(document_windows(Documents({3, 4, 9, 2}).stream(), 8), (std::vector<TokenWindow>{{0, 7}, {7, 8}, {15, 3}}));
  EXPECT_EQ(document_windows(Documents({5, 4}).stream(), 4), (std::vector<TokenWindow>{{0, 4}, {4, 1}, {5, 4}}));
}

TEST(DocumentWindows, AreReadInEachEpochWithPaddingThatDoesNotCount) {
  const Documents data({3, 4, 9, 2, 5});
  const BatchPlan plan(document_windows(data.stream(), 8), 8, 7);
  ASSERT_EQ(plan.windows_per_epoch(), 3U);
  constexpr BatchShare kAll{0, 1, 1, 3};
  BatchLoader loader(data.stream(), plan, kAll, 0);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    const Batch batch = loader.next(epoch);
    EXPECT_EQ(batch.counted, 22) << "all tokens but the last have a target";
    std::vector<Tokens> read;
    for (std::size_t at = 0; at < 24; at += 8)
      read.emplace_back(batch.tokens.begin() + at, batch.tokens.begin() + at + 8);
    std::ranges::sort(read);
    EXPECT_EQ(read,
              (std::vector<Tokens>{
                  {0, 1, 2, 10, 11, 12, 13, 20}, {20, 21, 22, 23, 24, 25, 26, 27}, {28, 30, 31, 40, 41, 42, 43, 44}}));
  }
}

TEST(DocumentWindows, CountTheSameTargetsOnAnyNumberOfRanks) {
  const Documents data({3, 4, 9, 2, 5, 8, 1});
  const BatchPlan plan(document_windows(data.stream(), 8), 8, 7);
  BatchLoader whole(data.stream(), plan, {0, 1, 1, 4}, 0), half(data.stream(), plan, {1, 2, 1, 2}, 0);
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch all = whole.next(step), second = half.next(step);
    EXPECT_EQ(second.counted, all.counted);
    EXPECT_TRUE(std::ranges::equal(second.tokens, all.tokens.last(16)));
    EXPECT_TRUE(std::ranges::equal(second.targets, all.targets.last(16)));
  }
}

TEST(DocumentWindows, EvaluateEachTargetOnce) {
  const Documents data({3, 4, 9, 2, 5});
  for (const std::int64_t limit : {0, 2}) {
    const EvalBatches batches(data.stream(), 8, {0, 1, 1, 2}, limit, document_windows(data.stream(), 8));
    EXPECT_EQ(batches.targets(), limit == 0 ? 22U : 15U);
    Tokens targets;
    for (std::int64_t i = 0; i < batches.size(); ++i) {
      Tokens tokens(16), next(16);
      batches.fill(i, tokens, next);
      std::ranges::copy_if(next, std::back_inserter(targets), [](std::int32_t id) { return id >= 0; });
    }
    Tokens expected(batches.targets());
    data.stream().copy(1, expected.size(), expected.data());
    EXPECT_EQ(targets, expected);
  }
}

}  // namespace
}  // namespace weft::train
