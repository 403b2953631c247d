// Records that can't be true: each kind is told with its number and first name, and mended where the right value is
// clear.
#include "inspect/import/impossible_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "inspect/import/readers/kineto_file.h"
#include "inspect/import/recovered_step.h"
#include "inspect/import/step_replay.h"
#include "tests/base/messages.h"
#include "tests/inspect/import/kineto_text.h"

namespace weft::inspect {
namespace {

using testing::KinetoText;

struct Mended {
  DeviceTrace trace;
  RecoveredStep step;
  double replayed = 0;

  /// The one note with all of these parts.
  bool notes(std::initializer_list<std::string_view> parts) const {
    return std::ranges::any_of(step.notes, [&](const std::string& note) {
      return std::ranges::all_of(parts, [&](std::string_view part) { return note.find(part) != std::string::npos; });
    });
  }
};

Mended mended(const KinetoText& text, const StepChoice& choice = {}) {
  const std::string content = text.text();
  const TraceOutline outline = parse_kineto_outline(text_source(content), "t.json");
  const std::optional<MarkedStep> step = choose_step(outline, choice);
  Mended out{parse_kineto_events(text_source(content), outline, step), {}};
  TraceChannels channels(2);
  out.step = recover_step(out.trace, step, channels);
  graph::OpenGraph graph;
  graph.classes = {out.step.graph};
  graph.channels = std::move(channels).channels();
  graph.world = 2;
  graph::check(graph);
  out.replayed = replay_steps(graph).at(0).length();
  return out;
}

/// Kernels of 100 us one after the other; the host launches one each 10 us. Every `lost`-th has no record.
KinetoText device_bound(int count, int lost, std::int64_t at = 0) {
  KinetoText text;
  for (int i = 0; i < count; ++i) {
    text.call("cudaLaunchKernel", 1, at + i * 10'000, 5'000, i + 1);
    if (i % lost != lost - 1) text.kernel("k", 7, at + 20'000 + i * 100'000, 100'000, i + 1);
  }
  return text;
}

TEST(LostKernels, AreStoodInForWhereAStreamStoodStill) {
  const Mended half = mended(device_bound(20, 2));
  EXPECT_TRUE(half.notes({"10 launches have no kernel", "first 'cudaLaunchKernel'", "9 gaps", "0.900 ms"}));
  EXPECT_EQ(half.step.graph.recorded_ns, 1'920'000) << "nobody knows when the last one ended";
  EXPECT_NEAR(half.replayed, half.step.graph.recorded_ns, 0.01 * half.step.graph.recorded_ns);
  EXPECT_EQ(half.step.overlap.computing, 1'000'000) << "what they did isn't known";
  const Mended few = mended(device_bound(100, 25));
  EXPECT_TRUE(few.notes({"4 launches have no kernel"}));
  EXPECT_NEAR(few.replayed, few.step.graph.recorded_ns, 0.01 * few.step.graph.recorded_ns);
}

TEST(LostKernels, AreNotStoodInForWhereTheHostWasLate) {
  KinetoText text;
  for (int i = 0; i < 10; ++i) {
    text.call("cudaLaunchKernel", 1, i * 100'000, 5'000, i + 1);
    if (i != 4) text.kernel("k", 7, 8'000 + i * 100'000, 20'000, i + 1);
  }
  const Mended step = mended(text);
  EXPECT_TRUE(step.notes({"1 launches have no kernel", "Nothing is known"}));
  EXPECT_EQ(step.trace.ops.size(), 9U);
  EXPECT_EQ(step.replayed, step.step.graph.recorded_ns);
}

TEST(LostKernels, AreNotThoseOfAGraphThatIsCaptured) {
  KinetoText text;
  text.call("cudaStreamBeginCapture_v10000", 1, 0, 1'000, 100).call("cudaLaunchKernel", 1, 2'000, 1'000, 101);
  text.call("cudaStreamEndCapture", 1, 4'000, 1'000, 102);
  text.call("cudaGraphLaunch", 1, 6'000, 1'000, 103).kernel("k", 7, 100'000, 50'000, 103);
  const Mended step = mended(text);
  EXPECT_FALSE(step.notes({"no kernel"}));
  EXPECT_EQ(step.trace.ops.size(), 1U);
}

TEST(LostKernels, AreNotStoodInForWhereAnotherStreamWasAwaited) {
  KinetoText text;
  text.call("cudaLaunchKernel", 1, 0, 5'000, 1).kernel("gemm", 7, 20'000, 50'000, 1);
  text.call("cudaLaunchKernel", 1, 10'000, 5'000, 2).kernel("side", 9, 25'000, 275'000, 2);
  text.call("cudaLaunchKernel", 1, 20'000, 5'000, 3).kernel("gemm", 7, 75'000, 50'000, 3);
  text.call("cudaLaunchKernel", 1, 25'000, 4'000, 4);
  text.call("cudaLaunchKernel", 1, 30'000, 5'000, 5).kernel("gemm", 7, 301'000, 50'000, 5);
  EXPECT_EQ(mended(text).trace.ops.size(), 4U);
}

TEST(ImpossibleRecords, OfWorkBeforeItsLaunchMoveToIt) {
  constexpr std::int64_t kLate = 5'000'000'000'000;
  KinetoText text = device_bound(6, 100, kLate);
  text.call("cudaLaunchKernel", 1, kLate + 60'000, 5'000, 50).kernel("at_zero", 9, 0, 30'000, 50);
  text.call("cudaLaunchKernel", 1, kLate + 70'000, 5'000, 51).kernel("early", 9, kLate - 900'000'000, 30'000, 51);
  text.kernel("nobodys", 9, -5'000, 10'000, 77);
  const Mended step = mended(text);
  EXPECT_TRUE(step.notes({"2 records of work begin before the call", "'at_zero'", "moved"}));
  EXPECT_TRUE(step.notes({"1 records have a time at 0", "'nobodys'", "left out"}));
  EXPECT_EQ(step.step.graph.recorded_ns, 620'000);
  const auto moved = std::ranges::find(step.trace.ops, 51, &DeviceOp::correlation);
  EXPECT_EQ(moved->begin, kLate + 70'000);
  EXPECT_EQ(moved->end, kLate + 100'000);
  EXPECT_EQ(step.trace.ops.size(), 8U);
}

TEST(ImpossibleRecords, OfClocksThatDifferStayAsTheyAre) {
  KinetoText text;
  for (int i = 0; i < 5; ++i) {
    text.call("cudaLaunchKernel", 1, 10'000'000 + i * 10'000, 5'000, i + 1).kernel("k", 7, i * 10'000, 10'000, i + 1);
  }
  const Mended step = mended(text);
  EXPECT_FALSE(step.notes({"before the call"}));
  EXPECT_EQ(step.trace.ops.front().begin, 0);
}

TEST(ImpossibleRecords, AreToldByKind) {
  KinetoText text;
  text.call("cudaLaunchKernel", 1, 0, 5'000, 1).call("cudaLaunchKernel", 1, 0, 5'000, 1);
  text.kernel("gemm", 7, 20'000, 50'000, 1).kernel("gemm", 7, 20'000, 50'000, 1).kernel("gemm", 7, 20'000, 50'000, 1);
  text.call("cudaLaunchKernel", 1, 10'000, 5'000, 2).kernel("over", 7, 40'000, 50'000, 2);
  text.slice("kernel", "backwards", 0, 7, 100'000, 0, R"("device": 0, "stream": 7, "correlation": 3)");
  text.event(R"("ph": "X", "cat": "kernel", "name": "negative", "pid": 0, "tid": 7, "ts": 120, "dur": -5,
             "args": {"stream": 7, "correlation": 4})");
  text.slice("cuda_runtime", "cudaLaunchKernel", 2000, 3, 90'000, 1'000, R"("correlation": 3)");
  const Mended step = mended(text);
  EXPECT_TRUE(step.notes({"3 records are in the file twice", "first 'gemm'"}));
  EXPECT_TRUE(step.notes({"1 records of work begin before earlier work", "'over'"}));
  EXPECT_TRUE(step.notes({"1 records have a negative duration", "'negative'"}));
  EXPECT_TRUE(step.notes({"2 processes", "1000 and 2000"}));
  EXPECT_EQ(step.step.overlap.computing, 70'000);
  const Mended clean = mended(device_bound(3, 100));
  EXPECT_FALSE(clean.notes({"records"}));
  EXPECT_FALSE(clean.notes({"processes"}));
}

TEST(ImpossibleRecords, OfStepsThatAreMixedAreTold) {
  KinetoText text = device_bound(30, 100);
  text.step(1, 1, 0, 100'000).step(2, 1, 50'000, 100'000).step(3, 1, 150'000, 100'000).step(3, 1, 250'000, 50'000);
  EXPECT_TRUE(mended(text, {.whole = true}).notes({"2 marks of steps", "'ProfilerStep#2'"}));
}

}  // namespace
}  // namespace weft::inspect
