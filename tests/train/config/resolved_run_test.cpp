// The objects that a configuration's texts name are read once, when it is resolved.
#include "train/config/resolved_run.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"
#include "runtime/execute/program/program.h"
#include "runtime/plan/plan_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/benchmark_run.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

RunConfig two_ranks() {
  return testing::benchmark_config(ops::Family::gpt2, graph::Grid{1, 1, 1, 2});
}

/// A plan of the training step by `policy`, in a file.
std::string write_plan(const testing::TemporaryFolder& folder, const std::string& policy) {
  RunConfig config = two_ranks();
  config.policy = policy;
  const ResolvedRun run = resolve(config, 0);
  const auto graph = ops::lower_train(run.config.model, step_config(run.config));
  return folder.write("plan.json", plan::to_json({plan::filed(policy::compile_plan(graph, *run.policy), {})}));
}

std::uint64_t fingerprint_of(const simulate::Report& report) {
  return report.planned() ? report.first().plan->fingerprint : 0;
}

TEST(ResolvedRun, HoldsThePolicyAsAnObject) {
  RunConfig config = two_ranks();
  config.policy = "axonn:oar=off";
  const ResolvedRun run = resolve(config, 0);
  EXPECT_EQ(run.policy.name, "axonn:oar=off");
  EXPECT_EQ(run.policy->name(), policy::named_policy("axonn:oar=off")->name());
  EXPECT_EQ(run.machine, nullptr);
  EXPECT_EQ(run.profile, nullptr);
}

TEST(ResolvedRun, APlanFileIsReadOnce) {
  const testing::TemporaryFolder folder;
  const std::string path = write_plan(folder, "serial");
  RunConfig config = two_ranks();
  config.policy = "file:" + path;
  config.pack_weights = WeightPacking::off;
  const ResolvedRun run = resolve(config, 0);
  fs::remove(path);
  const simulate::Report report = simulate::report_plan(planning_problem(run), run.policy);
  EXPECT_TRUE(report.planned()) << report.refusal;
  config.policy = "serial";
  const ResolvedRun serial = resolve(config, 0);
  EXPECT_EQ(report.first().graph().fingerprint(),
            simulate::report_plan(planning_problem(serial), serial.policy).first().graph().fingerprint());
  std::set<std::uint64_t> plans;
  testing::on_ranks(two_ranks(), [&](comm::World& world, const ResolvedRun&) {
    execute::Program program(world, {{"train", ops::lower_train(run.config.model, step_config(run.config))}},
                             {.policy = run.policy.policy, .grid = run.config.grid});
    if (world.rank() == 0) plans.insert(program.plan("train").fingerprint);
  });
  EXPECT_EQ(plans, std::set<std::uint64_t>{fingerprint_of(report)});
}

TEST(ResolvedRun, AMachineIsReadOnce) {
  const testing::TemporaryFolder folder;
  const fs::path path =
      folder.write("mine.toml", testing::TemporaryFolder::read(fs::path(WEFT_SOURCE_DIR) / "machines/laptop.toml"));
  RunConfig config = two_ranks();
  config.machine = path.string();
  const ResolvedRun run = resolve(config, 0);
  fs::remove(path);
  EXPECT_EQ(planning_problem(run).machine.name, run.machine->name);
  EXPECT_EQ(policy_options(run).machine->name, run.machine->name);
  EXPECT_THROW(resolve(config, 0), UserError);
}

TEST(ResolvedRun, RefusesWhatTheTextsNameBeforeSizes) {
  const auto message = [](const RunConfig& config) {
    return testing::message_of<UserError>([&] { resolve(config, 0); });
  };
  RunConfig config = two_ranks();
  config.global_batch = 7;
  EXPECT_TRUE(has_parts(message(config), {"global-batch"}));
  RunConfig other = config;
  other.policy = "programm";
  EXPECT_TRUE(has_parts(message(other), {"programm"}));
  other = config;
  other.machine = "nowhere";
  EXPECT_TRUE(has_parts(message(other), {"nowhere"}));
  other = config;
  other.profile = "nowhere.json";
  EXPECT_TRUE(has_parts(message(other), {"nowhere.json"}));
}

TEST(ResolvedRun, TextsAloneLeaveSizesOpen) {
  RunConfig config = two_ranks();
  config.global_batch = 7;
  config.threads = 0;
  const ResolvedRun run = read_texts(config);
  EXPECT_EQ(run.policy.name, "program");
  EXPECT_EQ(run.config.global_batch, 7);
  EXPECT_EQ(run.config.threads, 0);
}

TEST(ResolvedRun, APolicyThatIsntUsedNeedsNoTrust) {
  RunConfig config = two_ranks();
  config.policy = "./mine.so:x=1";
  EXPECT_THROW(resolve(config, 0), UserError);
  RunConfig without = config;
  leave_out_library(without);
  EXPECT_EQ(without.policy, RunConfig().policy);
  RunConfig trusted = config;
  trusted.libraries.trust(config.policy);
  leave_out_library(trusted);
  EXPECT_EQ(trusted.policy, config.policy);
  RunConfig built_in = two_ranks();
  built_in.policy = "axonn";
  leave_out_library(built_in);
  EXPECT_EQ(built_in.policy, "axonn");
}

TEST(TuningSetting, IsAWordOrAFile) {
  using From = TuningSetting::From;
  EXPECT_EQ(tuning_setting(""), TuningSetting{From::checkpoint});
  EXPECT_EQ(tuning_setting("none"), TuningSetting{From::nothing});
  EXPECT_EQ(tuning_setting("auto"), TuningSetting{From::trials});
  EXPECT_EQ(tuning_setting("none.json"), (TuningSetting{From::file, "none.json"}));
}

}  // namespace
}  // namespace weft::train
