// The steps whose traces are kept, and their times in nanoseconds.
#include "runtime/execute/cpu/kept_traces.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/runtime/trace_sample.h"

namespace weft::execute {
namespace {

class KeptTracesTest : public ::testing::Test {
 protected:
  /// A step of which every task takes as long as the clock ticks between two looks.
  void run(KeptTraces& traces, std::int64_t run, bool ends_well = true) {
    traces.begin(run, 100 + run, clock_);
    for (std::size_t s = 0; s < plan_.streams.size(); ++s) {
      plan::TaskTime* const times = traces.times(s);
      for (std::size_t e = 0; e < plan_.streams[s].entries.size(); ++e) {
        times[e].begin = clock_.now();
        times[e].end = clock_.now();
      }
    }
    if (ends_well) traces.end(clock_);
  }
  const plan::Plan plan_ = testing_sample::sample_plan();
  const TickClock clock_;
};

TEST_F(KeptTracesTest, TimesAreWithinTheirStep) {
  KeptTraces traces(plan_, 1);
  run(traces, 0);
  const plan::StepTrace& trace = traces.last(1);
  EXPECT_EQ(trace.step, 100);
  ASSERT_EQ(trace.times.size(), 3U);
  EXPECT_EQ(trace.times[0].size(), 2U);
  std::int64_t last = trace.begin;
  for (const auto& stream : trace.times) {
    for (const plan::TaskTime& time : stream) {
      EXPECT_LE(last, time.begin);
      EXPECT_LE(time.begin, time.end);
      last = time.end;
    }
  }
  EXPECT_LE(last, trace.end);
  EXPECT_EQ(traces.last(1).times[0][0].begin, trace.times[0][0].begin);  // not converted twice
}

TEST_F(KeptTracesTest, TheLastStepsAreKept) {
  KeptTraces traces(plan_, 2);
  for (std::int64_t r = 0; r < 5; ++r) {
    run(traces, r);
    EXPECT_EQ(traces.last(r + 1).step, 100 + r);
  }
  const std::vector<plan::StepTrace> all = traces.all(5);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].step, 103);
  EXPECT_EQ(all[1].step, 104);
}

// A step that failed doesn't count as a run, but has taken the place of the oldest.
TEST_F(KeptTracesTest, AStepThatFailedHasNone) {
  KeptTraces one(plan_, 1), two(plan_, 2);
  for (KeptTraces* traces : {&one, &two}) {
    run(*traces, 0);
    run(*traces, 1, false);
  }
  EXPECT_THROW(one.last(1), std::logic_error);
  EXPECT_TRUE(one.all(1).empty());
  EXPECT_EQ(two.last(1).step, 100);
}

TEST_F(KeptTracesTest, NoneAreKeptWhereNoneAreAskedFor) {
  KeptTraces traces(plan_, 0);
  traces.begin(0, 0, clock_);
  EXPECT_EQ(traces.times(0), nullptr);
  traces.end(clock_);
  EXPECT_THROW(traces.last(0), std::logic_error);
  EXPECT_THROW(traces.last(1), std::logic_error);
  EXPECT_TRUE(traces.all(1).empty());
}

}  // namespace
}  // namespace weft::execute
