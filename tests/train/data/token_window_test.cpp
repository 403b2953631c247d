#include "train/data/token_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/train/data/tokens_with_documents.h"
#include "train/data/batches.h"
#include "train/data/token_source.h"

namespace weft::train {
namespace {

using DocumentTokens = std::vector<std::int32_t>;

/// Documents of these lengths, document d with the ids 10·d, 10·d + 1, …
class Documents {
 public:
  explicit Documents(const std::vector<std::int32_t>& lengths) {
    std::vector<DocumentTokens> documents;
    std::int32_t first = 0;
    for (const std::int32_t length : lengths) {
      DocumentTokens& document = documents.emplace_back();
      for (std::int32_t i = 0; i < length; ++i) document.push_back(first + i);
      first += 10;
    }
    const PathList data = testing::write_documents(folder_, "x.bin", documents);
    source_ = TokenSource::open({.data = data, .val_data = data, .seq_len = 2, .documents = true});
  }
  const TokenStream& stream() const { return source_.train(); }

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
    std::vector<DocumentTokens> read;
    for (std::size_t at = 0; at < 24; at += 8)
      read.emplace_back(batch.tokens.begin() + at, batch.tokens.begin() + at + 8);
    std::ranges::sort(read);
    EXPECT_EQ(read,
              (std::vector<DocumentTokens>{
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
    const EvalBatches batches(data.stream(), document_windows(data.stream(), 8), 8, {0, 1, 1, 2}, limit);
    EXPECT_EQ(batches.targets(), limit == 0 ? 22U : 15U);
    DocumentTokens targets;
    for (std::int64_t i = 0; i < batches.size(); ++i) {
      DocumentTokens tokens(16), next(16);
      batches.fill(i, tokens, next);
      std::ranges::copy_if(next, std::back_inserter(targets), [](std::int32_t id) { return id >= 0; });
    }
    DocumentTokens expected(batches.targets());
    data.stream().copy(1, expected.size(), expected.data());
    EXPECT_EQ(targets, expected);
  }
}

}  // namespace
}  // namespace weft::train
