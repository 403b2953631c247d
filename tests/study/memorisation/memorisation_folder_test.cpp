#include "study/memorisation/memorisation_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "study/memorisation/memorisation_output.h"
#include "tests/base/messages.h"
#include "tests/study/memorisation/small_memorisation.h"

namespace weft::study {
namespace {

class MemorisationFolderTest : public ::testing::Test {
 protected:
  std::string refusal(const MemorisationStudy& study) const {
    return testing::message_of<UserError>([&] {
      MemorisationFolder folder(path_);
      folder.begin(study, StudyTexts(study.text, path_));
      folder.results();
    });
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
    MemorisationFolder folder(path_);
    folder.begin(study_, StudyTexts(study_.text, path_));
    EXPECT_TRUE(folder.results().empty());
    folder.keep(result_);
  }
  MemorisationFolder again(path_);
  again.begin(study_, StudyTexts(study_.text, path_));
  const std::vector<StudyResult> results = again.results();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(result_json(results[0]).text(), result_json(result_).text());
  again.finish(study_, results);
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
