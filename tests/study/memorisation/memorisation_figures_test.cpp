#include "study/memorisation/memorisation_figures.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text/escape.h"
#include "tests/base/messages.h"
#include "tests/study/memorisation/small_memorisation.h"

namespace weft::study {
namespace {

using testing::bucket;

class MemorisationFigures : public ::testing::Test {
 protected:
  MemorisationFigures() {
    study_.seeds = 2;
    for (const std::uint64_t seed : {1, 2}) {
      const double more = 0.5 * static_cast<double>(seed - 1);
      results_.push_back({{"1m", StudyLoss::standard, seed}, 1000, 4, 5, 2, {bucket(0, 6, 0, 4), bucket(3, 1, 3, 1)}});
      results_.push_back(
          {{"1m", StudyLoss::goldfish, seed}, 1000, 4, 4.5 + more, 2, {bucket(0, 6, 0, 4), bucket(3, 2, 0, 4)}});
      results_.push_back({{"1m", StudyLoss::standard_short, seed}, 1000, 2, 5, 1, {}});
    }
  }

  MemorisationStudy study_ = testing::small_memorisation("text.txt");
  std::vector<StudyResult> results_;
};

TEST_F(MemorisationFigures, SumsUpOverDocumentsAndSeeds) {
  study_.counts.seen = {3, 0};
  const std::vector<BucketSummary> summaries = bucket_summaries(study_, results_);
  ASSERT_EQ(summaries.size(), 4U);
  EXPECT_EQ(summaries[0].seen, 0);
  EXPECT_EQ(summaries[1].seen, 3);
  EXPECT_EQ(summaries[1].exact.mean, 0.75);
  EXPECT_LT(summaries[1].exact.low, 0.75);
  EXPECT_EQ(summaries[1].prefix.mean, 3.25);
  EXPECT_DOUBLE_EQ(summaries[1].rouge_l.mean, (3 + 0.25) / 4);
  EXPECT_EQ(summaries[1].nats.mean, 1);
  EXPECT_EQ(summaries[3].loss, StudyLoss::goldfish);
  EXPECT_EQ(summaries[3].exact.mean, 0);
  const std::vector<HeldOutSummary> losses = held_out_summaries(study_, results_);
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].goldfish.mean, 4.75);
  EXPECT_DOUBLE_EQ(losses[0].ratio.mean, 0.95);
  EXPECT_DOUBLE_EQ(losses[0].ratio.low, 0.9);
  EXPECT_DOUBLE_EQ(losses[0].ratio.high, 1.0);
}

TEST_F(MemorisationFigures, HasTheSameFiguresInAllForms) {
  const auto table = read_csv(results_of(study_, results_).csv());
  ASSERT_TRUE(table);
  ASSERT_EQ(table->size(), 1 + 2 * 5U);
  EXPECT_EQ((*table)[2], (CsvRow{"1m", "standard", "1", "3", "1000", "4", "2", "5", "1", "0.75", "3.25", "0.8125"}));
  EXPECT_EQ((*table)[5], (CsvRow{"1m", "standard-short", "1", "", "1000", "2", "1", "5", "", "", "", ""}));
  const nlohmann::json json = nlohmann::json::parse(results_of(study_, results_).json().text());
  EXPECT_EQ(json.at("results").size(), 6U);
  EXPECT_EQ(json.at("summary").size(), 6U);
  EXPECT_EQ(json.at("held_out")[0].at("goldfish_over_short").at("mean"), 0.95);
}

TEST_F(MemorisationFigures, ShowsWhatWasPublishedBesideIt) {
  study_.counts.seen = {0, 3};
  EXPECT_TRUE(
      testing::has_parts(results_of(study_, results_).text({}).plain(),
                         {"75.0 %", "seen 3 times", "about 85 %", "Hans et al.", "-5.0 %", "50 % of the steps"}));
  EXPECT_TRUE(
      testing::has_parts(results_of(study_, results_).picture().svg(), {"1m, standard", "1m, goldfish", "times seen"}));
}

}  // namespace
}  // namespace weft::study
