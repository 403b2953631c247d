// Verdicts on reports written by hand.
#include "study/verdict.h"

#include <gtest/gtest.h>

#include "tests/base/messages.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr double kMillion = 1e6;  // nanoseconds of a millisecond

/// In milliseconds.
simulate::Report report_of(double step, double bound, double compute, double communication) {
  simulate::Report report;
  report.simulation.step_ns = step * kMillion;
  report.bounds.one_machine = bound * kMillion;
  report.classes.emplace_back().times = {.compute = compute * kMillion, .communication = communication * kMillion};
  return report;
}

TEST(Verdict, SaysWhatAStepIsBoundBy) {
  struct Case {
    double step, bound, compute, communication;
    BoundBy by;
    double busy;
  };
  for (const Case& each : {Case{277, 276, 100, 245, BoundBy::communication, 245},
                           {277, 265, 100, 245, BoundBy::communication, 245},
                           {100, 99, 90, 80, BoundBy::computing, 90},
                           {100, 99, 40, 60, BoundBy::dependencies, 60},
                           {100, 60, 50, 60, BoundBy::order, 40}}) {
    const Verdict verdict =
        verdict_of(report_of(each.step, each.bound, each.compute, each.communication), 0, simulate::Explanation());
    EXPECT_EQ(verdict.by, each.by) << verdict.text;
    EXPECT_NEAR(verdict.busy_ns, each.busy * kMillion, 1) << verdict.text;
    EXPECT_TRUE(verdict.changes.empty());
  }
}

TEST(Verdict, NamesTheThreeChangesThatGainMost) {
  simulate::Explanation explanation;
  explanation.groups.push_back({"mb*.up", {}, 0, {}});
  explanation.groups[0].remedies = {
      {.kind = simulate::RemedyKind::issue_earlier, .what = "earlier", .gain_ns = 3 * kMillion, .number = 1},
      {.kind = simulate::RemedyKind::no_time, .what = "no time at all", .gain_ns = 200 * kMillion}};
  explanation.rewrites = {{.kind = simulate::RemedyKind::rewrite,
                           .what = "bucket=4096",
                           .gain_ns = 9 * kMillion,
                           .memory_bytes = 2 << 20,
                           .number = 2}};
  const Verdict verdict = verdict_of(report_of(277, 276.9, 100, 245), 0, explanation,
                                     {{"--micro-batch 1", -5 * kMillion},
                                      {"--reduce-dtype bf16", 71 * kMillion, "changes roundings"},
                                      {"--recompute none", 2 * kMillion}});
  EXPECT_EQ(lines_of(verdict),
            (std::vector<std::string>{
                "Bound by communication: the network is busy 245.000 of 277.000 ms; no order helps, as none takes less "
                "than 276.900 ms.",
                "-71.000 ms: --reduce-dtype bf16 (changes roundings)",
                "-9.000 ms: --rewrites \"bucket=4096\" (+2.00 MiB of memory)", "-3.000 ms: earlier (of mb*.up)"}));
  EXPECT_EQ(verdict.changes[1].number, 2);
}

// Each is planned and simulated on its own grid; one that the batch doesn't divide among is left out.
TEST(Verdict, TriesFewerRanksThatShareOutExpertsOrSequences) {
  const auto settings = [](const std::string& grid, const std::string& batch) {
    train::RunConfig config;
    for (const auto& [key, value] : {std::pair<std::string, std::string>{"model", "moe-tiny"},
                                     {"model.layers", "1"},
                                     {"reduce-dtype", "bf16"},
                                     {"micro-batch", "1"},
                                     {"global-batch", batch},
                                     {"grid", grid}}) {
      train::set_key(config, key, value, "test");
    }
    const auto plan = [](train::ResolvedRun run) {
      PolicyStep step;
      step.problem = train::planning_problem(run);
      step.report = simulate::report_plan(step.problem, run.policy);
      step.run = std::move(run);
      return step;
    };
    const PolicyStep step = plan(train::resolve(config, 0));
    std::vector<std::string> found;
    for (const Change& change : other_settings(step, plan)) {
      found.push_back(change.what);
      const auto grid_of = change.what.substr(std::string("--grid ").size());
      train::set_key(config, "grid", grid_of, "test");
      const double other_ns = plan(train::resolve(config, 0)).report.step_ns();
      EXPECT_DOUBLE_EQ(change.gain_ns, step.report.step_ns() - other_ns) << change.what;
      EXPECT_TRUE(change.note.starts_with("changes roundings")) << change.note;
    }
    return found;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(settings("z=4,expert=4", "4"), (Texts{"--grid x=1,y=1,z=4,data=1,expert=2"}));
  EXPECT_EQ(settings("z=2,context=2,expert=2", "2"),
            (Texts{"--grid x=1,y=1,z=2,data=1,context=2", "--grid x=1,y=1,z=2,data=1,expert=2"}));
  EXPECT_EQ(settings("z=2,context=2", "1"), Texts());
}

}  // namespace
}  // namespace weft::study
