// A trace that keeps its plan, and the same trace with one thing wrong.
#include "inspect/report/trace_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/runtime/trace_sample.h"

namespace weft::inspect {
namespace {

using testing_sample::sample_plan;
using testing_sample::sample_step;

/// a [0,40) c [60,80) on compute0, b [30,50) on compute1, r [40,70) s [75,100) on data; in steps of 100. s begins when
/// c has ended, as its edge wants.
plan::Recording checked_sample() {
  std::vector<plan::RankTrace> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    plan::RankTrace& of = ranks.emplace_back(plan::RankTrace{rank, {}});
    for (std::int64_t step = 0; step < 3; ++step) {
      plan::StepTrace trace = sample_step(step, 1000 + 100 * step, 1);
      trace.times[0][1] = {trace.begin + 70, trace.begin + 80};
      trace.times[2][1].begin = trace.begin + 80;
      of.steps.push_back(std::move(trace));
    }
  }
  return plan::record(sample_plan(), ranks, 2);
}

plan::TaskTime& time_of(plan::Recording& recording, std::size_t rank, std::size_t step, const std::string& task) {
  std::size_t i = 0;
  while (recording.tasks[i].name != task) ++i;
  return recording.ranks[rank].steps[step].times[i];
}

TEST(TraceCheck, HoldsForATraceThatKeepsItsPlan) {
  const TraceCheck check = check_recording(checked_sample());
  EXPECT_TRUE(check.holds()) << check.messages.front();
  EXPECT_EQ(check.tasks, 2 * 3 * 5U);
  EXPECT_EQ(check.edges, 2 * (3 * 3 + 2U));  // a→r, r→c, c→s, and s→a into two of the steps
  EXPECT_EQ(check.collectives, 2 * 3 * 2U);
}

TEST(TraceCheck, NamesWhatWasNotKept) {
  const auto message = [](const std::function<void(plan::Recording&)>& spoil) {
    plan::Recording recording = checked_sample();
    spoil(recording);
    const TraceCheck check = check_recording(recording);
    EXPECT_EQ(check.messages.empty(), check.holds());
    return check.holds() ? "" : check.messages.front();
  };
  EXPECT_EQ(message([](plan::Recording& of) { time_of(of, 1, 2, "r").begin -= 3; }),
            "rank 1, step 2: 'r' begins 3 ns before 'mb0.L1.a \"<&>\"' has ended (read after write)");
  EXPECT_EQ(message([](plan::Recording& of) {
              time_of(of, 0, 0, "s").end += 7;
              of.ranks[0].steps[0].end += 7;
            }),
            "rank 0, step 1: 'mb0.L1.a \"<&>\"' begins 7 ns before 's' of the step before has ended (policy)");
  EXPECT_EQ(
      message([](plan::Recording& of) { of.edges.clear(), time_of(of, 0, 1, "c").begin -= 40; }),
      "rank 0, step 1: 'c' begins 10 ns before 'mb0.L1.a \"<&>\"', its predecessor on stream compute0, has ended");
  EXPECT_EQ(message([](plan::Recording& of) { of.ranks[1].steps[1].end -= 5; }),
            "rank 1, step 1: 's' runs 5 ns outside of the step");
}

TEST(TraceCheck, NamesCollectivesThatRanksBeginInAnotherOrder) {
  plan::Recording recording = checked_sample();
  recording.edges.clear();
  std::swap(time_of(recording, 1, 0, "r"), time_of(recording, 1, 0, "s"));
  const TraceCheck check = check_recording(recording);
  ASSERT_EQ(check.violations, 2U);
  EXPECT_EQ(check.messages[0],
            "rank 1, step 0: 's' begins 40 ns before 'r', its predecessor on stream data, has begun");
  EXPECT_EQ(check.messages[1], "rank 1, step 0: collective 1 on stream data is 's', but 'r' on rank 0");
}

TEST(TraceCheck, KeepsAsManyMessagesAsAskedFor) {
  plan::Recording recording = checked_sample();
  for (const std::size_t step : {0U, 1U, 2U}) time_of(recording, 0, step, "r").begin -= 1;
  const TraceCheck check = check_recording(recording, 2);
  EXPECT_EQ(check.violations, 3U);
  EXPECT_EQ(check.messages.size(), 2U);
}

}  // namespace
}  // namespace weft::inspect
