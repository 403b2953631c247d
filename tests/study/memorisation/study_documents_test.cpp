#include "study/memorisation/study_documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "tests/study/memorisation/small_memorisation.h"
#include "train/data/batches.h"
#include "train/data/token_source.h"

namespace weft::study {
namespace {

TEST(DrawDocuments, PutsEachInOnePlace) {
  const DocumentCounts counts{.seen = {0, 1, 3}, .documents = 5, .background = 20, .held_out = 7};
  EXPECT_EQ(counts.all(), 42);
  EXPECT_EQ(counts.trained(), 40);
  const DrawnDocuments drawn = draw_documents(counts, 50, 9);
  std::set<std::size_t> all(drawn.background.begin(), drawn.background.end());
  all.insert(drawn.held_out.begin(), drawn.held_out.end());
  for (const auto& [seen, documents] : drawn.buckets) all.insert(documents.begin(), documents.end());
  EXPECT_EQ(all.size(), 42U);
  EXPECT_LT(*all.rbegin(), 50U);
  const std::vector<std::size_t> training = drawn.training();
  EXPECT_EQ(training.size(), 40U);
  for (const auto& [seen, documents] : drawn.buckets) {
    for (const std::size_t document : documents) EXPECT_EQ(std::ranges::count(training, document), seen);
  }
  for (const std::size_t document : drawn.held_out) EXPECT_EQ(std::ranges::count(training, document), 0);
  EXPECT_EQ(draw_documents(counts, 50, 9).held_out, drawn.held_out);
  EXPECT_NE(draw_documents(counts, 50, 10).held_out, drawn.held_out);
}

TEST(StudyTexts, AreCutIntoDocumentsThatAreReadBack) {
  const testing::TemporaryFolder folder;
  const MemorisationStudy study = testing::small_memorisation(testing::write_study_text(folder));
  const StudyTexts texts(study.text, folder.path(""));
  EXPECT_EQ(texts.tokenizer().vocabulary(), 300);
  ASSERT_GE(texts.documents(), 20U);
  std::string text;
  for (std::size_t i = 0; i < 3; ++i) text += texts.tokenizer().decode(texts.document(i), /*skip_special=*/true);
  EXPECT_TRUE(testing::TemporaryFolder::read(study.text.data[0]).starts_with(text));
  const std::string file = folder.path("documents.bin").string();
  texts.write(file, std::vector<std::size_t>{4, 2, 4});
  const train::TokenSource source =
      train::TokenSource::open({.data = {file}, .val_data = {file}, .vocab = 300, .seq_len = 12, .documents = true});
  ASSERT_EQ(source.train.size(), 36U);
  EXPECT_EQ(train::document_windows(source.train, 12), (std::vector<train::TokenWindow>{{0, 12}, {12, 12}, {24, 12}}));
  DocumentIds second(12);
  source.train.copy(12, 12, second.data());
  EXPECT_EQ(second, texts.document(2));
  EXPECT_EQ(second[0], texts.tokenizer().facts().end);
}

TEST(StudyTexts, KeepTheTokenizerThatIsThere) {
  const testing::TemporaryFolder folder;
  const MemorisationStudy study = testing::small_memorisation(testing::write_study_text(folder));
  const std::uint64_t digest = StudyTexts(study.text, folder.path("")).digest();
  EXPECT_EQ(StudyTexts(study.text, folder.path("")).digest(), digest);
  StudyTextOptions longer = study.text;
  longer.length = 13;
  EXPECT_NE(StudyTexts(longer, folder.path("")).digest(), digest);
  StudyTextOptions missing = study.text;
  missing.data = {folder.path("none.txt").string()};
  EXPECT_THROW(StudyTexts(missing, folder.path("")), UserError);
}

}  // namespace
}  // namespace weft::study
