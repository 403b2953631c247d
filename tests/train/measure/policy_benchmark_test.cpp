// Under any policy, exact rewrite and number of compute streams, ten steps end with the same bits.
#include "train/measure/policy_benchmark.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/policy/policy.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/train/benchmark_run.h"

namespace weft::train {
namespace {

/// The fingerprint after ten steps under each policy, on every rank.
std::vector<std::uint64_t> ends(PolicyBenchmark& benchmark) {
  std::vector<std::uint64_t> fingerprints;
  for (std::size_t policy = 0; policy < benchmark.policies(); ++policy) {
    benchmark.reset();
    for (int step = 0; step < 10; ++step) benchmark.run(policy);
    fingerprints.push_back(benchmark.fingerprint());
  }
  return fingerprints;
}

std::vector<std::string> all_policies() {
  std::vector<std::string> policies = testing::quick_graph_policies();
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

class PolicyBenchmarkBits : public ::testing::TestWithParam<std::tuple<ops::Family, graph::Grid>> {
 protected:
  RunConfig config() const { return testing::benchmark_config(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

INSTANTIATE_TEST_SUITE_P(Grids, PolicyBenchmarkBits,
                         ::testing::Values(std::tuple(ops::Family::gpt2, graph::Grid{2, 1, 1, 1}),
                                           std::tuple(ops::Family::llama, graph::Grid{1, 1, 2, 2}),
                                           std::tuple(ops::Family::gpt2, graph::Grid{2, 2, 1, 1})),
                         [](const auto& info) {
                           return std::string(to_string(std::get<0>(info.param))) + "_" +
                                  testing::name_of(std::get<1>(info.param));
                         });

// A single reference for all: the serial order of the plain graph.
TEST_P(PolicyBenchmarkBits, PoliciesRewritesAndStreamsChangeNoBitInTenSteps) {
  testing::on_ranks(config(), [](comm::World& world, const ResolvedRun& run) {
    PolicyBenchmark plain(world, run, testing::named_policies({"serial"}));
    const std::uint64_t initial = plain.fingerprint();
    const std::uint64_t expected = ends(plain).front();
    EXPECT_NE(expected, initial);
    plain.reset();
    EXPECT_EQ(plain.fingerprint(), initial);
    const std::uint64_t graph = plain.plan(0).graph->fingerprint();
    for (const int streams : {1, 2}) {
      policy::PolicyOptions options;
      options.compute_streams = streams;
      // serial and axonn use a single stream in any case.
      std::vector<std::string> policies = all_policies(), some = {"program", "fsdp", "lhs", "random:seed=3"};
      if (streams == 1) some.insert(some.end(), {"serial", "axonn"});
      if (streams > 1) std::erase_if(policies, [](const std::string& name) { return name.starts_with("axonn:"); });
      {
        PolicyBenchmark benchmark(world, run, testing::named_policies(policies), options);
        const std::vector<std::uint64_t> found = ends(benchmark);
        std::set<std::uint64_t> plans;
        for (std::size_t i = 0; i < policies.size(); ++i) {
          EXPECT_EQ(found[i], expected) << policies[i] << " on " << streams << " compute streams";
          plans.insert(benchmark.plan(i).fingerprint);
        }
        EXPECT_GE(plans.size(), 6U) << "policies that order alike show little";
      }
      for (const char* rewrites : kRewrites) {
        ResolvedRun rewritten = run;
        rewritten.config.rewrites = plan::parse_rewrites(rewrites);
        PolicyBenchmark benchmark(world, rewritten, testing::named_policies(some), options);
        const std::vector<std::uint64_t> found = ends(benchmark);
        for (std::size_t i = 0; i < some.size(); ++i) {
          EXPECT_EQ(found[i], expected) << some[i] << ", " << rewrites << " on " << streams << " compute streams";
        }
        if (std::string(rewrites) == "recompute") {
          EXPECT_NE(benchmark.plan(0).graph->fingerprint(), graph);
        }
      }
    }
  });
}

// Policies take turns on one state: a step of one continues where the last step of another ended.
TEST(PolicyBenchmark, PoliciesTakeTurnsOnOneState) {
  testing::on_ranks(testing::benchmark_config(ops::Family::llama, graph::Grid{1, 1, 2, 1}),
                    [](comm::World& world, const ResolvedRun& run) {
                      PolicyBenchmark alone(world, run, testing::named_policies({"serial"}));
                      PolicyBenchmark mixed(world, run, testing::named_policies({"program", "axonn", "random"}));
                      for (std::size_t step = 0; step < 6; ++step) {
                        EXPECT_GT(alone.run(0), 0);
                        EXPECT_GT(mixed.run(step % 3), 0);
                        EXPECT_EQ(mixed.fingerprint(), alone.fingerprint()) << step;
                      }
                    });
}

TEST(PolicyBenchmark, EveryRankSeesTheSlowestRanksTimeAndOneFingerprint) {
  std::mutex mutex;
  std::set<double> times;
  std::set<std::uint64_t> fingerprints;
  testing::on_ranks(testing::benchmark_config(ops::Family::gpt2, graph::Grid{1, 2, 1, 2}),
                    [&](comm::World& world, const ResolvedRun& run) {
                      PolicyBenchmark benchmark(world, run, testing::named_policies({"program"}));
                      const double ns = benchmark.run(0);
                      const plan::StepTrace& trace = benchmark.last_trace(0);
                      EXPECT_GE(ns, static_cast<double>(trace.end - trace.begin));
                      const std::uint64_t fingerprint = benchmark.fingerprint();
                      const std::lock_guard lock(mutex);
                      times.insert(ns);
                      fingerprints.insert(fingerprint);
                    });
  EXPECT_EQ(times.size(), 1U);
  EXPECT_EQ(fingerprints.size(), 1U);
}

// A step too small to change bf16 parameters changes their fp32 copies, which are also a part of the result.
TEST(PolicyBenchmark, TheFingerprintSeesFp32Copies) {
  RunConfig config = testing::benchmark_config(ops::Family::llama, graph::Grid{1, 1, 1, 2});
  config.dtype = config.reduce_dtype = DType::bf16;
  config.zero1 = true;
  config.warmup = 0;
  testing::on_ranks(config, [](comm::World& world, const ResolvedRun& run) {
    std::vector<std::uint64_t> ends;
    for (const double lr : {1e-30, 3e-10}) {
      ResolvedRun changed = run;
      changed.config.lr = lr;
      PolicyBenchmark benchmark(world, changed, testing::named_policies({"program"}));
      benchmark.run(0);
      ends.push_back(benchmark.fingerprint());
    }
    EXPECT_NE(ends[0], ends[1]);
  });
}

}  // namespace
}  // namespace weft::train
