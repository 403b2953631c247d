// The bar of the laboratory: whatever policy orders a step, with whatever exact rewrite and however many compute
// streams, ten steps end with the same bits.
#include "train/step_lab.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "graph/task_signature.h"
#include "ops/lower.h"
#include "runtime/comm/launch.h"
#include "runtime/policy.h"
#include "train/trainer.h"

namespace weft {
namespace {

// Vectors of 64 bytes and more, so that some join a bucket, in blocks that every axis divides.
RunConfig lab_config(Family family, const Grid& grid) {
  RunConfig config;
  config.model_name = "custom";
  config.model.family = family;
  config.model.layers = 2;
  config.model.hidden = 32;
  config.model.heads = 4;
  config.model.kv_heads = family == Family::llama ? 2 : 4;
  config.model.ffn = 48;
  config.model.vocab = 37;
  config.model.context = 8;
  config.model.tied = family == Family::gpt2;
  config.grid = grid;
  config.ranks = grid.ranks();
  config.micro_batch = 1;
  config.global_batch = 2 * grid.batch_ranks();
  config.steps = 10;
  config.warmup = 3;
  config.lr = 1e-2;
  config.dropout = 0.2F;
  config.clip = 0.5F;
  config.threads = 1;
  config.run_dir = "unused";
  return config;
}

void on_ranks(RunConfig config, const std::function<void(World&, const RunConfig&)>& body) {
  resolve(config, 0);
  std::ostringstream errors;
  const int exit_code = run_ranks(
      static_cast<int>(config.ranks),
      [&](World& world) {
        body(world, config);
        return 0;
      },
      errors);
  ASSERT_EQ(exit_code, 0) << errors.str();
}

/// What ten steps end with under each policy, on every rank.
std::vector<std::uint64_t> ends(StepLab& lab) {
  std::vector<std::uint64_t> fingerprints;
  for (std::size_t policy = 0; policy < lab.policies(); ++policy) {
    lab.reset();
    for (int step = 0; step < 10; ++step) lab.run(policy);
    fingerprints.push_back(lab.fingerprint());
  }
  return fingerprints;
}

std::vector<std::string> all_policies() {
  std::vector<std::string> policies = policy_names();
  for (const char* oar : {"on", "off"}) {
    for (const char* ors : {"on", "off"}) {
      for (const char* oag : {"on", "off"}) {
        policies.push_back(std::string("axonn:oar=") + oar + ",ors=" + ors + ",oag=" + oag);
      }
    }
  }
  for (const char* variant :
       {"axonn:lookahead=3", "fsdp:reshard=off", "fsdp:backward=post,forward-depth=0",
        "fsdp:forward-depth=2,backward-depth=2", "fsdp:max-gathered=1", "ddp-bucket:bucket-mb=0,first-mb=0",
        "ddp-bucket:bucket-mb=0.004,first-mb=0.001", "random:seed=1", "random:seed=2"}) {
    policies.emplace_back(variant);
  }
  return policies;
}

constexpr const char* kRewrites[] = {"bucket=25MB", "split-collective=256",
                                     "ar-to-rs-ag", "reshard",
                                     "recompute",   "recompute;reshard;bucket=2KB;split-collective=1KB;ar-to-rs-ag"};

class StepLabBits : public ::testing::TestWithParam<std::tuple<Family, Grid>> {
 protected:
  RunConfig config() const { return lab_config(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

std::string name_of(const ::testing::TestParamInfo<std::tuple<Family, Grid>>& info) {
  const Grid& grid = std::get<1>(info.param);
  return std::string(to_string(std::get<0>(info.param))) + "_x" + std::to_string(grid.x) + "y" +
         std::to_string(grid.y) + "z" + std::to_string(grid.z) + "d" + std::to_string(grid.data);
}

INSTANTIATE_TEST_SUITE_P(Grids, StepLabBits,
                         ::testing::Values(std::tuple(Family::gpt2, Grid{2, 1, 1, 1}),
                                           std::tuple(Family::llama, Grid{1, 1, 2, 2}),
                                           std::tuple(Family::gpt2, Grid{2, 2, 1, 1})),
                         name_of);

// One reference for all: the serial order of the plain graph.
TEST_P(StepLabBits, PoliciesRewritesAndStreamsChangeNoBitInTenSteps) {
  on_ranks(config(), [](World& world, const RunConfig& config) {
    StepLab plain(world, config, {"serial"});
    const std::uint64_t initial = plain.fingerprint();
    const std::uint64_t expected = ends(plain).front();
    EXPECT_NE(expected, initial);
    plain.reset();
    EXPECT_EQ(plain.fingerprint(), initial);
    const std::uint64_t graph = plain.plan(0).graph->fingerprint();
    for (const int streams : {1, 2}) {
      PolicyOptions options;
      options.compute_streams = streams;
      // serial and axonn use one of them in any case.
      std::vector<std::string> policies = all_policies(), some = {"program", "fsdp", "lhs", "random:seed=3"};
      if (streams == 1) some.insert(some.end(), {"serial", "axonn"});
      if (streams > 1) std::erase_if(policies, [](const std::string& name) { return name.starts_with("axonn:"); });
      {
        StepLab lab(world, config, policies, options);
        const std::vector<std::uint64_t> found = ends(lab);
        std::set<std::uint64_t> plans;
        for (std::size_t i = 0; i < policies.size(); ++i) {
          EXPECT_EQ(found[i], expected) << policies[i] << " on " << streams << " compute streams";
          plans.insert(lab.plan(i).fingerprint);
        }
        EXPECT_GE(plans.size(), 6U) << "policies that order alike show little";
      }
      for (const char* rewrites : kRewrites) {
        RunConfig rewritten = config;
        rewritten.rewrites = rewrites;
        StepLab lab(world, rewritten, some, options);
        const std::vector<std::uint64_t> found = ends(lab);
        for (std::size_t i = 0; i < some.size(); ++i) {
          EXPECT_EQ(found[i], expected) << some[i] << ", " << rewrites << " on " << streams << " compute streams";
        }
        if (std::string(rewrites) == "recompute") {
          EXPECT_NE(lab.plan(0).graph->fingerprint(), graph);
        }
      }
    }
  });
}

// Policies take turns on one state: a step of one goes on where the last step of another ended.
TEST(StepLab, PoliciesTakeTurnsOnOneState) {
  on_ranks(lab_config(Family::llama, Grid{1, 1, 2, 1}), [](World& world, const RunConfig& config) {
    StepLab alone(world, config, {"serial"});
    StepLab mixed(world, config, {"program", "axonn", "random"});
    for (std::size_t step = 0; step < 6; ++step) {
      EXPECT_GT(alone.run(0), 0);
      EXPECT_GT(mixed.run(step % 3), 0);
      EXPECT_EQ(mixed.fingerprint(), alone.fingerprint()) << step;
    }
  });
}

TEST(StepLab, EveryRankSeesTheSlowestRanksTimeAndOneFingerprint) {
  std::mutex mutex;
  std::set<double> times;
  std::set<std::uint64_t> fingerprints;
  on_ranks(lab_config(Family::gpt2, Grid{1, 2, 1, 2}), [&](World& world, const RunConfig& config) {
    StepLab lab(world, config, {"program"});
    const double ns = lab.run(0);
    const StepTrace& trace = lab.last_trace(0);
    EXPECT_GE(ns, static_cast<double>(trace.end - trace.begin));
    const std::uint64_t fingerprint = lab.fingerprint();
    const std::lock_guard lock(mutex);
    times.insert(ns);
    fingerprints.insert(fingerprint);
  });
  EXPECT_EQ(times.size(), 1U);
  EXPECT_EQ(fingerprints.size(), 1U);
}

// A step so small that bf16 parameters stay where they are moves their fp32 copies, which a step leaves behind too.
TEST(StepLab, TheFingerprintSeesFp32Copies) {
  RunConfig config = lab_config(Family::llama, Grid{1, 1, 1, 2});
  config.dtype = config.reduce_dtype = DType::bf16;
  config.zero1 = true;
  config.warmup = 0;
  on_ranks(config, [](World& world, const RunConfig& config) {
    std::vector<std::uint64_t> ends;
    for (const double lr : {1e-30, 3e-10}) {
      RunConfig changed = config;
      changed.lr = lr;
      StepLab lab(world, changed, {"program"});
      lab.run(0);
      ends.push_back(lab.fingerprint());
    }
    EXPECT_NE(ends[0], ends[1]);
  });
}

TEST(StepLab, LaterSamplesReplaceTimesAndKeepWhatWasProbed) {
  on_ranks(lab_config(Family::gpt2, {1, 1, 2, 1}), [](World& world, const RunConfig& config) {
    StepLab lab(world, config, {"program", "serial"});
    Profile profile = measure_profile(world, config, 1, 1, [](const std::string&) {});
    const Profile before = profile;
    profile.entries.push_back({.signature = "gone", .ns = 1, .samples = 1});
    SerialSamples samples(world);
    for (int step = 0; step < 3; ++step) EXPECT_GT(samples.run(lab, 1), 0);
    samples.write(lab.plan(1), profile);
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

TEST(StepLab, AProfileHasAnEntryForEveryTaskAndIsTheSameOnEveryRank) {
  std::mutex mutex;
  std::vector<Profile> profiles;
  std::vector<std::string> told;
  on_ranks(lab_config(Family::llama, Grid{2, 1, 1, 2}), [&](World& world, const RunConfig& config) {
    const Profile profile = measure_profile(world, config, 2, 1, [&](const std::string& line) {
      EXPECT_EQ(world.rank(), 0);
      told.push_back(line);
    });
    const std::lock_guard lock(mutex);
    profiles.push_back(profile);
  });
  ASSERT_EQ(profiles.size(), 4U);
  RunConfig config = lab_config(Family::llama, Grid{2, 1, 1, 2});
  resolve(config, 0);
  const auto graph = lower_train(config.model, step_config(config));
  std::map<std::string, std::int64_t> tasks;
  std::set<std::string> collectives;
  for (const Task& task : graph->tasks()) {
    ++tasks[task_signature(*graph, task)];
    if (is_collective(task.operation)) collectives.insert(task_signature(*graph, task));
  }
  EXPECT_GE(collectives.size(), 4U);
  for (const Profile& profile : profiles) {
    EXPECT_EQ(profile.grid, config.grid);
    EXPECT_EQ(profile.threads, 1);
    ASSERT_EQ(profile.entries.size(), tasks.size());
    for (std::size_t i = 0; i < profile.entries.size(); ++i) {
      const ProfileEntry &entry = profile.entries[i], &first = profiles.front().entries[i];
      EXPECT_EQ(entry.signature, first.signature);
      EXPECT_EQ(entry.ns, first.ns) << entry.signature;
      EXPECT_EQ(entry.cpu_ns, first.cpu_ns) << entry.signature;
      EXPECT_GE(entry.ns, 0) << entry.signature;
      EXPECT_EQ(entry.samples, 2 * 4 * tasks[entry.signature]) << entry.signature;  // steps · ranks · tasks
      EXPECT_EQ(entry.beside_ns > 0, collectives.contains(entry.signature)) << entry.signature;
      EXPECT_GE(entry.cpu_ns, 0) << entry.signature;
    }
  }
  EXPECT_EQ(told.size(), 3 + collectives.size());  // a step to warm up and two, and each probe
}

}  // namespace
}  // namespace weft
