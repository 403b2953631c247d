#include "study/sweep/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"
#include "tests/base/messages.h"
#include "tests/study/sweep/tiny_sweep.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

using testing::rows_of;
using testing::tiny_sweep;

std::string refusal(const Sweep& sweep) {
  return testing::message_of<UserError>([&] { check_sweep(sweep); });
}

TEST(Sweep, HasTheRowsOfTheProduct) {
  const Sweep sweep = tiny_sweep();
  check_sweep(sweep);
  const std::vector<SweepRow> rows = rows_of(sweep);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(row_count(sweep), 8);
  const std::vector<std::vector<std::string>> values = {{"1", "1e-6"}, {"1", "1e-3"}, {"2", "1e-6"}, {"2", "1e-3"}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].values, values[i / 2]);
    EXPECT_EQ(rows[i].policy, i % 2 == 0 ? "serial" : "program");
    EXPECT_EQ(rows[i].seed, 42U);
    EXPECT_TRUE(rows[i].possible() && rows[i].fits) << rows[i].reason;
    EXPECT_GE(rows[i].step_ms, rows[i].bound_ms);
  }
  // More layers and a slower network take longer.
  EXPECT_LT(rows[0].step_ms, rows[2].step_ms);
  EXPECT_LT(rows[0].communication_ms, rows[4].communication_ms);
  EXPECT_LT(rows[0].communication_ms + 1, rows[2].communication_ms);
}

TEST(Sweep, SimulatesWhatSimulateDoes) {
  Sweep sweep = tiny_sweep();
  sweep.settings.pop_back();
  sweep.keys = {{"micro-batch", {"2"}}};
  sweep.policies.resize(1);
  train::RunConfig config;
  train::apply_settings(config, sweep.settings);
  train::set_key(config, "micro-batch", "2", "");
  config.policy = "serial";
  const train::ResolvedRun run = train::resolve(config, 0);
  const simulate::Report report = simulate::report_plan(train::planning_problem(run), run.policy);
  const SweepRow row = rows_of(sweep).front();
  EXPECT_EQ(row.step_ms, report.step_ns() * 1e-6);
  EXPECT_EQ(row.memory_bytes, report.memory_bytes());
  EXPECT_EQ(row.bound_ms, report.bounds.best() * 1e-6);
}

TEST(Sweep, SimulatesPipelines) {
  Sweep sweep = tiny_sweep();
  sweep.settings.pop_back();
  sweep.keys = {{"grid", {"data=2", "pipe=2"}}};
  sweep.policies = {policy::named_policy("1f1b"), policy::named_policy("interleaved")};
  const std::vector<SweepRow> rows = rows_of(sweep);
  ASSERT_EQ(rows.size(), 4U);
  for (const std::size_t i : {2U, 3U}) {
    train::RunConfig config;
    train::apply_settings(config, sweep.settings);
    train::set_key(config, "grid", "pipe=2", "");
    config.policy = sweep.policies[i - 2].name;
    const train::ResolvedRun run = train::resolve(config, 0);
    const simulate::Report report = simulate::report_plan(train::planning_problem(run), run.policy);
    ASSERT_EQ(rows[i].reason, "");
    EXPECT_EQ(rows[i].step_ms, report.step_ns() * 1e-6);
    EXPECT_EQ(rows[i].memory_bytes, report.memory_bytes());
    EXPECT_EQ(rows[i].bound_ms, report.bounds.best() * 1e-6);
  }
  sweep.noise = 0.2;
  sweep.seeds = 2;
  const std::vector<SweepRow> drawn = rows_of(sweep);
  EXPECT_EQ(drawn[4].reason, "");
  EXPECT_NE(drawn[4].step_ms, drawn[5].step_ms);
}

TEST(Sweep, DoesntDependOnThreadsNorOnRowsThatAreKnown) {
  Sweep sweep = tiny_sweep();
  sweep.noise = 0.2;
  sweep.seeds = 3;
  const std::vector<SweepRow> rows = rows_of(sweep);
  ASSERT_EQ(rows.size(), 24U);
  EXPECT_NE(rows[0].step_ms, rows[1].step_ms);
  sweep.threads = 1;
  EXPECT_EQ(rows_of(sweep), rows);
  // Known rows are taken as they are, also if a later seed alone is missing.
  std::vector<SweepRow> known = rows;
  known.erase(known.begin() + 4);
  known.front().tokens_per_s = 7;
  std::size_t computed = 0;
  std::vector<SweepRow> again = study::run_sweep(
      sweep, known, [&](std::span<const SweepRow> found) { computed += found.size(); }, [](const Status&) {});
  EXPECT_EQ(computed, 1U);
  EXPECT_EQ(again.front().tokens_per_s, 7);
  again.front() = rows.front();
  EXPECT_EQ(again, rows);
}

TEST(Sweep, ImpossibleCombinationsBecomeRows) {
  Sweep sweep = tiny_sweep();
  sweep.keys = {{"grid", {"data=2", "data=3"}}, {"memory", {"1GiB", "1MiB"}}};
  check_sweep(sweep);
  const std::vector<SweepRow> rows = rows_of(sweep);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_TRUE(rows[0].possible()) << rows[0].reason;
  EXPECT_NE(rows[2].reason.find("memory"), std::string::npos) << rows[2].reason;
  EXPECT_NE(rows[4].reason.find("3 ranks"), std::string::npos) << rows[4].reason;
  EXPECT_EQ(rows[4].reason.find('\n'), std::string::npos);
}

TEST(Sweep, RefusesWhatIsWrongWithAllCombinations) {
  const auto with_key = [](const std::string& key, const std::string& value) {
    Sweep sweep = tiny_sweep();
    sweep.keys.push_back({key, {"1", value}});
    return refusal(sweep);
  };
  EXPECT_NE(with_key("micro-batch", "two").find("micro-batch"), std::string::npos);
  EXPECT_NE(with_key("micro-batch", "layrs=2").find("neither"), std::string::npos);
  EXPECT_NE(with_key("ranks", "2").find("--over"), std::string::npos);  // fixed by --ranks too
  EXPECT_NE(with_key("machine.network.ports", "0").find("machine.network.ports"), std::string::npos);
  Sweep sweep = tiny_sweep();
  sweep.keys = {{"machine", {"perlmuter"}}};
  EXPECT_NE(refusal(sweep), "");
  sweep = tiny_sweep();
  sweep.seeds = 2;
  EXPECT_NE(refusal(sweep).find("noise"), std::string::npos);
  sweep = tiny_sweep();
  sweep.policies.push_back(policy::named_policy("serial"));
  EXPECT_NE(refusal(sweep).find("twice"), std::string::npos);
}

}  // namespace
}  // namespace weft::study
