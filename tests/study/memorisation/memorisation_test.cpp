#include "study/memorisation/memorisation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "study/memorisation/memorisation_figures.h"
#include "tests/base/messages.h"
#include "tests/study/memorisation/small_memorisation.h"

namespace weft::study {
namespace {

class Memorisation : public ::testing::Test {
 protected:
  std::vector<StudyResult> run(const MemorisationStudy& study, std::span<const StudyResult> known = {}) {
    const StudyTexts texts(study.text, folder_.path(""));
    expect_enough(study, texts);
    return study::run(experiment_of(study, texts, folder_.path("")), known,
                      [&](std::span<const StudyResult>) { ++computed_; });
  }
  std::string refusal(const MemorisationStudy& study) const {
    return testing::message_of<UserError>([&] { check_memorisation(study); });
  }

  const testing::TemporaryFolder folder_;
  const std::filesystem::path text_ = testing::write_study_text(folder_);
  MemorisationStudy study_ = testing::small_memorisation(text_);
  int computed_ = 0;
};

TEST_F(Memorisation, TrainsAndAsksEachModel) {
  const std::vector<StudyResult> results = run(study_);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(computed_, 3);
  EXPECT_EQ(results[0].run, (StudyRun{"1m", StudyLoss::standard, 1}));
  EXPECT_EQ(results[1].run, (StudyRun{"1m", StudyLoss::goldfish, 1}));
  EXPECT_EQ(results[2].run, (StudyRun{"1m", StudyLoss::standard_short, 1}));
  // 10 documents of background and 2 · (0 + 1 + 3), less 2 that wouldn't fill a step of 4.
  EXPECT_EQ(results[0].steps, 4);
  EXPECT_EQ(results[2].steps, 2);
  EXPECT_NE(results[0].held_out_loss, results[1].held_out_loss);
  EXPECT_TRUE(results[2].buckets.empty());
  for (const StudyResult& result : {results[0], results[1]}) {
    EXPECT_GT(result.held_out_loss, 1);
    EXPECT_LT(result.held_out_loss, std::log(300)) << "it has learnt something";
    ASSERT_EQ(result.buckets.size(), 3U);
    for (const BucketResult& bucket : result.buckets) {
      EXPECT_EQ(bucket.documents.size(), 2U);
      EXPECT_GT(bucket.loss, 1);
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path(""))) {
    EXPECT_FALSE(entry.is_directory()) << entry.path();
  }
}

TEST_F(Memorisation, DoesNotDependOnJobsAndUsesKnownResults) {
  const std::vector<StudyResult> alone = run(study_);
  study_.jobs = 3;
  computed_ = 0;
  const std::vector<StudyResult> beside = run(study_, std::span(alone).first(1));
  EXPECT_EQ(computed_, 2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(beside[i].held_out_loss, alone[i].held_out_loss);
    EXPECT_EQ(beside[i].buckets, alone[i].buckets);
  }
}

TEST_F(Memorisation, AFailedTrainingEndsTheStudy) {
  study_.settings = {{"lr", "1e300", "--set"}};
  EXPECT_THROW(run(study_), UserError);
}

TEST_F(Memorisation, RefusesWhatNoTrainingCouldBe) {
  EXPECT_EQ(refusal(study_), "");
  auto wrong = study_;
  wrong.models = {"1m", "7m"};
  EXPECT_TRUE(testing::has_parts(refusal(wrong), {"7m", "1m, 2m"}));
  wrong = study_;
  wrong.counts.seen = {1, 4};
  EXPECT_TRUE(testing::has_parts(refusal(wrong), {"--seen without 0"}));
  wrong.counts.seen = {0, 4, 4};
  EXPECT_TRUE(testing::has_parts(refusal(wrong), {"twice in --seen"}));
  wrong = study_;
  wrong.tail = 12;
  EXPECT_TRUE(testing::has_parts(refusal(wrong), {"--tail 12"}));
  wrong = study_;
  wrong.goldfish.h = 10;
  EXPECT_TRUE(testing::has_parts(refusal(wrong), {"h = 10", "after 8"}));
  wrong = study_;
  wrong.settings = {{"packing", "wrapped", "--set"}};
  EXPECT_TRUE(testing::has_parts(refusal(wrong), {"--set packing"}));
  wrong = study_;
  wrong.counts.seen = {0, 1, 2};
  wrong.counts.background = 0;
  EXPECT_TRUE(testing::has_parts(refusal(wrong), {"0 background documents in steps of 4"}));
  wrong = study_;
  wrong.counts.background = 100'000;
  EXPECT_THROW(run(wrong), UserError);
}

class MemorisationFolderTest : public ::testing::Test {
 protected:
  ResultFolder begun(const MemorisationStudy& study) const {
    ResultFolder folder = memorisation_folder(path_);
    folder.describe(description_of(study, StudyTexts(study.text, path_)));
    return folder;
  }
  std::string refusal(const MemorisationStudy& study) const {
    return testing::message_of<UserError>([&] { kept_results(begun(study)); });
  }

  const testing::TemporaryFolder temporary_;
  const std::filesystem::path path_ = temporary_.path("out");
  const MemorisationStudy study_ = testing::small_memorisation(testing::write_study_text(temporary_));
  const StudyResult result_{.run = {"1m", StudyLoss::goldfish, 7},
                            .parameters = 1000,
                            .steps = 4,
                            .held_out_loss = 5.125,
                            .seconds = 1.5,
                            .buckets = {testing::bucket(0, 6, 0, 2), testing::bucket(3, 2.5, 1, 1)}};
};

TEST_F(MemorisationFolderTest, KeepsResults) {
  {
    const ResultFolder folder = begun(study_);
    EXPECT_TRUE(kept_results(folder).empty());
    keep(folder, result_);
  }
  const ResultFolder again = begun(study_);
  const std::vector<StudyResult> results = kept_results(again);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(result_json(results[0]).text(), result_json(result_).text());
  again.finish(results_of(study_, results));
  for (const char* name : {"results.csv", "results.json", "plot.svg"})
    EXPECT_TRUE(std::filesystem::exists(path_ / name));
}

TEST_F(MemorisationFolderTest, RefusesOtherStudiesAndDamagedResults) {
  EXPECT_EQ(refusal(study_), "");
  auto more = study_;
  more.models = {"1m", "5m"};
  more.seeds = 5;
  EXPECT_EQ(refusal(more), "") << "further trainings of the same study";
  auto other = study_;
  other.tail = 5;
  EXPECT_TRUE(testing::has_parts(refusal(other), {"study.json", "\"tail\": 4", "5"}));
  other = study_;
  other.settings = {{"dtype", "bf16", "--set"}};
  EXPECT_TRUE(testing::has_parts(refusal(other), {"\"dtype = bf16\""}));
  std::ofstream(path_ / "results" / "1m-standard-1.json") << "{\"model\": \"1m\"}";
  EXPECT_TRUE(testing::has_parts(refusal(study_), {"1m-standard-1.json", "remove it"}));
}

}  // namespace
}  // namespace weft::study
