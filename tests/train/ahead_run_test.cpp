// Training on a device that is given its next step before the host has seen the end of the last: on the fake device,
// the run is the CPU's, line by line and bit by bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "tests/runtime/comm/ranks.h"
#include "tests/train/device_run.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace weft::train {
namespace {

// A test's action at the start of a training step.
struct Hooks {
  std::function<void(const execute::State& state, std::int64_t step)> before = nullptr;
  std::function<void(std::int64_t step, bool ahead)> after = nullptr;
  std::function<void()> leaves = nullptr;  // the state, beside the next step
};

// Passes everything on.
class Observed final : public execute::Executor {
 public:
  Observed(std::unique_ptr<execute::Executor> of, const execute::State& state, Hooks hooks)
      : of_(std::move(of)), state_(state), hooks_(std::move(hooks)) {}

  PlanHandle load(std::shared_ptr<const plan::Plan> plan) override { return of_->load(std::move(plan)); }
  bool start(PlanHandle plan, std::int64_t step) override {
    const bool train = plan == 0;  // the first of the program's graphs
    if (train && hooks_.before) hooks_.before(state_, step);
    const bool ahead = of_->start(plan, step);
    if (train && hooks_.after) hooks_.after(step, ahead);
    return ahead;
  }
  void finish() override { of_->finish(); }
  const plan::StepTrace& last_trace(PlanHandle plan) const override { return of_->last_trace(plan); }
  std::int64_t last_step_ns(PlanHandle plan) const override { return of_->last_step_ns(plan); }
  std::vector<plan::StepTrace> traces(PlanHandle plan) const override { return of_->traces(plan); }
  std::optional<execute::NonFiniteResult> non_finite() const override { return of_->non_finite(); }
  void state_to_device() override { of_->state_to_device(); }
  void state_to_host() override { of_->state_to_host(); }
  bool start_state_to_host() override {
    const bool leaves = of_->start_state_to_host();
    if (leaves && hooks_.leaves) hooks_.leaves();
    return leaves;
  }
  void finish_state_to_host() override { of_->finish_state_to_host(); }
  execute::ExecutorPlace runs_on() const override { return of_->runs_on(); }
  std::int64_t device_bytes() const override { return of_->device_bytes(); }
  std::int64_t scratch_bytes() const override { return of_->scratch_bytes(); }
  execute::ExecutorStatus status() const override { return of_->status(); }
  std::string describe() const override { return of_->describe(); }

 private:
  std::unique_ptr<execute::Executor> of_;
  const execute::State& state_;
  Hooks hooks_;
};

class AheadRun : public ::testing::TestWithParam<std::int64_t> {
 protected:
  RunConfig config(const char* run_dir) const {
    RunConfig config = testing::tiny_run(folder_, ops::Family::gpt2);
    config.ranks = GetParam();
    config.run_dir = folder_.path(run_dir).string();
    return config;
  }

  // The hooks are rank 0's.
  static execute::MakeExecutor on_fake(const Hooks& hooks = {}, std::uint64_t seed = 5, bool graphs = false) {
    const execute::MakeExecutor make = testing::sharing_a_fake({.data = GetParam()}, {.seed = seed},
                                                               {.kept_steps = 1,
                                                                .trace_every = 6,
                                                                .graphs = graphs,
                                                                .state_piece_bytes = 3000,
                                                                .long_step_ns = std::int64_t{1} << 60});
    return [hooks, make](comm::World& world, const execute::State& state) {
      return std::make_unique<Observed>(make(world, state), state, world.rank() == 0 ? hooks : Hooks());
    };
  }

  testing::TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Ranks, AheadRun, ::testing::Values(1, 2));

TEST_P(AheadRun, IsTheRunThatLooksAtEveryStepAtOnce) {
  const auto with_events = [&](const char* run_dir) {
    RunConfig of = config(run_dir);
    of.steps = 20;
    of.eval_every = 7;
    of.save_every = 9;
    of.keep_last = 5;
    return of;
  };
  const RunConfig on_cpu = with_events("cpu"), ahead = with_events("ahead");
  const testing::RunOutcome cpu = testing::train_run(on_cpu);
  std::vector<std::int64_t> started_ahead;
  const testing::RunOutcome fake = testing::train_run(ahead, on_fake({.after = [&](std::int64_t step, bool is_ahead) {
                                                        if (is_ahead) started_ahead.push_back(step);
                                                      }}));
  // All but the first two and the traced step of each following six.
  EXPECT_EQ(started_ahead, (std::vector<std::int64_t>{2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 18, 19}));
  EXPECT_EQ(testing::first_difference(fake.state, cpu.state), "");
  EXPECT_EQ(fake.result.first_loss, cpu.result.first_loss);
  EXPECT_EQ(fake.result.last_loss, cpu.result.last_loss);
  EXPECT_EQ(fake.result.val_loss, cpu.result.val_loss);
  const auto lines = testing::metrics_of(ahead.run_dir);
  testing::expect_equal_metrics(lines, testing::metrics_of(on_cpu.run_dir));
  ASSERT_EQ(lines.size(), 20U);
  for (const auto& line : lines) EXPECT_GT(line.at("step_ms").get<double>(), 0);
  for (const std::int64_t step : {9, 18, 20}) {
    RunConfig again = on_cpu;
    again.resume = checkpoint_path(ahead.run_dir, step).string();
    again.run_dir = folder_.path(fmt::format("again{}", step)).string();
    again.steps = 21;
    RunConfig reference = again;
    reference.resume = checkpoint_path(on_cpu.run_dir, step).string();
    reference.run_dir = folder_.path(fmt::format("reference{}", step)).string();
    EXPECT_EQ(testing::first_difference(testing::train_run(again).state, testing::train_run(reference).state), "")
        << step;
  }
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The state leaves while the next step computes what it will change it by.
TEST_P(AheadRun, CheckpointsBesideTheNextStepHaveTheBytesOfThoseBetween) {
  const auto saving = [&](const char* run_dir) {
    RunConfig of = config(run_dir);
    of.steps = 18;
    of.save_every = 4;
    of.eval_every = 8;
    of.keep_last = 9;
    return of;
  };
  testing::train_run(saving("between"), on_fake());
  for (const bool graphs : {false, true}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("seed {}{}", seed, graphs ? ", replayed" : ""));
      RunConfig beside = saving("beside");
      beside.copy_beside = true;
      std::filesystem::remove_all(beside.run_dir);
      int copies = 0;
      testing::train_run(beside, on_fake({.leaves = [&] { ++copies; }}, seed, graphs));
      EXPECT_EQ(copies, 4) << "the last one is written at once";
      for (const std::int64_t step : {4, 8, 12, 16, 18}) {
        const auto here = checkpoint_path(beside.run_dir, step);
        const auto there = checkpoint_path(saving("between").run_dir, step);
        for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
          EXPECT_TRUE(content(here / name) == content(there / name)) << step << " " << name;
        }
      }
    }
  }
}

// The signal arrives after the votes of step 8 were taken. Step 9 is the first to carry a vote, which is read after
// step 10 has started.
TEST_P(AheadRun, ASignalEndsItBehindTheStepThatWasStarted) {
  RunConfig stopped = config("stopped");
  stopped.steps = 1000;
  stopped.schedule = Schedule::constant;
  const testing::RunOutcome outcome =
      testing::train_run(stopped, on_fake({.after = [](std::int64_t step, bool /*ahead*/) {
                           if (step == 8) std::raise(SIGTERM);
                         }}));
  EXPECT_TRUE(outcome.result.stopped_by_signal);
  EXPECT_EQ(outcome.result.steps_done, 11);
  EXPECT_EQ(testing::metrics_of(stopped.run_dir).size(), 11U);
  EXPECT_EQ(read_checkpoint_info(checkpoint_path(stopped.run_dir, 11)).step, 11);

  RunConfig whole = config("whole");
  whole.steps = 11;
  whole.schedule = Schedule::constant;
  EXPECT_EQ(testing::first_difference(outcome.state, testing::train_run(whole).state), "");
}

// The first step is looked at before the second is started.
TEST_P(AheadRun, TheTimeIsUpBehindTheFirstStep) {
  RunConfig timed = config("timed");
  timed.steps = 1000;
  timed.max_time = 1e-6;
  const testing::RunOutcome outcome = testing::train_run(timed, on_fake());
  EXPECT_TRUE(outcome.result.stopped_by_time);
  EXPECT_EQ(outcome.result.steps_done, 1);
}

// The ranks tell each other the time while a step runs.
TEST_P(AheadRun, ALimitFarAwayChangesNoBit) {
  RunConfig timed = config("timed");
  timed.max_time = 1e9;
  const testing::RunOutcome outcome = testing::train_run(timed, on_fake());
  EXPECT_FALSE(outcome.result.stopped_by_time);
  EXPECT_EQ(testing::first_difference(outcome.state, testing::train_run(config("usual"), on_fake()).state), "");
}

// The weights are lost in step 8, which step 9 shows when step 10 has been started.
TEST_P(AheadRun, ALossThatIsNotANumberEndsIt) {
  RunConfig lost = config("lost");
  lost.steps = 1000;
  const ResolvedRun run = resolve(lost, 0);
  const execute::MakeExecutor on_device = on_fake({.before = [](const execute::State& state, std::int64_t step) {
    if (step == 8) state.get<float>(ops::names::kScalars)[0] = std::numeric_limits<float>::quiet_NaN();
  }});
  const testing::RanksEnd end = testing::end_of_ranks(static_cast<int>(run.config.ranks), [&](comm::World& world) {
    run_training(*set_up_training(world, run, on_device));
  });
  EXPECT_EQ(end.code, 3);
  EXPECT_NE(end.errors.find("step 9: the loss is nan"), std::string::npos) << end.errors;
}

}  // namespace
}  // namespace weft::train
