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

}  // namespace
}  // namespace weft::train
