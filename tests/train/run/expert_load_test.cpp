// What is told of experts: the busiest, the least margin, lines of experts.jsonl; and whole runs that record their
// choices, replay them on grids, and count tokens.
#include "train/run/expert_load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/near_numbers.h"
#include "tests/train/tiny_run.h"
#include "train/run/routing_file.h"
#include "train/run/run_files.h"

namespace weft::train {
namespace {

ExpertLoad load_of_two_layers() {
  return {
      .last_step = 9,
      .steps = 10,
      .layers = {{.layer = 1, .tokens = {5, 5, 10}, .margin = 0.25F, .flips = 2}, {.layer = 3, .tokens = {0, 20, 0}}}};
}

TEST(ExpertLoad, TellsTheBusiestExpertAndTheNearestChoice) {
  const ExpertLoad load = load_of_two_layers();
  const BusiestExpert most = busiest(load);
  EXPECT_EQ(std::tuple(most.layer, most.expert, most.load), std::tuple(3, 1, 3.0));
  ASSERT_NE(nearest_choice(load), nullptr);
  EXPECT_EQ(nearest_choice(load)->layer, 1);
  EXPECT_EQ(choices_in(load), 40);
  EXPECT_EQ(flips_in(load), 2);
  EXPECT_TRUE(testing::has_parts(load_text(load, true), {"3.00 times", "layer 3, expert 1", "0.25", "2 of 40"}));
  EXPECT_EQ(load_text(load, false).find("replayed"), std::string::npos);
  EXPECT_EQ(nearest_choice({.layers = {{.tokens = {1}}}}), nullptr);
}

TEST(ExpertLoad, LinesAreReadBack) {
  const ExpertLoad load = load_of_two_layers();
  EXPECT_EQ(json_line(load, true),
            "{\"step\":9,\"steps\":10,\"layers\":[1,3],\"tokens\":[[5,5,10],[0,20,0]],\"margin\":[0.25,null],"
            "\"flips\":[2,0]}\n");
  EXPECT_EQ(json_line(parse_expert_load(json_line(load, true), "line"), true), json_line(load, true));
  EXPECT_EQ(json_line(parse_expert_load(json_line(load, false), "line"), false), json_line(load, false));
  for (const char* wrong : {"{\"step\":1,\"steps\":1,\"layers\":[0],\"tokens\":[],\"margin\":[1]}",
                            "{\"step\":1,\"steps\":1,\"layers\":[0,1],\"tokens\":[[1],[1,2]],\"margin\":[1,1]}",
                            "{\"step\":1,\"steps\":0,\"layers\":[],\"tokens\":[],\"margin\":[]}"}) {
    EXPECT_THROW((void)parse_expert_load(wrong, "line"), UserError) << wrong;
  }
}

TEST(ExpertLoad, LaterStepsAreAdded) {
  ExpertLoad sum;
  sum.add(load_of_two_layers());
  ExpertLoad later = load_of_two_layers();
  later.last_step = 14, later.steps = 5, later.layers[0].margin = 0.125F;
  sum.add(later);
  EXPECT_EQ(std::pair(sum.last_step, sum.steps), std::pair(std::int64_t{14}, std::int64_t{15}));
  EXPECT_EQ(sum.layers[0].tokens, (std::vector<std::int64_t>{10, 10, 20}));
  EXPECT_EQ(sum.layers[0].margin, 0.125F);
  EXPECT_EQ(sum.layers[0].flips, 4);
}

RunConfig watched_run(const testing::TemporaryFolder& folder, const std::string& name) {
  RunConfig config = testing::tiny_run(folder, ops::Family::mixtral);
  config.run_dir = folder.path(name).string();
  config.model.kv_heads = 4;
  config.steps = 6;
  config.lr = 1e-3;
  config.save = false;
  config.eval_sequences = 8;
  return config;
}

std::vector<ExpertLoad> loads_of(const RunConfig& config) {
  std::istringstream lines(testing::TemporaryFolder::read(std::filesystem::path(config.run_dir) / kExpertsFile));
  std::vector<ExpertLoad> loads;
  for (std::string line; std::getline(lines, line);) loads.push_back(parse_expert_load(line, "line"));
  return loads;
}

// On one rank and on grids whose ranks share tokens, layers and experts' columns in all ways.
TEST(ExpertRuns, ReplayedOnAnyGridTrainAlikeAndCountTheSameTokens) {
  const testing::TemporaryFolder folder;
  RunConfig serial = watched_run(folder, "serial");
  serial.record_routing = folder.path("routing").string();
  const TrainResult expected = testing::trained_on_grid(serial);
  const std::vector<ExpertLoad> counted = loads_of(serial);
  ASSERT_EQ(counted.size(), 6U);
  EXPECT_GT(nearest_choice(expected.experts)->margin, 0);
  for (const LayerLoad& layer : counted.back().layers) {
    const auto sum = std::accumulate(layer.tokens.begin(), layer.tokens.end(), std::int64_t{0});
    EXPECT_EQ(sum, serial.global_batch * 16 * serial.model.experts_per_token);
  }
  for (const graph::Grid& grid :
       {graph::Grid{.y = 2, .z = 2}, graph::Grid{.x = 2, .data = 2}, graph::Grid{.pipe = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    RunConfig config = watched_run(folder, graph::to_string(grid));
    config.ranks = grid.ranks();
    config.grid = grid;
    config.sequence_parallel = grid.y > 1;
    config.replay_routing = serial.record_routing;
    const TrainResult found = testing::trained_on_grid(config);
    testing::expect_near({found.first_loss, found.last_loss}, {expected.first_loss, expected.last_loss}, 1e-6, "loss");
    const std::vector<ExpertLoad> loads = loads_of(config);
    ASSERT_EQ(loads.size(), counted.size());
    for (std::size_t i = 0; i < loads.size(); ++i) {
      ASSERT_EQ(loads[i].layers.size(), 2U);
      for (std::size_t l = 0; l < 2; ++l) EXPECT_EQ(loads[i].layers[l].tokens, counted[i].layers[l].tokens);
    }
  }
}

// Other weights make other choices; the replayed ones stay, and the differences are told.
TEST(ExpertRuns, FlipsAreToldWhereLogitsWouldChooseOtherwise) {
  const testing::TemporaryFolder folder;
  RunConfig recorded = watched_run(folder, "recorded");
  recorded.record_routing = folder.path("routing").string();
  (void)testing::trained_on_grid(recorded);
  RunConfig replayed = watched_run(folder, "replayed");
  replayed.replay_routing = recorded.record_routing;
  const TrainResult same = testing::trained_on_grid(replayed);
  EXPECT_EQ(flips_in(same.experts), 0);
  replayed.lr = 0.1;
  replayed.run_dir = folder.path("other").string();
  const TrainResult other = testing::trained_on_grid(replayed);
  EXPECT_GT(flips_in(other.experts), 0);
  EXPECT_EQ(loads_of(replayed).back().layers[0].tokens, loads_of(recorded).back().layers[0].tokens);
  EXPECT_TRUE(testing::has_parts(testing::TemporaryFolder::read(folder.path("other/experts.jsonl")), {"\"flips\":["}));
}

TEST(ExpertRuns, GoOnWithTheirFiles) {
  const testing::TemporaryFolder folder;
  RunConfig whole = watched_run(folder, "whole");
  whole.record_routing = folder.path("whole_routing").string();
  (void)testing::trained_on_grid(whole);
  RunConfig parts = watched_run(folder, "parts");
  parts.record_routing = folder.path("routing").string();
  parts.save = true;
  parts.save_every = 3;
  (void)testing::trained_on_grid(parts);
  // As if it had been killed after its fifth step.
  std::filesystem::remove_all(folder.path("parts/checkpoints/step_00000006"));
  parts.resume = parts.run_dir;
  (void)testing::trained_on_grid(parts);
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("routing")),
            testing::TemporaryFolder::read(folder.path("whole_routing")));
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("parts/experts.jsonl")),
            testing::TemporaryFolder::read(folder.path("whole/experts.jsonl")));
}

TEST(ExpertRuns, RefuseFilesOfOtherRuns) {
  const testing::TemporaryFolder folder;
  RunConfig recorded = watched_run(folder, "recorded");
  recorded.record_routing = folder.path("routing").string();
  (void)testing::trained_on_grid(recorded);
  const auto refused = [&](const auto& change, std::initializer_list<std::string_view> parts) {
    RunConfig config = watched_run(folder, "refused");
    config.replay_routing = recorded.record_routing;
    change(config);
    config.ranks = 2;
    const testing::RanksEnd end =
        testing::end_of_ranks(2, [&](comm::World& world) { (void)set_up_training(world, resolve(config, 0)); });
    EXPECT_EQ(end.code, 2);
    EXPECT_TRUE(testing::has_parts(end.errors, parts));
    EXPECT_FALSE(std::filesystem::exists(config.run_dir));
  };
  refused([](RunConfig& config) { config.steps = 7; }, {"steps 0 to 5", "--steps 6"});
  refused([](RunConfig& config) { config.seed = 43; }, {"seed = 42"});
  refused([](RunConfig& config) { config.model.experts = 8; }, {"model.experts = 4"});
}

}  // namespace
}  // namespace weft::train
