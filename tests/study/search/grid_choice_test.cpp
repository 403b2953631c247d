// The grid that `weft train --grid auto` takes: the search's best, with all that was set, within a memory.
#include "study/search/grid_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/error.h"
#include "study/search/search.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/checkpoint.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

/// Of a small Llama, for which the best grid isn't the first one.
train::RunConfig open_config(std::vector<train::Setting> more = {}) {
  std::vector<train::Setting> settings = {{"model", "llama-tiny", ""}, {"grid", "auto", ""}, {"global-batch", "8", ""}};
  settings.insert(settings.end(), more.begin(), more.end());
  train::RunConfig config;
  train::apply_settings(config, std::move(settings));
  return config;
}

std::string value_of(const std::vector<train::Setting>& settings, std::string_view key) {
  const auto found = std::ranges::find(settings, key, &train::Setting::key);
  return found == settings.end() ? "none" : found->value;
}

std::vector<train::Setting> chosen(const train::RunConfig& config, train::RankCount ranks = {4, 1}) {
  return choose_grid(config, ranks, Verbosity::quiet);
}

std::string refusal(const train::RunConfig& config, train::RankCount ranks = {4, 1}) {
  return testing::message_of<UserError>([&] { chosen(config, ranks); });
}

TEST(GridChoice, IsTheBestOfTheSearch) {
  const train::RunConfig config = open_config({{"machine", "perlmutter", ""}, {"dtype", "bf16", ""}});
  const train::ResolvedRun run = open_search(config);
  SearchOptions options;
  options.ranks = 4;
  options.policies = {run.policy};
  const SearchResult result = search_configurations(run, options, [](const Status&) {});
  ASSERT_GT(result.configurations.size(), 1U);
  const std::vector<train::Setting> expected = settings_of(result.configurations.front().setup, "");
  const std::vector<train::Setting> found = chosen(config);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].key, expected[i].key);
    EXPECT_EQ(found[i].value, expected[i].value) << found[i].key;
  }
  // They make a configuration of a step as long and as large as was told.
  train::RunConfig closed = config;
  train::apply_settings(closed, found);
  const train::ResolvedRun resolved = train::resolve(closed, 0);
  EXPECT_EQ(resolved.config.grid.ranks(), 4);
  const simulate::Report report = simulate::report_plan(train::planning_problem(resolved), resolved.policy);
  EXPECT_EQ(report.step_ns(), result.configurations.front().step_ns);
  EXPECT_EQ(report.memory_bytes(), result.configurations.front().memory_bytes);
}

TEST(GridChoice, KeepsWhatIsSet) {
  const std::vector<train::Setting> set = {{"axis-order", "data,z,x,y", ""},
                                           {"micro-batch", "1", ""},
                                           {"recompute", "block", ""},
                                           {"reshard-after-forward", "true", ""},
                                           {"zero-1", "true", ""}};
  const std::vector<train::Setting> found = chosen(open_config(set));
  for (const train::Setting& each : set) EXPECT_EQ(value_of(found, each.key), each.value) << each.key;
  EXPECT_NE(value_of(found, "grid"), "auto");
  // Zero leaves the micro-batch open.
  EXPECT_NE(value_of(chosen(open_config({{"micro-batch", "0", ""}})), "micro-batch"), "0");
}

TEST(GridChoice, FitsThisComputer) {
  const auto planned_bytes = [](const train::RunConfig& open, const std::vector<train::Setting>& settings) {
    train::RunConfig config = open;
    train::apply_settings(config, settings);
    const train::ResolvedRun run = train::resolve(config, 0);
    return simulate::report_plan(train::planning_problem(run), run.policy).memory_bytes();
  };
  const train::RunConfig config = open_config();
  const std::vector<train::Setting> free = chosen(config);
  EXPECT_EQ(value_of(free, "memory"), "none");
  const std::int64_t most = planned_bytes(config, free);
  // As many ranks on this computer that none gets what the free setup takes.
  const std::int64_t share = most * 7 / 8;
  const auto computer = static_cast<std::int64_t>(machine_memory_bytes());
  const std::vector<train::Setting> narrow = chosen(config, {4, computer / share});
  EXPECT_LE(planned_bytes(config, narrow), computer / (computer / share));
  const std::string message = refusal(config, {4, computer / 1'000'000});
  EXPECT_TRUE(testing::has_parts(message, {"4 ranks needs", "of memory a rank or more", "fix: "}));
  // A memory that is set counts in its place.
  EXPECT_EQ(value_of(chosen(open_config({{"memory", "none", ""}}), {4, computer / 1'000'000}), "grid"),
            value_of(free, "grid"));
}

TEST(GridChoice, RefusesWhatIsOfOneGridOrAnotherDevice) {
  EXPECT_TRUE(testing::has_parts(refusal(open_config(), {7, 1}), {"no grid of 7 ranks fits llama-tiny", "--ranks 8"}));
  EXPECT_TRUE(testing::has_parts(refusal(open_config({{"micro-batch", "3", ""}})),
                                 {"no grid of 4 ranks", "another value of micro-batch"}));
  EXPECT_TRUE(testing::has_parts(refusal(open_config({{"device", "cuda", ""}})), {"no machine", "--machine"}));
  EXPECT_TRUE(testing::has_parts(refusal(open_config({{"rewrites", "recompute=0-1", ""}})), {"names layers"}));
  EXPECT_TRUE(testing::has_parts(refusal(open_config({{"rewrites", "batch-split=2", ""}})),
                                 {"batch-split=2", "--micro-batch"}));
  EXPECT_TRUE(testing::has_parts(refusal(open_config({{"policy", "programm", ""}})), {"programm"}));
}

class GridOfARun : public ::testing::Test {
 protected:
  /// A run that has a checkpoint with this configuration.
  std::string run_with(const std::string& toml) const {
    const ops::ModelConfig model = testing::small_model(ops::Family::gpt2, true);
    train::CheckpointInfo info;
    info.step = 3;
    info.model = model;
    info.config_toml = toml;
    const testing::ModelArrays arrays(model, DType::f32, 1);
    train::save_checkpoint(folder_.path("run"), info, arrays.states());
    return folder_.path("run").string();
  }
  /// The settings that were chosen for the run as it goes on.
  std::vector<train::Setting> resumed(const std::string& run, std::vector<train::Setting> more = {},
                                      std::int64_t ranks = 2) const {
    train::RunConfig config;
    more.push_back({"grid", "auto", ""});
    more.push_back({"resume", run, ""});
    more.push_back({"model", "custom", ""});
    train::apply_settings(config, std::move(more));
    return chosen(config, {ranks, ranks});
  }

  const testing::TemporaryFolder folder_;
};

// No search prefers this one: recomputation on a step of kilobytes.
constexpr const char* kStored =
    "grid = \"y=2\"\naxis-order = \"data,z,y,x\"\nmicro-batch = 2\nglobal-batch = 8\nrecompute = \"block\"\n"
    "eval-batches = 4\nmemory-limit = 9\n";  // keys of older builds

TEST_F(GridOfARun, StaysAsLongAsNothingThatDecidesItChanges) {
  const std::string run = run_with(kStored);
  for (const std::vector<train::Setting>& same :
       std::vector<std::vector<train::Setting>>{{}, {{"micro-batch", "2", ""}, {"recompute", "block", ""}}}) {
    const std::vector<train::Setting> found = resumed(run, same);
    EXPECT_EQ(value_of(found, "grid"), "x=1,y=2,z=1,data=1");
    EXPECT_EQ(value_of(found, "axis-order"), "data,z,y,x");
    EXPECT_EQ(value_of(found, "micro-batch"), "2");
    EXPECT_EQ(value_of(found, "recompute"), "block");
  }
}

TEST_F(GridOfARun, IsChosenAnewForOtherRanksBatchesOrKeys) {
  const std::string run = run_with(kStored);
  EXPECT_EQ(value_of(resumed(run, {}, 4), "recompute"), "none");
  EXPECT_EQ(value_of(resumed(run, {{"global-batch", "4", ""}}), "recompute"), "none");
  const std::vector<train::Setting> other = resumed(run, {{"micro-batch", "1", ""}});
  EXPECT_EQ(value_of(other, "recompute"), "none");
  EXPECT_EQ(value_of(other, "micro-batch"), "1");
}

}  // namespace
}  // namespace weft::study
