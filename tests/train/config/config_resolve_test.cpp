// The values that fill_in() fills in, and its refusals with their fixes.
#include <gtest/gtest.h>

#include <regex>

#include "base/error.h"
#include "tests/base/messages.h"
#include "train/config/config.h"

namespace weft::train {
namespace {

std::string refused(RunConfig config, std::int64_t world_size = 0) {
  return testing::message_of<UserError>([&] { fill_in(config, world_size); });
}

TEST(ConfigResolve, FillsInWhatIsOpen) {
  RunConfig config;
  config.ranks = 2;
  fill_in(config, 0);
  EXPECT_EQ(config.grid.data, 2);
  EXPECT_EQ(config.micro_batch, 4);
  EXPECT_EQ(config.seq_len, ops::model_by_name("tiny").context);
  EXPECT_EQ(config.model.hidden, ops::model_by_name("tiny").hidden);
  EXPECT_GE(config.threads, 1);
  EXPECT_TRUE(std::regex_match(config.run_dir, std::regex("runs/tiny-[0-9]{8}-[0-9]{6}"))) << config.run_dir;
  EXPECT_EQ(accumulation(config), 1);
}

TEST(ConfigResolve, AResolvedConfigResolvesToItself) {
  RunConfig config;
  config.ranks = 2;
  config.micro_batch = 2;
  fill_in(config, 0);
  EXPECT_EQ(accumulation(config), 2);
  RunConfig back;
  load_toml_text(back, dump_toml(config), "dump");
  fill_in(back, 0);
  EXPECT_EQ(dump_toml(back), dump_toml(config));
}

TEST(ConfigResolve, RanksComeFromTheGridOrTheWorld) {
  RunConfig config;
  config.grid.data = 4;
  fill_in(config, 0);
  EXPECT_EQ(config.ranks, 4);
  RunConfig world;
  fill_in(world, 4);
  EXPECT_EQ(world.ranks, 4);
  EXPECT_EQ(world.grid.data, 4);
}

TEST(ConfigResolve, AnotherNumberOfRanksRefillsTheDataAxis) {
  RunConfig config;
  config.ranks = 4;
  fill_in(config, 0);
  apply_settings(config, {{"ranks", "1", "--ranks"}});
  fill_in(config, 0);
  EXPECT_EQ(config.grid.data, 1);
}

TEST(ConfigResolve, RanksThatDisagreeAreRefused) {
  RunConfig config;
  config.ranks = 2;
  EXPECT_TRUE(testing::contains(refused(config, 4), "ranks = 2, but 4 ranks were started"));
  config.grid.data = 4;
  EXPECT_TRUE(testing::contains(refused(config), "--grid data=2"));
  RunConfig grid;
  grid.grid.data = 4;
  EXPECT_TRUE(testing::contains(refused(grid, 2), "has 4 ranks, but there are 2"));
}

TEST(ConfigResolve, TheDataAxisIsWhatTheRanksLeave) {
  RunConfig config;
  config.grid = {.x = 2, .y = 2};
  fill_in(config, 8);
  EXPECT_EQ(config.grid.data, 2);
  RunConfig other;
  other.grid = {.x = 2, .z = 3};
  EXPECT_TRUE(testing::contains(refused(other, 8), "grid x=2,y=1,z=3,data=1 has 6 ranks, but there are 8"));
  EXPECT_TRUE(testing::contains(refused(other, 8), "--grid x=2,data=4, or mpirun -np 6"));
  other.ranks = 5;
  EXPECT_TRUE(testing::contains(refused(other), "--grid data=5, or --ranks 6"));
}

TEST(ConfigResolve, GridsThatDontFitTheModelNameTheDimension) {
  RunConfig config;
  config.grid.x = 3;
  EXPECT_TRUE(testing::contains(refused(config), "model.hidden = 256 does not divide by x = 3")) << refused(config);
  EXPECT_TRUE(testing::contains(refused(config), "choose x=2 or x=4")) << refused(config);
  config.grid = {.y = 16};
  EXPECT_TRUE(testing::contains(refused(config), "model.heads = 8 does not divide by y = 16")) << refused(config);
}

TEST(ConfigResolve, ZAndDataShareTheBatch) {
  RunConfig config;
  config.grid = {.x = 2, .z = 2, .data = 2};
  fill_in(config, 0);
  EXPECT_EQ(config.ranks, 8);
  EXPECT_EQ(config.micro_batch, 2);
  config = {};
  config.grid = {.z = 2, .data = 3};
  EXPECT_TRUE(testing::contains(refused(config), "can't be divided among 6 ranks (z=2 × data=3)")) << refused(config);
  EXPECT_TRUE(testing::contains(refused(config), "--global-batch 6 or 12")) << refused(config);
  config.grid.data = 2;
  config.micro_batch = 3;
  EXPECT_TRUE(
      testing::contains(refused(config), "the 2 sequences of a rank (global-batch 8 over 4 ranks (z=2 × data=2))"))
      << refused(config);
}

TEST(ConfigResolve, BatchesThatDontDivideNameTheNearestThatDo) {
  RunConfig config;
  config.ranks = 3;
  EXPECT_TRUE(testing::contains(refused(config), "--global-batch 6 or 9")) << refused(config);
  config.ranks = 16;
  EXPECT_TRUE(testing::contains(refused(config), "--global-batch 16")) << refused(config);
  config.ranks = 2;
  config.micro_batch = 3;  // of a share of 4
  EXPECT_TRUE(testing::contains(refused(config), "--micro-batch 2, or --global-batch 6 or 12")) << refused(config);
}

TEST(ConfigResolve, SequencesFitTheContext) {
  RunConfig config;
  config.seq_len = ops::model_by_name("tiny").context + 1;
  EXPECT_TRUE(testing::contains(refused(config), "longer than the model's context"));
}

TEST(ConfigResolve, ModelsThatCantBeAreRefused) {
  RunConfig heads;
  set_key(heads, "model.heads", "7", "test");
  EXPECT_NE(refused(heads), "");
  RunConfig grouped;
  set_key(grouped, "model.kv-heads", "2", "test");
  EXPECT_NE(refused(grouped), "");
}

TEST(ConfigResolve, RangesHoldForFieldsSetInCode) {
  RunConfig config;
  config.lr = -1;
  EXPECT_TRUE(testing::contains(refused(config), "lr = -1 is out of range"));
  RunConfig steps;
  steps.steps = -1;
  EXPECT_TRUE(testing::contains(refused(steps), "steps = -1 is out of range"));
  RunConfig dtype;
  dtype.dtype = DType::i32;
  EXPECT_NE(refused(dtype), "");
}

TEST(ConfigResolve, ContradictionsAreRefused) {
  RunConfig rates;
  rates.min_lr = 1;
  EXPECT_TRUE(testing::contains(refused(rates), "min-lr = 1 is above lr"));
  RunConfig automatic;
  automatic.resume = "auto";
  EXPECT_TRUE(testing::contains(refused(automatic), "without a run-dir"));
  RunConfig both;
  both.resume = "runs/a";
  both.init_from = "weights";
  EXPECT_TRUE(testing::contains(refused(both), "leave one out"));
}

TEST(ConfigResolve, RewritesOfLayersThatTheModelLacksAreRefused) {
  RunConfig config;
  config.rewrites = plan::parse_rewrites("recompute=0-99");
  EXPECT_TRUE(has_parts(refused(config), {"recompute=0-99 names layer 99; expected layers 0 to 3"}));
  config.rewrites = plan::parse_rewrites("reshard=4");
  EXPECT_TRUE(testing::contains(refused(config), "reshard=4 names layer 4"));
  config.rewrites = plan::parse_rewrites("recompute=0-3;reshard");
  fill_in(config, 0);
}

TEST(ConfigResolve, SizesGivenInCodeStayWithACustomName) {
  RunConfig config;
  config.model_name = "custom";
  config.model.layers = 1;
  config.model.context = 16;
  fill_in(config, 0);
  EXPECT_EQ(config.model.layers, 1);
  EXPECT_EQ(config.seq_len, 16);
}

TEST(ConfigResolve, ProductsOfSizesAreBounded) {
  RunConfig wide;
  wide.global_batch = 1 << 24;
  EXPECT_TRUE(
      testing::contains(refused(wide), "activations of 2147483648 tokens (micro-batch 16777216 of seq-len 128)"));
  RunConfig deep;
  deep.global_batch = 1 << 24;
  deep.micro_batch = 1;
  EXPECT_TRUE(testing::contains(refused(deep), "16777216 micro-batches of 4 layers in one step"));
  RunConfig large;
  large.model_name = large.model.name = "custom";
  large.model.layers = 10'000;
  large.model.hidden = 1'000'000;
  EXPECT_TRUE(testing::contains(refused(large), "parameters")) << refused(large);
}

}  // namespace
}  // namespace weft::train
