// A run that ends on one grid and goes on with another trains as if it had never ended.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/train/near_numbers.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft::train {
namespace {

constexpr std::int64_t kSteps = 12, kHalf = 6, kMore = 3;

struct Move {
  ops::Family family;
  graph::Grid from, to;
  bool zero1_from = false, zero1_to = false;
};

class GridResume : public ::testing::TestWithParam<Move> {
 protected:
  /// Dropout, clipping and warm-up are on; every grid runs the same 8 sequences a step.
  RunConfig config(const graph::Grid& grid, bool zero1, const std::string& run_dir) const {
    RunConfig config = testing::tiny_run(folder_, GetParam().family);
    config.grid = grid;
    config.zero1 = zero1;
    config.run_dir = folder_.path(run_dir).string();
    config.steps = kSteps;
    config.warmup = kHalf;
    config.lr = 1e-3;
    config.eval_every = 3;
    config.save_every = kHalf;
    config.keep_last = 0;
    return config;
  }
  const testing::TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(
    Moves, GridResume,
    ::testing::Values(Move{ops::Family::gpt2, {2, 2, 1, 1}, {1, 1, 2, 2}},
                      Move{ops::Family::llama, {2, 2, 1, 1}, {1, 1, 2, 2}},
                      Move{ops::Family::gpt2, {1, 1, 2, 2}, {2, 2, 1, 1}, true, false},
                      Move{ops::Family::llama, {2, 1, 1, 2}, {1, 2, 2, 2}, true, true},
                      Move{ops::Family::llama, {1, 1, 1, 1}, {2, 2, 2, 1}, false, false},
                      Move{ops::Family::gpt2, {.pipe = 2}, {.z = 2}, false, false},
                      Move{ops::Family::llama, {.x = 2}, {.data = 2, .pipe = 2}, false, true},
                      Move{ops::Family::mixtral, {1, 2, 2, 1}, {2, 1, 1, 2}, false, true},
                      Move{ops::Family::mixtral, {.z = 2, .expert = 2}, {.y = 2}},
                      Move{ops::Family::mixtral, {.z = 2, .data = 2}, {.z = 4, .expert = 2}, false, true},
                      Move{ops::Family::gpt2, {.z = 2, .context = 2}, {2, 1, 1, 2}},
                      Move{ops::Family::llama, {1, 1, 2, 2}, {.z = 4, .context = 2}, true, true},
                      Move{ops::Family::gpt2, {.z = 2, .pipe = 2, .context = 2}, {.y = 2}}),
    [](const auto& info) {
      return std::string(to_string(info.param.family)) + "_" + testing::name_of(info.param.from) +
             (info.param.zero1_from ? "zero1" : "") + "_" + testing::name_of(info.param.to) +
             (info.param.zero1_to ? "zero1" : "");
    });

void expect_near(const RunConfig& found, const RunConfig& expected, const char* key, double tolerance) {
  const std::vector<nlohmann::json> a = testing::metrics_of(found.run_dir), b = testing::metrics_of(expected.run_dir);
  ASSERT_EQ(b.size(), static_cast<std::size_t>(kSteps));
  ASSERT_EQ(a.size(), static_cast<std::size_t>(kSteps - kHalf));
  for (std::size_t i = 0; i < a.size(); ++i) {
    const nlohmann::json& before = b[i + static_cast<std::size_t>(kHalf)];
    EXPECT_EQ(a[i].at("step"), before.at("step"));
    EXPECT_EQ(a[i].at("lr"), before.at("lr"));
    ASSERT_EQ(a[i].contains(key), before.contains(key)) << key << " of step " << before.at("step");
    if (!before.contains(key)) continue;
    const double value = before.at(key).get<double>();
    EXPECT_LE(std::abs(a[i].at(key).get<double>() - value), tolerance * std::abs(value))
        << key << " of step " << before.at("step");
  }
}

TEST_P(GridResume, LossesGoOnAsIfNothingHadHappened) {
  const Move& move = GetParam();
  const RunConfig whole = config(move.from, move.zero1_from, "whole");
  EXPECT_EQ(testing::trained_on_grid(whole).steps_done, kSteps);

  RunConfig rest = config(move.to, move.zero1_to, "rest");
  rest.micro_batch = 2;
  rest.resume = checkpoint_path(whole.run_dir, kHalf).string();
  const TrainResult result = testing::trained_on_grid(rest);
  EXPECT_EQ(result.first_step, kHalf);
  EXPECT_EQ(result.steps_done, kSteps);
  expect_near(rest, whole, "loss", 1e-6);
  expect_near(rest, whole, "val_loss", 1e-6);
  expect_near(rest, whole, "grad_norm", 1e-5);

  // And back: the first grid continues the other grid's checkpoint.
  RunConfig back = config(move.from, move.zero1_from, "back");
  back.steps = kSteps + kMore;
  RunConfig further = back;
  further.run_dir = folder_.path("further").string();
  further.resume = whole.run_dir;
  back.resume = rest.run_dir;
  testing::trained_on_grid(further);
  testing::trained_on_grid(back);
  ASSERT_EQ(testing::metric(back.run_dir, "loss").size(), static_cast<std::size_t>(kMore));
  testing::expect_near(testing::metric(back.run_dir, "loss"), testing::metric(further.run_dir, "loss"), 1e-6);
}

}  // namespace
}  // namespace weft::train
