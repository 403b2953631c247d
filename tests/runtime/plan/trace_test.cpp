// Sums of overlap against hand-computed ones.
#include "runtime/plan/trace.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/runtime/trace_sample.h"

namespace weft::plan {
namespace {

using testing_sample::sample_plan;
using testing_sample::sample_step;

TEST(Summarize, MergesKindsBeforeItComparesThem) {
  const OverlapSummary sums = summarize(sample_plan(), sample_step(0, 1000, 1));
  EXPECT_EQ(sums.step, 100);
  EXPECT_EQ(sums.compute, 50 + 20);        // [0,50) of two streams, [60,80)
  EXPECT_EQ(sums.communication, 30 + 25);  // [40,70), [75,100)
  EXPECT_EQ(sums.exposed, 10 + 20);        // [50,60), [80,100)
  EXPECT_EQ(sums.overlapped, 25);
  EXPECT_DOUBLE_EQ(sums.overlap_fraction(), 25.0 / 55.0);
}

TEST(Summarize, NothingCommunicates) {
  Plan plan = sample_plan();
  plan.streams.pop_back();
  StepTrace trace = sample_step(0, 0, 1);
  trace.times.pop_back();
  const OverlapSummary sums = summarize(plan, trace);
  EXPECT_EQ(sums.compute, 70);
  EXPECT_EQ(sums.communication, 0);
  EXPECT_EQ(sums.overlap_fraction(), 0.0);
}

TEST(Summarize, RefusesATraceOfAnotherPlan) {
  StepTrace trace = sample_step(0, 0, 1);
  trace.times[0].pop_back();
  EXPECT_THROW(summarize(sample_plan(), trace), std::logic_error);
}

}  // namespace
}  // namespace weft::plan
