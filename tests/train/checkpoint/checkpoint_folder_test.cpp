// The folders that are checkpoints, and the checkpoints that are kept.
#include "train/checkpoint/checkpoint_folder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/ops/tiny_model.h"
#include "train/checkpoint/manifest.h"

namespace weft::train {
namespace {

class Checkpoints : public ::testing::Test {
 protected:
  std::filesystem::path add(std::int64_t step) const {
    std::filesystem::path path = checkpoint_path(folder_.path(), step);
    folder_.write((path / "manifest.json").lexically_relative(folder_.path()).string(), "{}");
    return path;
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> steps;
    for (const CheckpointFolder& checkpoint : complete_checkpoints(folder_.path())) steps.push_back(checkpoint.step);
    return steps;
  }
  /// The checkpoints that remain of one every ten steps up to `newest`, with a clean-up after each.
  std::vector<std::int64_t> kept(std::int64_t newest, const Retention& retention) const {
    for (std::int64_t step = 10; step <= newest; step += 10) {
      add(step);
      remove_superseded(folder_.path(), step, retention);
    }
    return steps();
  }

  const testing::TemporaryFolder folder_;
};

using Steps = std::vector<std::int64_t>;

TEST_F(Checkpoints, TheLatestCompleteOneIsFound) {
  EXPECT_FALSE(latest_checkpoint(folder_.path()).has_value());
  add(9);
  const auto ten = add(10);
  folder_.write("checkpoints/step_00000011/model.safetensors", "cut off: no manifest");
  folder_.write("checkpoints/step_12x/manifest.json", "{}");
  folder_.write("checkpoints/.writing_step_00000013/manifest.json", "{}");
  folder_.write("checkpoints/.removing_step_00000014/manifest.json", "{}");
  EXPECT_EQ(latest_checkpoint(folder_.path()), ten);
  EXPECT_EQ(find_checkpoint(folder_.path()), ten);
  EXPECT_EQ(find_checkpoint(ten), ten);
}

TEST_F(Checkpoints, AreOrderedByStepBeyondTheDigitsOfTheName) {
  for (const std::int64_t step : {1'000'000'000, 99'999'999, 5}) add(step);
  EXPECT_EQ(steps(), (Steps{5, 99'999'999, 1'000'000'000}));
}

TEST_F(Checkpoints, TheLastOnesStay) {
  EXPECT_EQ(kept(50, {.keep_last = 3, .keep_every = 0}), (Steps{30, 40, 50}));
}

TEST_F(Checkpoints, WithZeroAllStay) {
  EXPECT_EQ(kept(50, {.keep_last = 0, .keep_every = 20}), (Steps{10, 20, 30, 40, 50}));
}

TEST_F(Checkpoints, MultiplesStayForEver) {
  EXPECT_EQ(kept(90, {.keep_last = 2, .keep_every = 30}), (Steps{30, 60, 80, 90}));
}

TEST_F(Checkpoints, TheOneJustWrittenStaysWhenOthersAreAhead) {
  for (const std::int64_t step : {100, 110, 120}) add(step);  // of a run that went further than this one's start
  EXPECT_EQ(kept(20, {.keep_last = 1, .keep_every = 0}), (Steps{20, 100, 110, 120}));
}

TEST_F(Checkpoints, TheBestStaysAndHasAName) {
  const auto add_evaluated = [&](std::int64_t step, std::optional<double> loss) {
    Manifest manifest;
    manifest.info.step = step;
    manifest.info.model = testing::tiny_model(ops::Family::gpt2);
    manifest.info.val_loss = loss;
    folder_.write((add(step) / "manifest.json").lexically_relative(folder_.path()).string(), to_json(manifest));
    remove_superseded(folder_.path(), step, {.keep_last = 1, .keep_every = 0, .keep_best = true});
  };
  add_evaluated(10, 3);
  EXPECT_EQ(find_checkpoint(folder_.path("best")), checkpoint_path(folder_.path(), 10));
  add_evaluated(20, 2.5);
  add_evaluated(30, std::nullopt);
  add_evaluated(40, 2.75);
  EXPECT_EQ(steps(), (Steps{20, 40}));
  EXPECT_EQ(best_checkpoint(folder_.path())->val_loss, 2.5);
  EXPECT_EQ(find_checkpoint(folder_.path("best")), checkpoint_path(folder_.path(), 20));
  EXPECT_EQ(find_checkpoint(folder_.path()), checkpoint_path(folder_.path(), 40));
  add_evaluated(50, 2.5);  // the newest of equal ones
  EXPECT_EQ(steps(), (Steps{50}));
  EXPECT_FALSE(best_checkpoint(folder_.path(), 49).has_value());
  add_evaluated(60, 9);
  folder_.write("checkpoints/step_00000070/manifest.json", "{}");  // damaged
  EXPECT_EQ(find_checkpoint(folder_.path("best")), checkpoint_path(folder_.path(), 50));
  std::filesystem::create_directory(folder_.path("best"));  // a run of that name
  EXPECT_THROW(find_checkpoint(folder_.path("best")), UserError);
}

TEST_F(Checkpoints, IncompleteOnesAreNotCounted) {
  add(10);
  folder_.write("checkpoints/step_00000015/model.safetensors", "cut off: no manifest");
  add(20);
  remove_superseded(folder_.path(), 20, {.keep_last = 2, .keep_every = 0});
  EXPECT_EQ(steps(), (Steps{10, 20}));
}

}  // namespace
}  // namespace weft::train
