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
#include "tests/train/benchmark_run.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

TEST(MeasureProfile, LaterSamplesReplaceTimesAndKeepWhatWasProbed) {
  testing::on_ranks(testing::benchmark_config(ops::Family::gpt2, {1, 1, 2, 1}),
                    [](comm::World& world, const ResolvedRun& run) {
                      PolicyBenchmark benchmark(world, run, testing::named_policies({"program", "serial"}));
                      cost::Profile profile = measure_profile(world, run, 1, 1, [](const Status&) {});
                      const cost::Profile before = profile;
                      profile.entries.push_back({.signature = "gone", .ns = 1, .samples = 1});
                      SerialSamples samples(world);
                      for (int step = 0; step < 3; ++step) EXPECT_GT(samples.run(benchmark, 1), 0);
                      samples.write(benchmark.plan(1), profile);
                      EXPECT_GE(profile.computing_factor, 1);
                      ASSERT_EQ(profile.entries.size(), before.entries.size());
                      for (std::size_t i = 0; i < before.entries.size(); ++i) {
                        EXPECT_EQ(profile.entries[i].signature, before.entries[i].signature);
                        EXPECT_EQ(profile.entries[i].samples, 3 * before.entries[i].samples);
                        EXPECT_EQ(profile.entries[i].cpu_ns, before.entries[i].cpu_ns);
                        EXPECT_EQ(profile.entries[i].beside_ns, before.entries[i].beside_ns);
                      }
                    });
}

TEST(MeasureProfile, HasAnEntryForEveryTaskAndIsTheSameOnEveryRank) {
  std::mutex mutex;
  std::vector<cost::Profile> profiles;
  std::vector<std::string> told;
  testing::on_ranks(testing::benchmark_config(ops::Family::llama, graph::Grid{2, 1, 1, 2}),
                    [&](comm::World& world, const ResolvedRun& run) {
                      const cost::Profile profile = measure_profile(world, run, 2, 1, [&](const Status& status) {
                        EXPECT_EQ(world.rank(), 0);
                        told.push_back(status.text);
                      });
                      const std::lock_guard lock(mutex);
                      profiles.push_back(profile);
                    });
  ASSERT_EQ(profiles.size(), 4U);
  RunConfig config = testing::benchmark_config(ops::Family::llama, graph::Grid{2, 1, 1, 2});
  fill_in(config, 0);
  const auto graph = ops::lower_train(config.model, step_config(config));
  std::map<std::string, std::int64_t> tasks;
  std::set<std::string> collectives, collective_kinds;
  for (const graph::Task& task : graph->tasks()) {
    ++tasks[graph::task_signature(*graph, task)];
    if (!graph::is_collective(task.operation)) continue;
    collectives.insert(graph::task_signature(*graph, task));
    collective_kinds.emplace(graph::kind_name(task.operation));
  }
  EXPECT_GE(collectives.size(), 4U);
  for (const cost::Profile& profile : profiles) {
    EXPECT_EQ(profile.grid, config.grid);
    EXPECT_EQ(profile.threads, 1);
    ASSERT_EQ(profile.entries.size(), tasks.size());
    for (std::size_t i = 0; i < profile.entries.size(); ++i) {
      const cost::ProfileEntry &entry = profile.entries[i], &first = profiles.front().entries[i];
      EXPECT_EQ(entry.signature, first.signature);
      EXPECT_EQ(entry.ns, first.ns) << entry.signature;
      EXPECT_EQ(entry.cpu_ns, first.cpu_ns) << entry.signature;
      EXPECT_GE(entry.ns, 0) << entry.signature;
      EXPECT_EQ(entry.samples, 2 * 4 * tasks[entry.signature]) << entry.signature;  // steps · ranks · tasks
      EXPECT_EQ(entry.beside_ns > 0, collectives.contains(entry.signature)) << entry.signature;
      EXPECT_GE(entry.cpu_ns, 0) << entry.signature;
    }
  }
  // A step to warm up and two, each collective, and kinds beside each of three kinds of collectives.
  const auto beside = static_cast<std::size_t>(
      std::ranges::count_if(told, [](const std::string& line) { return line.find(" beside ") != std::string::npos; }));
  EXPECT_EQ(told.size(), 3 + collectives.size() + beside);
  EXPECT_GE(beside, 2 * collective_kinds.size());
  EXPECT_EQ(beside % collective_kinds.size(), 0U);
  for (const cost::Profile& profile : profiles) {
    std::set<std::pair<std::string, std::string>> pairs;
    for (std::size_t i = 0; i < profile.slowdowns.size(); ++i) {
      const cost::Slowdown& slowdown = profile.slowdowns[i];
      EXPECT_GT(slowdown.factor, 1);
      EXPECT_TRUE(collective_kinds.contains(slowdown.collective)) << slowdown.collective;
      EXPECT_TRUE(pairs.emplace(slowdown.compute, slowdown.collective).second) << slowdown.compute;
      EXPECT_EQ(slowdown.compute, profiles.front().slowdowns.at(i).compute);
      EXPECT_EQ(slowdown.factor, profiles.front().slowdowns.at(i).factor);
    }
  }
}

// Computations are timed on the ranks that have them, and messages apart: by steps alone, a receive would have waited
// for its sender's computations.
TEST(MeasureProfile, OfAPipelineHasAnEntryForEveryTaskOfEveryStage) {
  RunConfig config = testing::benchmark_config(ops::Family::gpt2, graph::Grid{.data = 2, .pipe = 2});
  std::mutex mutex;
  std::vector<cost::Profile> profiles;
  testing::on_ranks(config, [&](comm::World& world, const ResolvedRun& run) {
    cost::Profile profile = measure_profile(world, run, 2, 1, [](const Status&) {});
    const std::lock_guard lock(mutex);
    profiles.push_back(std::move(profile));
  });
  ASSERT_EQ(profiles.size(), 4U);
  fill_in(config, 0);
  std::map<std::string, std::int64_t> tasks;
  std::set<std::string> communication, messages;
  for (std::int64_t pipe = 0; pipe < 2; ++pipe) {
    const auto graph = ops::lower_train(config.model, step_config(config), pipe);
    for (const graph::Task& task : graph->tasks()) {
      const std::string signature = graph::task_signature(*graph, task);
      ++tasks[signature];
      if (!graph::is_collective(task.operation)) continue;
      communication.insert(signature);
      if (graph::is_message(*graph::channel_of(task.operation))) messages.insert(signature);
    }
  }
  EXPECT_EQ(messages.size(), 4U) << "an activation and its gradient, each sent and received";
  for (const cost::Profile& profile : profiles) {
    EXPECT_EQ(profile.grid, config.grid);
    EXPECT_GE(profile.computing_factor, 1);
    ASSERT_EQ(profile.entries.size(), tasks.size());
    for (std::size_t i = 0; i < profile.entries.size(); ++i) {
      const cost::ProfileEntry& entry = profile.entries[i];
      ASSERT_TRUE(tasks.contains(entry.signature)) << entry.signature;
      EXPECT_EQ(entry.ns, profiles.front().entries[i].ns) << entry.signature;
      EXPECT_EQ(entry.beside_ns > 0, communication.contains(entry.signature)) << entry.signature;
      if (communication.contains(entry.signature)) {
        EXPECT_EQ(entry.samples, 1) << entry.signature;  // of one round
        EXPECT_GT(entry.ns, 0) << entry.signature;
      } else {
        EXPECT_EQ(entry.samples, 2 * 2 * tasks[entry.signature])
            << entry.signature;  // steps · ranks of a stage · tasks
      }
    }
  }
  const auto ns_of = [&](const std::string& start) {
    const auto& entries = profiles.front().entries;
    return std::ranges::find_if(entries, [&](const auto& entry) { return entry.signature.starts_with(start); })->ns;
  };
  EXPECT_EQ(ns_of("send channel=send_next"), ns_of("receive channel=receive_previous"));
  EXPECT_EQ(ns_of("send channel=send_previous"), ns_of("receive channel=receive_next"));
}

TEST(MeasureProfile, LaterSamplesOfStagesKeepMessages) {
  testing::on_ranks(testing::benchmark_config(ops::Family::llama, graph::Grid{.pipe = 2}),
                    [](comm::World& world, const ResolvedRun& run) {
                      cost::Profile profile = measure_profile(world, run, 1, 1, [](const Status&) {});
                      const cost::Profile before = profile;
                      StageComputations stage(world, run);
                      SerialSamples samples(world);
                      for (int step = 0; step < 3; ++step) EXPECT_GT(samples.run(stage), 0);
                      samples.write(stage.plan(), profile);
                      ASSERT_EQ(profile.entries.size(), before.entries.size());
                      for (std::size_t i = 0; i < before.entries.size(); ++i) {
                        const cost::ProfileEntry &now = profile.entries[i], &then = before.entries[i];
                        EXPECT_EQ(now.signature, then.signature);
                        const bool probed = then.beside_ns > 0;
                        EXPECT_EQ(now.samples, (probed ? 1 : 3) * then.samples) << now.signature;
                        if (probed) {
                          EXPECT_EQ(now.ns, then.ns) << now.signature;
                        }
                      }
                    });
}

}  // namespace
}  // namespace weft::train
