// Profiles measured on in-process ranks: complete, and the same on each of them.
#include "train/measure/measure_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/task_signature.h"
#include "ops/lower.h"
#include "runtime/cost/profile.h"
#include "tests/train/benchmark_run.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

/// What a step's ranks do together, of all stages.
struct Signatures {
  explicit Signatures(RunConfig config) {
    fill_in(config, 0);
    for (std::int64_t pipe = 0; pipe < config.grid.pipe; ++pipe) {
      const auto graph = ops::lower_train(config.model, step_config(config), pipe);
      for (const graph::Task& task : graph->tasks()) {
        const std::string signature = graph::task_signature(*graph, task);
        ++tasks[signature];
        if (!graph::is_collective(task.operation)) continue;
        communication.insert(signature);
        kinds.emplace(graph::kind_name(task.operation));
        if (graph::is_message(*graph::channel_of(task.operation))) messages.insert(signature);
      }
    }
  }
  std::map<std::string, std::int64_t> tasks;
  std::set<std::string> communication, messages, kinds;
};

/// The profile of two steps, which is the same on all ranks and has an entry for every task of any.
cost::Profile profile_of(const RunConfig& config, const Signatures& step, std::vector<std::string>* told = nullptr) {
  std::mutex mutex;
  std::vector<cost::Profile> profiles;
  testing::on_ranks(config, [&](comm::World& world, const ResolvedRun& run) {
    cost::Profile profile = measure_profile(world, run, 2, 1, [&](const Status& status) {
      EXPECT_EQ(world.rank(), 0);
      if (told != nullptr) told->push_back(status.text);
    });
    const std::lock_guard lock(mutex);
    profiles.push_back(std::move(profile));
  });
  EXPECT_EQ(profiles.size(), static_cast<std::size_t>(config.grid.ranks()));
  for (const cost::Profile& profile : profiles) {
    EXPECT_EQ(cost::profile_json(profile), cost::profile_json(profiles.front()));
  }
  cost::Profile profile = profiles.front();
  EXPECT_EQ(profile.grid, config.grid);
  EXPECT_EQ(profile.threads, 1);
  EXPECT_GE(profile.computing_factor, 1);
  EXPECT_EQ(profile.entries.size(), step.tasks.size());
  for (const cost::ProfileEntry& entry : profile.entries) {
    EXPECT_TRUE(step.tasks.contains(entry.signature)) << entry.signature;
    EXPECT_GE(entry.ns, 0) << entry.signature;
    EXPECT_GE(entry.cpu_ns, 0) << entry.signature;
    EXPECT_EQ(entry.beside_ns > 0, step.communication.contains(entry.signature)) << entry.signature;
  }
  return profile;
}

TEST(MeasureProfile, HasAnEntryForEveryTaskAndIsTheSameOnEveryRank) {
  const RunConfig config = testing::benchmark_config(ops::Family::llama, graph::Grid{2, 1, 1, 2});
  const Signatures step(config);
  std::vector<std::string> told;
  const cost::Profile profile = profile_of(config, step, &told);
  EXPECT_GE(step.communication.size(), 4U);
  for (const cost::ProfileEntry& entry : profile.entries) {
    EXPECT_EQ(entry.samples, 2 * 4 * step.tasks.at(entry.signature)) << entry.signature;  // steps · ranks · tasks
  }
  // A step to warm up and two, each collective, and kinds beside each of three kinds of collectives.
  const auto beside = static_cast<std::size_t>(
      std::ranges::count_if(told, [](const std::string& line) { return line.find(" beside ") != std::string::npos; }));
  EXPECT_EQ(told.size(), 3 + step.communication.size() + beside);
  EXPECT_GE(beside, 2 * step.kinds.size());
  EXPECT_EQ(beside % step.kinds.size(), 0U);
  std::set<std::pair<std::string, std::string>> pairs;
  for (const cost::Slowdown& slowdown : profile.slowdowns) {
    EXPECT_GT(slowdown.factor, 1);
    EXPECT_TRUE(step.kinds.contains(slowdown.collective)) << slowdown.collective;
    EXPECT_TRUE(pairs.emplace(slowdown.compute, slowdown.collective).second) << slowdown.compute;
  }
}

// Computations are timed on the ranks that have them, and messages apart: by steps alone, a receive would have waited
// for its sender's computations.
TEST(MeasureProfile, OfAPipelineHasAnEntryForEveryTaskOfEveryStage) {
  const RunConfig config = testing::benchmark_config(ops::Family::gpt2, graph::Grid{.data = 2, .pipe = 2});
  const Signatures step(config);
  const cost::Profile profile = profile_of(config, step);
  EXPECT_EQ(step.messages.size(), 4U) << "an activation and its gradient, each sent and received";
  for (const cost::ProfileEntry& entry : profile.entries) {
    if (step.communication.contains(entry.signature)) {
      EXPECT_EQ(entry.samples, 1) << entry.signature;  // of one round
      EXPECT_GT(entry.ns, 0) << entry.signature;
    } else {  // steps · ranks of a stage · tasks
      EXPECT_EQ(entry.samples, 2 * 2 * step.tasks.at(entry.signature)) << entry.signature;
    }
  }
  const auto ns_of = [&](const std::string& start) {
    return std::ranges::find_if(profile.entries, [&](const auto& each) { return each.signature.starts_with(start); })
        ->ns;
  };
  EXPECT_EQ(ns_of("send channel=send_next"), ns_of("receive channel=receive_previous"));
  EXPECT_EQ(ns_of("send channel=send_previous"), ns_of("receive channel=receive_next"));
}

/// Later samples, of three steps in place of one, replace times and keep what was probed.
void expect_probed_kept(const cost::Profile& now, const cost::Profile& before, bool of_stages) {
  EXPECT_GE(now.computing_factor, 1);
  ASSERT_EQ(now.entries.size(), before.entries.size());
  for (std::size_t i = 0; i < before.entries.size(); ++i) {
    const cost::ProfileEntry &entry = now.entries[i], &then = before.entries[i];
    EXPECT_EQ(entry.signature, then.signature);
    EXPECT_EQ(entry.cpu_ns, then.cpu_ns) << entry.signature;
    EXPECT_EQ(entry.beside_ns, then.beside_ns) << entry.signature;
    const bool probed = of_stages && then.beside_ns > 0;  // as a whole
    EXPECT_EQ(entry.samples, (probed ? 1 : 3) * then.samples) << entry.signature;
    EXPECT_TRUE(!probed || entry.ns == then.ns) << entry.signature;
  }
}

TEST(MeasureProfile, LaterSamplesReplaceTimesAndKeepWhatWasProbed) {
  const auto body = [](comm::World& world, const ResolvedRun& run) {
    cost::Profile profile = measure_profile(world, run, 1, 1, [](const Status&) {});
    const cost::Profile before = profile;
    SerialSamples samples(world);
    if (run.config.grid.pipe > 1) {
      StageComputations stage(world, run);
      for (int step = 0; step < 3; ++step) EXPECT_GT(samples.run(stage), 0);
      samples.write(stage.plan(), profile);
    } else {
      PolicyBenchmark benchmark(world, run, testing::named_policies({"program", "serial"}));
      profile.entries.push_back({.signature = "of another graph", .ns = 1, .samples = 1});
      for (int step = 0; step < 3; ++step) EXPECT_GT(samples.run(benchmark, 1), 0);
      samples.write(benchmark.plan(1), profile);
      EXPECT_EQ(std::erase_if(profile.entries, [](const auto& each) { return each.signature == "of another graph"; }),
                1U);
    }
    expect_probed_kept(profile, before, run.config.grid.pipe > 1);
  };
  testing::on_ranks(testing::benchmark_config(ops::Family::gpt2, {1, 1, 2, 1}), body);
  testing::on_ranks(testing::benchmark_config(ops::Family::llama, {.pipe = 2}), body);
}

}  // namespace
}  // namespace weft::train
