// The steps whose traces are kept, and their times in nanoseconds.
#include "runtime/execute/cpu/kept_traces.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/runtime/trace_sample.h"

namespace weft::execute {
namespace {

class KeptTracesTest : public ::testing::Test {
 protected:
  /// A step of which every task takes as long as the clock ticks between two looks.
  void run(KeptTraces& traces, std::int64_t step, bool ends_well = true) {
    traces.begin(step, clock_);
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
  run(traces, 100);
  const plan::StepTrace& trace = traces.last();
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
  EXPECT_EQ(traces.last().times[0][0].begin, trace.times[0][0].begin);  // not converted twice
}

// A step that failed has taken the place of the oldest.
TEST_F(KeptTracesTest, AStepThatFailedHasNone) {
  KeptTraces one(plan_, 1), two(plan_, 2);
  for (KeptTraces* traces : {&one, &two}) {
    run(*traces, 0);
    run(*traces, 1, false);
  }
  EXPECT_THROW(one.last(), std::logic_error);
  EXPECT_TRUE(one.all().empty());
  EXPECT_EQ(two.last().step, 0);
}

TEST_F(KeptTracesTest, NoneAreKeptWhereNoneAreAskedFor) {
  KeptTraces traces(plan_, 0);
  EXPECT_THROW(traces.last(), std::logic_error);
  traces.begin(0, clock_);
  EXPECT_EQ(traces.times(0), nullptr);
  traces.end(clock_);
  EXPECT_THROW(traces.last(), std::logic_error);
  EXPECT_TRUE(traces.all().empty());
}

}  // namespace
}  // namespace weft::execute
