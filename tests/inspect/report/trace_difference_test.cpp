// Medians of two recordings against each other.
#include "inspect/report/trace_difference.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/base/messages.h"
#include "tests/runtime/trace_sample.h"

namespace weft::inspect {
namespace {

using testing_sample::sample_plan;
using testing_sample::sample_step;

plan::Recording three_traced_steps() {
  std::vector<plan::RankTrace> ranks = {{0, {}}};
  for (std::int64_t step = 0; step < 3; ++step) ranks[0].steps.push_back(sample_step(step, 200'000 * step, 1000));
  return plan::record(sample_plan(), ranks, 1);
}

TEST(TraceDifference, OfEqualRecordingsIsNothing) {
  const TraceDifference difference = compare_recordings(three_traced_steps(), three_traced_steps());
  for (const auto* values : {&difference.sums, &difference.kinds, &difference.tasks}) {
    for (const ValueChange& value : *values) EXPECT_EQ(value.change(), 0) << value.name;
  }
  EXPECT_TRUE(difference.only_a.empty() && difference.only_b.empty());
}

TEST(TraceDifference, NamesWhatBecameSlowerInMostSteps) {
  const plan::Recording a = three_traced_steps();
  plan::Recording b = a;
  b.policy = "other";
  for (std::size_t step = 0; step < 2; ++step) b.ranks[0].steps[step].times[4].end += 10'000;  // s, in two of three
  b.ranks[0].steps[2].times[0].end += 1'000'000;                                               // a, in one
  for (plan::RecordedStep& step : b.ranks[0].steps) step.end += 10'000;
  const TraceDifference difference = compare_recordings(a, b);
  EXPECT_EQ(difference.tasks.at(0).name, "s");
  EXPECT_EQ(difference.tasks.at(0).a, 25'000);
  EXPECT_EQ(difference.tasks.at(0).change(), 10'000);
  EXPECT_EQ(difference.tasks.at(1).change(), 0);
  EXPECT_EQ(difference.kinds.at(0).name, "all_reduce");
  EXPECT_EQ(difference.kinds.at(0).change(), 10'000);
  EXPECT_EQ(difference.sums.at(0).change(), 10'000);  // the step
  EXPECT_EQ(difference.sums.at(3).name, "exposed");
  EXPECT_EQ(difference.sums.at(3).change(), 10'000);
  const std::string text = styled_difference(difference, 1, {}).plain();
  EXPECT_TRUE(has_parts(text, {"b: policy other", "+40.0 %"}));
  EXPECT_EQ(text.find("mb0.L1.a"), std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(difference_json(difference).text())["tasks"][0]["b_ns"], 35'000);
}

TEST(TraceDifference, NamesTasksOfOneOnly) {
  const plan::Recording a = three_traced_steps();
  plan::Recording b = a;
  b.tasks[1].name = "split.0";
  const TraceDifference difference = compare_recordings(a, b);
  EXPECT_EQ(difference.only_a, std::vector<std::string>{"b"});
  EXPECT_EQ(difference.only_b, std::vector<std::string>{"split.0"});
  EXPECT_NE(styled_difference(difference, 5, {}).plain().find("1 tasks are only in b:\n  split.0"), std::string::npos);
}

}  // namespace
}  // namespace weft::inspect
