// The results of OverlapBench in the repository: they belong to its instances, and no instance is one that a cheap
// policy solves.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "runtime/policy/catalog/policies.h"
#include "study/bench/bench_figures.h"
#include "tests/base/temporary_folder.h"

namespace weft::study {
namespace {

const std::filesystem::path kInstances = std::filesystem::path(WEFT_SOURCE_DIR) / "bench/overlap";

constexpr std::array<std::string_view, 3> kCheap = {"program", "critical-path", "lhs"};
constexpr std::array<std::string_view, 2> kCheapOfPipelines = {"gpipe", "1f1b"};

bool is_cheap(std::string_view policy, const BenchStep& step) {
  return step.classes > 1 ? std::ranges::find(kCheapOfPipelines, policy) != kCheapOfPipelines.end()
                          : std::ranges::find(kCheap, policy) != kCheap.end();
}

class OverlapResults : public ::testing::Test {
 protected:
  static std::string read(const char* file) { return testing::TemporaryFolder::read(kInstances / "results" / file); }

  const std::vector<BenchInstance> instances_ = bench_instances(kInstances);
  const std::vector<BenchRow> rows_ = row_columns().read(read("results.csv"), "results.csv", "");
  const std::vector<BestKnown> best_ = best_columns().read(read("best.csv"), "best.csv", "");
};

TEST_F(OverlapResults, BelongToTheInstances) {
  EXPECT_GE(instances_.size(), 40U);
  ASSERT_EQ(best_.size(), instances_.size());
  std::vector<policy::NamedPolicy> policies;
  for (const std::string& name : policy::policy_names()) policies.push_back(policy::named_policy(name));
  std::size_t points = 0;
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    BenchInstance instance = instances_[i];
    const BenchStep step = instance.step = step_of(instance);
    EXPECT_EQ(best_[i].instance, instances_[i].name);
    EXPECT_EQ(best_[i].step, step.fingerprint) << "run weft bench again: " << instances_[i].name;
    CertificateBook book;
    for (const BenchRow& point : experiment_of({&instance, 1}, policies, 1, book).points) {
      EXPECT_TRUE(stands(rows_, point)) << "run weft bench again: " << point.instance << " " << point.policy;
      ++points;
    }
    for (const BenchRow& row : rows_) {
      if (row.instance != instances_[i].name || !row.possible()) continue;
      EXPECT_GE(row.step_ns, best_[i].step_ns * (1 - 1e-6)) << row.instance << " " << row.policy;
      if (!is_cheap(row.policy, step)) continue;
      EXPECT_GT(row.step_ns, 1.01 * best_[i].bound_ns) << row.instance << " is solved by " << row.policy;
    }
    EXPECT_GE(best_[i].gap(), -1e-6) << instances_[i].name;
  }
  EXPECT_GE(rows_.size(), points);
}

TEST_F(OverlapResults, HaveTheBoundsThatCertificatesProve) {
  for (const BestKnown& best : best_) {
    const std::filesystem::path file = kInstances / "certificates" / (best.instance + ".json");
    ASSERT_TRUE(std::filesystem::exists(file)) << "run weft bench --certify again: " << best.instance;
    const auto certificate = nlohmann::json::parse(testing::TemporaryFolder::read(file));
    EXPECT_EQ(certificate.at("step").get<std::string>(), hex_fingerprint(best.step)) << best.instance;
    EXPECT_NEAR(certificate.at("bound_ns").get<double>() / best.bound_ns, 1, 1e-12) << best.instance;
  }
}

TEST_F(OverlapResults, AreWrittenAsWeftWritesThem) {
  EXPECT_EQ(row_columns(best_).csv(rows_), read("results.csv"));
  EXPECT_EQ(best_columns().csv(best_), read("best.csv"));
}

}  // namespace
}  // namespace weft::study
