// The values that fill_in() fills in, and its refusals with their fixes.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "train/config/config.h"

namespace weft::train {
namespace {

struct Refused {
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string_view> parts;
  std::int64_t world_size = 0;
};

void expect_refusals(const std::vector<Refused>& cases) {
  for (const Refused& each : cases) {
    RunConfig config;
    for (const auto& [key, value] : each.settings) set_key(config, key, value, "test");
    EXPECT_TRUE(refuses([&] { fill_in(config, each.world_size); }, each.parts)) << each.parts.front();
  }
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
  // The data axis is what the ranks leave.
  RunConfig cut;
  cut.grid = {.x = 2, .y = 2};
  fill_in(cut, 8);
  EXPECT_EQ(cut.grid.data, 2);
}

TEST(ConfigResolve, ZAndDataShareTheBatch) {
  RunConfig config;
  config.grid = {.x = 2, .z = 2, .data = 2};
  fill_in(config, 0);
  EXPECT_EQ(config.ranks, 8);
  EXPECT_EQ(config.micro_batch, 2);
}

TEST(ConfigResolve, RanksOfAContextShareSequences) {
  RunConfig config;
  config.grid = {.z = 4, .data = 2, .context = 2};
  fill_in(config, 0);
  EXPECT_EQ(config.ranks, 8);
  EXPECT_EQ(config.micro_batch, 2);
  EXPECT_EQ(accumulation(config), 1);
  config.device = DeviceKind::cuda;
  EXPECT_NO_THROW(fill_in(config, 0));
}

TEST(ConfigResolve, AnotherNumberOfRanksRefillsTheDataAxis) {
  RunConfig config;
  config.ranks = 4;
  fill_in(config, 0);
  apply_settings(config, {{"ranks", "1", "--ranks"}});
  fill_in(config, 0);
  EXPECT_EQ(config.grid.data, 1);
}

TEST(ConfigResolve, RefusesWhatCantBe) {
  expect_refusals(
      {{{{"ranks", "2"}}, {"ranks = 2, but 4 ranks were started"}, 4},
       {{{"ranks", "2"}, {"grid", "data=4"}}, {"--grid data=2, or --ranks 4"}},
       {{{"grid", "data=4"}}, {"has 4 ranks, but there are 2"}, 2},
       {{{"grid", "x=2,z=3"}}, {"grid x=2,y=1,z=3,data=1 has 6 ranks, but there are 8", "--grid x=2,z=4"}, 8},
       {{{"grid", "x=2,z=3"}, {"ranks", "5"}}, {"--grid data=5 --global-batch 10"}},
       {{{"grid", "x=3"}},
        {"model.hidden = 256 does not divide by x = 3", "choose x=2 or x=4 or --grid data=3 --global-batch 9"}},
       {{{"grid", "x=3"}, {"ranks", "3"}}, {"choose --grid data=3 --global-batch 9"}},
       {{{"grid", "x=3"}, {"ranks", "2"}}, {"has 3 ranks, but there are 2", "fix: --grid x=2"}},
       {{{"grid", "x=3"}, {"ranks", "4"}}, {"has 3 ranks, but there are 4", "fix: --grid x=4"}},
       {{{"grid", "x=3,pipe=2"}, {"ranks", "4"}}, {"has 6 ranks, but there are 4", "--grid x=2,pipe=2"}},
       {{{"grid", "y=16"}}, {"model.heads = 8 does not divide by y = 16"}},
       {{{"grid", "z=2,data=3"}}, {"can't be divided among 6 ranks (z=2 × data=3)", "--global-batch 6 or 12"}},
       {{{"grid", "z=2,data=2"}, {"micro-batch", "3"}},
        {"the 2 sequences of a rank (global-batch 8 over 4 ranks (z=2 × data=2))"}},
       {{{"ranks", "3"}}, {"--global-batch 6 or 9"}},
       {{{"ranks", "16"}}, {"--global-batch 16"}},
       {{{"ranks", "2"}, {"micro-batch", "3"}}, {"--micro-batch 2, or --global-batch 6 or 12"}},
       {{{"seq-len", "129"}}, {"longer than the model's context"}},
       {{{"model.heads", "7"}}, {"heads"}},
       {{{"model.kv-heads", "2"}}, {"model.kv-heads = 2 with model.heads = 8 in family gpt2"}},
       {{{"min-lr", "1"}}, {"min-lr = 1 is above lr"}},
       {{{"resume", "auto"}}, {"without a run-dir"}},
       {{{"resume", "runs/a"}, {"init-from", "weights"}}, {"leave one out"}},
       {{{"keep-best", "true"}, {"save", "false"}}, {"keep-best with save = false"}},
       {{{"goldfish", "k=3,h=129,strategy=hash"}}, {"reads contexts of 129 tokens", "h=128 or less"}},
       {{{"lora", "rank=4"}, {"gradient-reduction", "micro-batch"}},
        {"gradient-reduction = micro-batch with lora", "leave gradient-reduction out"}},
       {{{"sequence-parallel", "true"}, {"grid", "y=8"}, {"seq-len", "31"}, {"global-batch", "1"}},
        {"sequence-parallel with 31 rows a micro-batch (1 × seq-len 31) on y=8", "rows that y divides",
         "--seq-len 24 or 32, or --sequence-parallel=false"}},
       {{{"sequence-parallel", "true"}, {"grid", "x=2"}, {"seq-len", "31"}, {"global-batch", "1"}}, {"on x=2"}},
       {{{"loss-parts", "7"}}, {"loss-parts = 7 of 1024 rows", "--loss-parts 8"}},
       {{{"loss-parts", "2"}, {"grid", "pipe=2"}}, {"loss-parts = 2 with pipe = 2"}},
       {{{"loss-parts", "2"}, {"grid", "y=2"}, {"sequence-parallel", "true"}}, {"with sequence-parallel over y"}},
       {{{"model.family", "llama"}, {"model.head-size", "264"}, {"device", "cuda"}},
        {"heads of 264 columns with device cuda", "at most 256"}},
       {{{"pack-weights", "on"}, {"device", "cuda"}}, {"pack-weights with device = cuda"}},
       {{{"rewrites", "pack-weights=2"}, {"device", "cuda"}}, {"pack-weights with device = cuda"}},
       {{{"record-routing", "a"}, {"replay-routing", "b"}, {"model", "moe-tiny"}}, {"one of both", "leave one out"}},
       {{{"replay-routing", "a"}}, {"replay-routing of a model without experts"}},
       // Layers that the model lacks.
       {{{"rewrites", "recompute=0-99"}}, {"recompute=0-99 names layer 99; expected layers 0 to 3"}},
       {{{"rewrites", "reshard=4"}}, {"reshard=4 names layer 4"}},
       // Products of sizes.
       {{{"global-batch", "16777216"}}, {"activations of 2147483648 tokens (micro-batch 16777216 of seq-len 128)"}},
       {{{"global-batch", "16777216"}, {"micro-batch", "1"}}, {"16777216 micro-batches of 4 layers in one step"}},
       {{{"model.layers", "10000"}, {"model.hidden", "1000000"}}, {"parameters"}}});
}

TEST(ConfigResolve, RefusesSharesOfContextsAndExpertsThatCantBe) {
  expect_refusals(
      {{{{"grid", "z=3,context=2"}},
        {"context = 2 does not divide z = 3", "neighbours share their sequences", "choose --grid z=4,context=2"}},
       {{{"grid", "context=2"}, {"ranks", "4"}}, {"context = 2 does not divide z = 1", "z=2,data=2,context=2"}},
       {{{"grid", "z=2,context=2"}, {"model.family", "olmo2"}}, {"norms of queries and keys over the columns"}},
       {{{"grid", "z=16,context=16"}, {"global-batch", "1"}},
        {"model.kv-heads = 8 does not divide by x · y · context = 16", "choose --grid z=16,context=8"}},
       {{{"grid", "z=2,expert=2"}}, {"expert = 2 with model tiny, which has no experts", "choose --grid z=2"}},
       {{{"model", "moe-tiny"}, {"grid", "z=3,expert=2"}},
        {"expert = 2 does not divide z = 3", "choose --grid z=4,expert=2"}},
       {{{"model", "moe-tiny"}, {"grid", "z=3,expert=3"}, {"global-batch", "6"}},
        {"model.experts = 8 does not divide by expert = 3", "as many experts", "choose --grid data=3"}},
       {{{"model", "moe-tiny"},
         {"model.experts", "512"},
         {"grid", "z=512,expert=512"},
         {"global-batch", "512"},
         {"device", "cuda"}},
        {"expert = 512 with device cuda", "at most 256"}},
       {{{"grid", "z=2,context=2"}, {"seq-len", "127"}},
        {"context = 2 of the grid with seq-len = 127", "--seq-len 126 or 128"}},
       {{{"grid", "z=4,context=2"}, {"global-batch", "3"}}, {"among 2 × 2 ranks (z=4 × data=1, context=2)"}}});
}

TEST(ConfigResolve, RangesHoldForFieldsSetInCode) {
  const auto refused = [](const auto& change) {
    RunConfig config;
    change(config);
    return testing::message_of<UserError>([&] { fill_in(config, 0); });
  };
  EXPECT_TRUE(has_parts(refused([](RunConfig& config) { config.lr = -1; }), {"lr = -1 is out of range"}));
  EXPECT_TRUE(has_parts(refused([](RunConfig& config) { config.steps = -1; }), {"steps = -1 is out of range"}));
  EXPECT_TRUE(has_parts(refused([](RunConfig& config) { config.dtype = DType::i32; }), {"fp32 or bf16"}));
}

TEST(ConfigResolve, SizesGivenInCodeStayWithACustomName) {
  RunConfig config;
  config.model_name = "custom";
  config.model.layers = 1;
  config.model.context = 16;
  config.rewrites = plan::parse_rewrites("recompute=0;reshard");
  fill_in(config, 0);
  EXPECT_EQ(config.model.layers, 1);
  EXPECT_EQ(config.seq_len, 16);
}

}  // namespace
}  // namespace weft::train
