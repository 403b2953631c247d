// What is read of a trace of PyTorch's profiler: the wanted step alone, in every spelling; refusals have their place.
#include "inspect/import/readers/kineto_file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "inspect/import/recovered_step.h"
#include "tests/base/messages.h"
#include "tests/inspect/import/kineto_text.h"

namespace weft::inspect {
namespace {

using testing::KinetoText;

TraceOutline outline_of(const std::string& text) {
  return parse_kineto_outline(text_source(text), "t.json");
}

DeviceTrace whole_trace(const std::string& text) {
  return parse_kineto_events(text_source(text), outline_of(text), std::nullopt);
}

DeviceTrace step_of(const std::string& text, std::optional<std::int64_t> number = {}) {
  const TraceOutline outline = outline_of(text);
  return parse_kineto_events(text_source(text), outline, choose_step(outline, {.number = number}));
}

/// Three steps of 1 ms, each with two kernels and a mark; the second kernel begins after its step.
std::string three_steps() {
  KinetoText text;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::int64_t begin = 5'000'000'123 + i * 1'000'000;
    text.step(4 + i, 77, begin, 1'000'000);
    text.mark("## forward ##", 77, begin + 50'000, 500'000);
    text.slice("cpu_op", "aten::add", 1000, 77, begin + 60'000, 400'000, R"("Input Dims": [[1, 2]])");
    text.call("cudaLaunchKernel", 77, begin + 100'000, 5'000, 10 * i + 1);
    text.call("cudaLaunchKernel", 77, begin + 900'000, 5'000, 10 * i + 2);
    text.kernel("gemm", 7, begin + 110'000, 200'000, 10 * i + 1);
    text.kernel("gemm", 7, begin + 1'010'000, 50'000, 10 * i + 2);
  }
  return text.text();
}

TEST(KinetoFile, FindsStepsRanksAndGroups) {
  KinetoText text;
  text.info =
      R"("rank": 3, "world_size": 8, "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 8,
      "ranks": [0, 1, 2, 3, 4, 5, 6, 7]}, {"pg_name": "7", "pg_desc": "tp", "ranks": "[2, 3]"}])";
  text.step(9, 77, 1'000, 5'000).step(8, 77, 0, 1'000).kernel("k", 7, 0, 1, 1);
  const TraceOutline outline = outline_of(text.text());
  EXPECT_EQ(outline.rank, 3);
  EXPECT_EQ(outline.world, 8);
  EXPECT_EQ(outline.events, 3);
  ASSERT_EQ(outline.groups.size(), 2U);
  EXPECT_EQ(outline.groups[0].size, 8);
  EXPECT_EQ(outline.groups[1].ranks, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(outline.groups[1].size, 2);
  ASSERT_EQ(outline.steps.size(), 2U);
  EXPECT_EQ(outline.steps[0].number, 8);
  EXPECT_EQ(outline.steps[1].window.begin, 1'000);
  EXPECT_EQ(outline.steps[1].window.end, 6'000);
  EXPECT_EQ(parse_kineto_outline(text_source("[]"), "a/sampled_rank-12.json.gz").rank, 12);
  EXPECT_EQ(parse_kineto_outline(text_source("[]"), "ranks.json").rank, -1);
}

TEST(KinetoFile, ChoosesTheLastStepThatAnotherFollows) {
  const TraceOutline outline = outline_of(three_steps());
  EXPECT_EQ(choose_step(outline, {})->number, 5);
  EXPECT_EQ(choose_step(outline, {.number = 6})->number, 6);
  EXPECT_FALSE(choose_step(outline, {.whole = true}));
  EXPECT_TRUE(refuses([&] { choose_step(outline, {.number = 3}); }, {"no step 3", "4, 5, 6"}));
  const TraceOutline unmarked = outline_of("[]");
  EXPECT_FALSE(choose_step(unmarked, {}));
  EXPECT_TRUE(refuses([&] { choose_step(unmarked, {.number = 3}); }, {"marks no steps", "--step"}));
}

TEST(KinetoFile, TakesTheWorkThatAStepLaunched) {
  const std::string text = three_steps();
  const DeviceTrace trace = step_of(text);
  ASSERT_EQ(trace.calls.size(), 2U);
  EXPECT_EQ(trace.calls[0].begin, 5'001'100'123);
  EXPECT_EQ(trace.calls[0].kind, HostCallKind::launch);
  ASSERT_EQ(trace.marks.size(), 1U);
  EXPECT_EQ(trace.names.text(trace.marks[0].name), "## forward ##");
  const StepOps step = ops_of_step(trace, choose_step(outline_of(text), {})->window);
  ASSERT_EQ(step.ops.size(), 2U);
  EXPECT_EQ(step.ops[0].correlation, 11);
  EXPECT_EQ(step.ops[1].correlation, 12);
  EXPECT_EQ(step.ops[1].begin, 5'002'010'123);
  EXPECT_EQ(step.without_launch, 0);
  EXPECT_EQ(step.earlier_ends.at({0, 7}), 5'001'060'123)
      << "of the step before, launched too early to be in the file's part";
}

TEST(KinetoFile, TakesWorkWithoutLaunchesByItsTime) {
  KinetoText text;
  text.step(1, 7, 1'000, 1'000);
  text.kernel("early", 7, 500, 10, 5).kernel("here", 7, 1'500, 10, 6).kernel("late", 7, 2'500, 10, 7);
  const StepOps step = ops_of_step(step_of(text.text()), {1'000, 2'000});
  ASSERT_EQ(step.ops.size(), 1U);
  EXPECT_EQ(step.ops[0].correlation, 6);
  EXPECT_EQ(step.without_launch, 1);
}

TEST(KinetoFile, ReadsOlderSpellings) {
  const std::string text = R"([{"name": "k", "cat": "Kernel", "ph": "X", "ts": 1.5e3, "dur": 2, "pid": "0", "tid": "12",
    "args": {"correlation": "44"}}, {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "ts": "1499.9996",
    "dur": -1, "tid": -5, "args": {"correlation": 44}}, 7, {"ph": "M", "name": "process_name", "args": {"name": "x"}}])";
  const DeviceTrace trace = whole_trace(text);
  ASSERT_EQ(trace.ops.size(), 1U);
  EXPECT_EQ(trace.ops[0].begin, 1'500'000);
  EXPECT_EQ(trace.ops[0].end, 1'502'000);
  EXPECT_EQ(trace.ops[0].stream, 12);
  EXPECT_EQ(trace.ops[0].correlation, 44);
  ASSERT_EQ(trace.calls.size(), 1U);
  EXPECT_EQ(trace.calls[0].begin, 1'500'000);
  EXPECT_EQ(trace.calls[0].end, 1'500'000);
  EXPECT_EQ(trace.calls[0].thread, -5);
}

TEST(KinetoFile, TakesSlicesOfOtherProgramsThatNameAStream) {
  const std::string text = R"({"traceEvents": [
    {"ph": "X", "name": "mb0.gemm", "cat": "gemm", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": {"stream": 1}},
    {"ph": "X", "name": "row", "cat": "marks", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": {"step": 1}}]})";
  ASSERT_EQ(whole_trace(text).ops.size(), 1U);
  EXPECT_EQ(whole_trace(text).ops[0].stream, 1);
}

TEST(KinetoFile, JoinsLaunchesByArrowsWhereCorrelationsAreAbsent) {
  const std::string text = R"({"traceEvents": [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 10, "dur": 5, "pid": 1, "tid": 3},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 9, "ts": 10, "pid": 1, "tid": 3},
    {"ph": "X", "cat": "kernel", "name": "k", "ts": 20, "dur": 5, "pid": 0, "tid": 7, "args": {"stream": 7}},
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 9, "ts": 20, "pid": 0, "tid": 7, "bp": "e"}]})";
  const DeviceTrace trace = whole_trace(text);
  EXPECT_EQ(trace.ops.at(0).correlation, 9);
  EXPECT_EQ(trace.calls.at(0).correlation, 9);
}

TEST(KinetoFile, ReadsCollectivesAndWaits) {
  KinetoText text;
  text.kernel("ncclDevKernel_AllGather_RING_LL(ncclDevComm*)", 40, 1'000, 500, 3,
              R"(, "Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 200, "Group size": 2,
              "dtype": "BFloat16", "Process Group Name": "1", "Process Group Description": "tp",
              "Process Group Ranks": "[4, 5]", "Seq": 17)");
  text.slice("cuda_sync", "Stream Wait Event", 0, 7, 2'000, 0,
             R"("stream": 7, "device": 0, "correlation": 8, "wait_on_stream": 40,
             "wait_on_cuda_event_record_corr_id": 4, "wait_on_cuda_event_id": 1)");
  const DeviceTrace trace = whole_trace(text.text());
  ASSERT_EQ(trace.collectives.size(), 1U);
  const CollectiveNote& note = trace.collectives[0];
  EXPECT_EQ(note.kind, "all_gather");
  EXPECT_EQ(note.group, "1");
  EXPECT_EQ(note.description, "tp");
  EXPECT_EQ(note.ranks, (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(note.group_size, 2);
  EXPECT_EQ(note.sequence, 17);
  EXPECT_EQ(note.bytes, 400);
  EXPECT_EQ(trace.ops.at(0).collective, 0U);
  ASSERT_EQ(trace.syncs.size(), 1U);
  EXPECT_EQ(trace.syncs[0].kind, HostCallKind::wait);
  EXPECT_EQ(trace.syncs[0].wait_on_stream, 40);
  EXPECT_EQ(trace.syncs[0].record_correlation, 4);
}

TEST(KinetoFile, RefusesWithThePlace) {
  const auto refusal = [](const std::string& text) {
    return testing::message_of<UserError>([&] { whole_trace(text); });
  };
  EXPECT_TRUE(has_parts(refusal("{\"traceEvents\": [\n{\"ts\": 5,}]}"), {"t.json line 2 byte"}));
  EXPECT_TRUE(has_parts(refusal(R"([{"ph": "X", "cat": "kernel", "ts": "soon"}])"),
                        {"t.json line 1 byte", "found soon", "microseconds"}));
  EXPECT_TRUE(has_parts(refusal(R"([{"ph": "X", "cat": "kernel", "ts": 4000000000000000}])"), {"4e15"}));
  EXPECT_TRUE(has_parts(refusal("{\"events\": []}"), {"no \"traceEvents\"", "export_chrome_trace"}));
  EXPECT_TRUE(has_parts(refusal("[{\"ph\": \"X\""), {"breaks off"}));
}

TEST(DeviceOverlapOfTrace, IsTheShareOfCommunicationBesideComputation) {
  KinetoText text;
  // Communication [0, 400); computation [100, 300) on two streams that overlap, and [350, 450). Copies don't count.
  text.kernel("ncclKernel_AllReduce", 40, 0, 400, 1).kernel("gemm", 7, 100, 150, 2).kernel("gemm", 8, 200, 100, 3);
  text.kernel("gemm", 7, 350, 100, 4).copy("Memcpy HtoD", 9, 0, 100, 5);
  const DeviceTrace trace = whole_trace(text.text());
  const DeviceOverlap overlap = device_overlap(trace.ops, trace.names);
  EXPECT_EQ(overlap.communicating, 400);
  EXPECT_EQ(overlap.computing, 300);
  EXPECT_EQ(overlap.both, 250);
  EXPECT_EQ(overlap.exposed(), 150);
  EXPECT_DOUBLE_EQ(overlap.percent(), 62.5);
  EXPECT_EQ(DeviceOverlap().percent(), 0);
}

}  // namespace
}  // namespace weft::inspect
