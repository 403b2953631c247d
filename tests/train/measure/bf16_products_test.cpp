// The unit that multiplies bf16 in a run, with either result: the deciding input, the kept gain, and the use of the
// stored unit by resumed runs.
#include "train/measure/bf16_products.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>

#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "tests/base/messages.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/step/run_graphs.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

using Source = Bf16Choice::Source;

Bf16Facts facts_of(PackedUnit widest, std::optional<double> measured) {
  return {widest, {}, {}, {}, [measured] { return measured; }};
}

TEST(ChooseBf16, FollowsWhatThePairsGain) {
  EXPECT_EQ(choose_bf16(facts_of(PackedUnit::pairs, 2.0)), (Bf16Choice{PackedUnit::pairs, Source::measured, 2.0}));
  EXPECT_EQ(choose_bf16(facts_of(PackedUnit::pairs, 0.5)), (Bf16Choice{PackedUnit::f32, Source::measured, 0.5}));
  EXPECT_EQ(choose_bf16(facts_of(PackedUnit::pairs, 1.0)).unit, PackedUnit::f32) << "a tie";
}

TEST(ChooseBf16, MeasuresOnlyWhereThereIsAChoice) {
  for (const PackedUnit only : {PackedUnit::f32, PackedUnit::amx}) {
    Bf16Facts facts{only, {}, {}, {}, []() -> std::optional<double> { throw std::logic_error("measured"); }};
    EXPECT_EQ(choose_bf16(facts), (Bf16Choice{only, Source::only}));
    facts.kept = 0.5;
    EXPECT_EQ(choose_bf16(facts).unit, only);
  }
}

TEST(ChooseBf16, AskedBeforeStoredBeforeKeptBeforeMeasured) {
  Bf16Facts facts = facts_of(PackedUnit::pairs, 2.0);
  facts.kept = 0.5;
  EXPECT_EQ(choose_bf16(facts), (Bf16Choice{PackedUnit::f32, Source::kept, 0.5}));
  facts.stored = PackedUnit::pairs;
  EXPECT_EQ(choose_bf16(facts), (Bf16Choice{PackedUnit::pairs, Source::stored}));
  facts.asked = PackedUnit::f32;
  EXPECT_EQ(choose_bf16(facts), (Bf16Choice{PackedUnit::f32, Source::asked}));
}

TEST(PairsGainFile, IsOfACpuModel) {
  const testing::TemporaryFolder folder;
  const PairsGainFile one(folder.path("runs/one"), "Vendor 6.143.8 CPU @ 2.0GHz"), other(folder.path("runs/two"), "B");
  EXPECT_EQ(one.read(), std::nullopt);
  one.write(0.53);
  EXPECT_EQ(one.path().parent_path(), execute::tuning_folder(folder.path("runs/one")));
  EXPECT_EQ(PairsGainFile(folder.path("runs/three"), "Vendor 6.143.8 CPU @ 2.0GHz").read(), 0.53);
  EXPECT_EQ(other.read(), std::nullopt);
  std::filesystem::copy_file(one.path(), other.path());
  EXPECT_EQ(other.read(), std::nullopt) << "another CPU's, under this one's name";
}

TEST(PairsGainFile, WhatCannotBeBelievedIsNone) {
  const testing::TemporaryFolder folder;
  const PairsGainFile file(folder.path("run"), "cpu");
  const std::string name = "gemm_tuning/" + file.path().filename().string();
  for (const std::string text :
       {R"({"format":"weft-pairs-gain","version":1,"cpu":"cpu","gain":-1})",
        R"({"format":"weft-pairs-gain","version":1,"cpu":"cpu","gain":"2"})",
        R"({"format":"weft-pairs-gain","version":2,"cpu":"cpu","gain":2})", R"({"format":"another","gain":2})",
        R"({"format":"weft-pairs-gain","version":1,"cpu":"cpu","gain":1e999})", "[]", "", "{"}) {
    folder.write(name, text);
    EXPECT_EQ(file.read(), std::nullopt) << text;
  }
  folder.write(name, R"({"format":"weft-pairs-gain","version":1,"cpu":"cpu","gain":2})");
  EXPECT_EQ(file.read(), 2.0);
}

class Bf16Run : public ::testing::Test {
 protected:
  Bf16Run() : config_(testing::tiny_run(folder_, ops::Family::llama)) {
    config_.dtype = DType::bf16;
    config_.model.hidden = 64;
    config_.model.ffn = 96;
    config_.micro_batch = 4;
    config_.save_every = 5;
  }
  void SetUp() override {
    if (cpu::widest_bf16_unit() != PackedUnit::pairs) GTEST_SKIP() << "this CPU has no choice";
  }
  RunConfig in(const std::string& folder) const {
    RunConfig config = config_;
    config.run_dir = folder_.path(folder).string();
    return config;
  }
  // As if a run in the same folder had measured this.
  void keep(const RunConfig& config, double gain) const { PairsGainFile(config.run_dir).write(gain); }
  static std::optional<PackedUnit> recorded(const std::filesystem::path& run_dir) {
    RunConfig config;
    load_toml(config, (run_dir / "config.toml").string());
    return config.bf16_products;
  }

  testing::TemporaryFolder folder_;
  RunConfig config_;
};

TEST_F(Bf16Run, StoresEitherAnswer) {
  RunConfig slow = in("slow/run"), fast = in("fast/run"), asked = in("slow/asked");
  keep(slow, 0.5), keep(fast, 2.0);
  asked.bf16_products = PackedUnit::f32;
  const testing::RunOutcome converted = testing::train_run(slow), paired = testing::train_run(fast),
                            same = testing::train_run(asked);
  EXPECT_EQ(recorded(slow.run_dir), PackedUnit::f32);
  EXPECT_EQ(recorded(fast.run_dir), PackedUnit::pairs);
  EXPECT_EQ(testing::first_difference(converted.state, same.state), "");
  EXPECT_NE(testing::first_difference(converted.state, paired.state), "") << "both run the same code";
  EXPECT_NEAR(converted.result.last_loss, paired.result.last_loss, 0.02);
}

TEST_F(Bf16Run, KeepsWhatItMeasured) {
  const RunConfig run = in("new/run");
  testing::train_run(run);
  const std::optional<double> kept = PairsGainFile(run.run_dir).read();
  ASSERT_EQ(kept, cpu::pairs_gain());
  EXPECT_EQ(recorded(run.run_dir), cpu::fastest_bf16_unit(PackedUnit::pairs, kept));
}

// The stored unit is used, whatever gain is kept where the run continues.
TEST_F(Bf16Run, GoesOnBitForBitAsItWasTrained) {
  for (const double gain : {0.5, 2.0}) {
    SCOPED_TRACE(gain);
    const std::string folder = gain < 1 ? "slow" : "fast";
    const RunConfig whole = in(folder + "/whole");
    keep(whole, gain);
    const testing::RunOutcome expected = testing::train_run(whole);
    RunConfig rest = in(folder + "_elsewhere/rest");
    keep(rest, 2.5 - gain);
    rest.resume = checkpoint_path(whole.run_dir, 5).string();
    rest.ranks = 2;
    EXPECT_EQ(testing::first_difference(testing::train_run(rest).state, expected.state), "");
    EXPECT_EQ(recorded(rest.run_dir), recorded(whole.run_dir));
  }
}

// Of another version the rest of a checkpoint's configuration may be unknown.
TEST_F(Bf16Run, ReadsWhatIsStoredWhateverStandsBesideIt) {
  const auto chosen = [&](const std::string& name, const std::string& stored) {
    CheckpointInfo info;
    info.model = config_.model;
    info.config_toml = stored;
    const std::filesystem::path saved = save_checkpoint(folder_.path(name), info, {});
    std::optional<Bf16Choice> choice;
    testing::on_ranks(1, [&](comm::World& world) {
      choice = bf16_of_run(world, config_, saved, [] { return std::optional<double>(2.0); });
    });
    return choice;
  };
  EXPECT_EQ(chosen("one", "from-the-future = 3\nbf16-products = \"fp32\"\n"),
            (Bf16Choice{PackedUnit::f32, Source::stored}));
  for (const std::string none : {"bf16-products = \"auto\"\n", "bf16-products = 3\n", "steps = 3\n", "", "no toml"}) {
    EXPECT_EQ(chosen("two" + std::to_string(none.size()), none), (Bf16Choice{PackedUnit::pairs, Source::measured, 2.0}))
        << none;
  }
  if (cpu::has_unit(PackedUnit::amx)) return;
  EXPECT_EQ(chosen("three", "bf16-products = \"amx\"\n")->source, Source::measured) << "this CPU has none";
}

TEST_F(Bf16Run, RankZeroDecidesForAll) {
  const RunConfig config = in("run");
  std::atomic<int> measured{0};
  testing::on_ranks(3, [&](comm::World& world) {
    // Each input would give another unit.
    const auto measure = [&] { return ++measured, std::optional<double>(world.rank() == 0 ? 0.5 : 2.0); };
    const std::optional<Bf16Choice> choice = bf16_of_run(world, config, std::nullopt, measure);
    EXPECT_EQ(choice, (Bf16Choice{PackedUnit::f32, Source::measured, 0.5}));
  });
  EXPECT_EQ(measured, 1);
}

TEST_F(Bf16Run, PlansAsItRuns) {
  RunConfig config = in("run");
  for (const PackedUnit unit : {PackedUnit::f32, PackedUnit::pairs}) {
    config.bf16_products = unit;
    testing::train_run(config);
    RunConfig stored;
    load_toml(stored, folder_.path("run/config.toml").string());
    EXPECT_EQ(compiled_fingerprint(stored), testing::plan_fingerprint(config));
    std::filesystem::remove_all(config.run_dir);
  }
}

TEST(Bf16Products, AreNoQuestionInFp32AndOnGpus) {
  RunConfig config;
  config.bf16_products = PackedUnit::f32;
  EXPECT_EQ(bf16_unit_of(config), std::nullopt);
  config.dtype = DType::bf16;
  EXPECT_EQ(bf16_unit_of(config), PackedUnit::f32);
  config.device = DeviceKind::cuda;
  EXPECT_EQ(bf16_unit_of(config), std::nullopt);
}

TEST(Bf16Products, AUnitThatTheCpuLacksIsRefused) {
  RunConfig config;
  config.dtype = DType::bf16;
  config.bf16_products = cpu::has_unit(PackedUnit::amx) ? PackedUnit::pairs : PackedUnit::amx;
  if (cpu::has_unit(*config.bf16_products)) GTEST_SKIP() << "this CPU has all of them";
  const auto body = [&](comm::World& world) { bf16_of_run(world, config); };
  const testing::RanksEnd end = testing::end_of_ranks(2, body);
  EXPECT_EQ(end.code, 2);
  EXPECT_TRUE(has_parts(end.errors, {"bf16-products = ", "fix: --bf16-products auto"}));
}

}  // namespace
}  // namespace weft::train
