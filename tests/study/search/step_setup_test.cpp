// The space of a search: every grid and its options once, axes in every order that differs, and the ranks that fit.
#include "study/search/step_setup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace weft::study {
namespace {

train::RunConfig config_of(std::int64_t batch) {
  train::RunConfig config;
  config.model.hidden = 64;
  config.model.heads = config.model.kv_heads = 4;
  config.model.ffn = 256;
  config.model.vocab = 100;
  config.global_batch = batch;
  return config;
}

TEST(Choices, AreAllThatDivideTheModelAndTheBatch) {
  const std::vector<StepSetup> choices = setups_of(config_of(12), 6, {});
  std::set<std::string> texts;
  std::set<std::int64_t> data;
  for (const StepSetup& setup : choices) {
    EXPECT_EQ(setup.grid.ranks(), 6) << to_string(setup);
    EXPECT_EQ(12 % (setup.grid.batch_ranks() * setup.micro_batch), 0) << to_string(setup);
    EXPECT_TRUE(setup.grid.z > 1 || !setup.reshard_after_forward) << to_string(setup);
    EXPECT_TRUE(setup.grid.data > 1 || !setup.zero1) << to_string(setup);
    EXPECT_TRUE(texts.insert(to_string(setup)).second) << to_string(setup) << " twice";
    data.insert(setup.grid.data);
  }
  EXPECT_EQ(data, (std::set<std::int64_t>{3, 6}));  // three divides none of the model's sizes
  // Of z=2, data=3: two sequences of a rank, at once or one after the other, and each option on and off.
  const auto of_z = std::ranges::count_if(choices, [](const StepSetup& setup) { return setup.grid.z == 2; });
  EXPECT_EQ(of_z, 2 * 2 * 2 * 2);
}

TEST(Choices, KeepWhatTheConfigurationHas) {
  train::RunConfig config = config_of(12);
  config.grid = {.z = 2, .data = 3};
  config.micro_batch = 2;
  config.recompute = train::Recompute::block;
  config.zero1 = true;
  const std::vector<StepSetup> one =
      setups_of(config, 6, {"grid", "micro-batch", "recompute", "reshard-after-forward", "zero-1"});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0], (StepSetup{config.grid, 2, train::Recompute::block, false, true}));
  EXPECT_EQ(setups_of(config, 6, {"grid", "zero-1"}).size(), 2U * 2 * 2);
  EXPECT_TRUE(setups_of(config, 4, {"grid"}).empty());
  config.micro_batch = 5;
  EXPECT_TRUE(setups_of(config, 6, {"micro-batch"}).empty());
}

// Rows of a micro-batch are cut over x and y, where they divide; only on request both ways.
TEST(Choices, TrySequenceParallelOnRequest) {
  train::RunConfig config = config_of(6);
  config.seq_len = 5;
  const KeptKeys kept = {"recompute", "reshard-after-forward", "zero-1"};
  const auto choices = [&](bool tried) { return setups_of(config, 4, kept, {1}, {.sequence_parallel = tried}); };
  const std::vector<StepSetup> off = choices(false), tried = choices(true);
  std::vector<StepSetup> without;
  for (const StepSetup& setup : tried) {
    if (!setup.sequence_parallel) without.push_back(setup);
    const bool divides = setup.micro_batch % std::max(setup.grid.x, setup.grid.y) == 0;
    EXPECT_TRUE(divides || !setup.sequence_parallel) << to_string(setup);
  }
  EXPECT_EQ(without, off);
  EXPECT_GT(tried.size(), off.size());
  config.sequence_parallel = true;
  const std::vector<StepSetup> always = choices(false);
  EXPECT_FALSE(always.empty());
  for (const StepSetup& setup : always) {
    EXPECT_TRUE(setup.sequence_parallel);
    EXPECT_EQ(setup.micro_batch * 5 % setup.grid.y, 0) << to_string(setup);
  }
  EXPECT_EQ(setup_of(with_setup(config_of(6), always.front())), always.front());
}

// Neighbours on z share sequences or experts on request only, where their number divides z, heads, sequences and
// experts.
TEST(Choices, TrySharedSequencesAndExpertsOnRequest) {
  train::RunConfig config = config_of(2);
  config.seq_len = 32;
  config.model.family = ops::Family::mixtral;
  config.model.experts = 6;
  const KeptKeys kept = {"recompute", "reshard-after-forward", "zero-1", "micro-batch"};
  config.micro_batch = 1;
  const auto grids = [&](const Tried& tried) {
    std::set<std::string> found;
    for (const StepSetup& setup : setups_of(config, 4, kept, {1}, tried)) found.insert(graph::to_string(setup.grid));
    return found;
  };
  EXPECT_FALSE(grids({}).contains("x=1,y=1,z=4,data=1"));  // two sequences, and four ranks that take their own
  const std::set<std::string> contexts = grids({.context = true}), experts = grids({.expert = true});
  EXPECT_TRUE(contexts.contains("x=1,y=1,z=4,data=1,context=2"));
  EXPECT_TRUE(contexts.contains("x=1,y=1,z=4,data=1,context=4"));
  EXPECT_TRUE(contexts.contains("x=1,y=2,z=2,data=1,context=2"));
  EXPECT_TRUE(experts.contains("x=1,y=2,z=2,data=1,expert=2"));
  EXPECT_TRUE(grids({.context = true, .expert = true}).contains("x=1,y=1,z=4,data=1,context=4,expert=2"));
  for (const std::string& grid : grids({})) {
    EXPECT_TRUE(contexts.contains(grid)) << grid;
    EXPECT_TRUE(experts.contains(grid)) << grid;
  }
  config.seq_len = 30;
  EXPECT_FALSE(grids({.context = true}).contains("x=1,y=1,z=4,data=1,context=4"));
}

TEST(Choices, AreSettingsOfTheSearchedKeys) {
  StepSetup setup{{.x = 2, .z = 3}, 4, train::Recompute::block, true, true};
  std::swap(setup.grid.order[0], setup.grid.order[3]);
  for (const StepSetup& each : {setup, StepSetup{}}) {
    const std::vector<train::Setting> settings = settings_of(each, "test");
    ASSERT_EQ(settings.size(), searched_keys().size());
    for (std::size_t i = 0; i < settings.size(); ++i) EXPECT_EQ(settings[i].key, searched_keys()[i]);
    train::RunConfig config = with_setup(config_of(12), StepSetup{{.y = 2}, 7, train::Recompute::block, true, true});
    config.grid_auto = true;
    train::apply_settings(config, settings);
    EXPECT_EQ(setup_of(config), each);
    EXPECT_EQ(setup_of(with_setup(config_of(12), each)), each);
    EXPECT_EQ(with_setup(config_of(12), each).ranks, each.grid.ranks());
    EXPECT_FALSE(config.grid_auto);
  }
}

TEST(AxisOrders, AreThoseOfAxesWithSeveralRanks) {
  EXPECT_EQ(axis_orders({}).size(), 1U);
  EXPECT_EQ(axis_orders({.y = 4}).size(), 1U);
  EXPECT_EQ(axis_orders({.y = 4, .data = 2}).size(), 2U);
  EXPECT_EQ(axis_orders({.x = 2, .y = 2, .z = 2}).size(), 6U);
  const auto all = axis_orders({.x = 2, .y = 2, .z = 2, .data = 2});
  EXPECT_EQ(all.size(), 24U);
  EXPECT_EQ(all.front(), graph::kAxes);
  for (const auto& order : axis_orders({.x = 2, .z = 3, .data = 2})) {
    EXPECT_TRUE(std::ranges::is_permutation(order, graph::kAxes));
    EXPECT_EQ(order[1], graph::Axis::y);  // of one rank: where it usually is
  }
}

TEST(NearestRanks, IsTheNearestNumberThatFits) {
  const train::RunConfig config = config_of(8);
  EXPECT_TRUE(setups_of(config, 7, {}).empty());
  EXPECT_EQ(nearest_ranks(config, 7, {}), 8);
  EXPECT_EQ(nearest_ranks(config, 11, {}), 8);  // 10, 12 to 14: a factor that divides neither heads nor batch
  EXPECT_TRUE(setups_of(config, 12, {}).empty());
}

TEST(StepSetup, ShortTextsNameWhatIsThere) {
  StepSetup setup;
  EXPECT_EQ(grid_text(setup), "1 rank");
  EXPECT_EQ(options_text(setup), "");
  setup.grid = {.x = 2, .y = 1, .z = 4, .data = 1};
  setup.grid.order = {graph::Axis::z, graph::Axis::x, graph::Axis::y, graph::Axis::data};
  setup.recompute = train::Recompute::block;
  setup.zero1 = true;
  EXPECT_EQ(grid_text(setup), "z=4,x=2");
  EXPECT_EQ(options_text(setup), "recompute, ZeRO-1");
}

}  // namespace
}  // namespace weft::study
