// Edges of a step by tier, the host's part of it, and the groups of its collectives, from traces made by hand.
#include "inspect/import/recovered_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "inspect/import/readers/kineto_file.h"
#include "inspect/import/step_replay.h"
#include "tests/base/messages.h"
#include "tests/inspect/import/kineto_text.h"

namespace weft::inspect {
namespace {

using graph::EdgeSource;
using testing::KinetoText;

struct Recovered {
  RecoveredStep step;
  graph::OpenGraph graph;  // of the one class

  std::uint32_t find(const std::string& name) const {
    const auto& tasks = graph.classes[0].tasks;
    const auto found = std::ranges::find(tasks, name, &graph::OpenTask::name);
    EXPECT_NE(found, tasks.end()) << name;
    return static_cast<std::uint32_t>(found - tasks.begin());
  }
  const graph::OpenEdge* edge(const std::string& from, const std::string& to) const {
    const std::uint32_t a = find(from), b = find(to);
    for (const graph::OpenEdge& edge : graph.classes[0].edges) {
      if (edge.from == a && edge.to == b) return &edge;
    }
    return nullptr;
  }
  bool has(const std::string& from, const std::string& to, EdgeSource source) const {
    const graph::OpenEdge* found = edge(from, to);
    return found != nullptr && found->source == source;
  }
  double ns(const std::string& name) const { return *graph.classes[0].tasks[find(name)].ns; }
  double replayed() const { return replay_steps(graph).at(0).length(); }
  ReplayedPath path() const { return replay_steps(graph).at(0).path; }
};

Recovered recovered(const KinetoText& text, const StepChoice& choice = {}) {
  const std::string content = text.text();
  const TraceOutline outline = parse_kineto_outline(text_source(content), "t.json");
  const std::optional<MarkedStep> step = choose_step(outline, choice);
  TraceChannels channels(2);
  Recovered out;
  out.step = recover_step(parse_kineto_events(text_source(content), outline, step), step, channels);
  out.graph.classes = {out.step.graph};
  out.graph.channels = std::move(channels).channels();
  out.graph.world = std::max<std::int64_t>(2, outline.world);
  graph::check(out.graph);
  return out;
}

/// A kernel of each of two streams and a collective between them, as PyTorch issues them: the collective waits for the
/// first kernel and the last kernel for the collective. One more kernel runs beside it.
KinetoText overlapped(bool records) {
  KinetoText text;
  text.step(1, 77, 0, 400'000);
  text.call("cudaLaunchKernel", 77, 10'000, 2'000, 1).kernel("gemm", 7, 15'000, 50'000, 1);
  text.call("cudaEventRecord", 77, 20'000, 500, 2).call("cudaStreamWaitEvent", 77, 21'000, 500, 3);
  text.call("cudaLaunchKernelExC", 77, 25'000, 2'000, 4).kernel("ncclDevKernel_AllReduce", 40, 66'000, 100'000, 4);
  text.call("cudaEventRecord", 77, 28'000, 500, 5);
  text.call("cudaLaunchKernel", 77, 40'000, 2'000, 6).kernel("side", 7, 65'000, 30'000, 6);
  text.call("cudaStreamWaitEvent", 77, 60'000, 500, 7);
  text.call("cudaLaunchKernel", 77, 70'000, 2'000, 8).kernel("adam", 7, 166'500, 20'000, 8);
  if (!records) return text;
  text.slice("cuda_sync", "Stream Wait Event", 0, 40, 21'000, 0,
             R"("stream": 40, "device": 0, "correlation": 3, "wait_on_stream": 7,
             "wait_on_cuda_event_record_corr_id": 2)");
  text.slice("cuda_sync", "Stream Wait Event", 0, 7, 60'000, 0,
             R"("stream": 7, "device": 0, "correlation": 7, "wait_on_stream": 40,
             "wait_on_cuda_event_record_corr_id": 5)");
  return text;
}

TEST(RecoveredEdges, ComeFromRecordsOfWaits) {
  const Recovered step = recovered(overlapped(true));
  EXPECT_TRUE(step.has("gemm#0", "all_reduce#0", EdgeSource::synchronisation));
  EXPECT_TRUE(step.has("all_reduce#0", "adam#0", EdgeSource::synchronisation));
  EXPECT_TRUE(step.has("gemm#0", "side#0", EdgeSource::stream));
  EXPECT_TRUE(step.has("side#0", "adam#0", EdgeSource::stream));
  EXPECT_EQ(step.edge("all_reduce#0", "side#0"), nullptr);
  EXPECT_EQ(step.step.edges[static_cast<std::size_t>(EdgeSource::synchronisation)], 2);
  EXPECT_EQ(step.step.edges[static_cast<std::size_t>(EdgeSource::pairing)], 0);
  EXPECT_EQ(step.edge("gemm#0", "all_reduce#0")->confidence, 1);
}

TEST(RecoveredEdges, ComeFromTheOrderOfCallsWhereNothingIsRecorded) {
  const Recovered step = recovered(overlapped(false));
  EXPECT_TRUE(step.has("gemm#0", "all_reduce#0", EdgeSource::pairing));
  EXPECT_TRUE(step.has("all_reduce#0", "adam#0", EdgeSource::pairing));
  EXPECT_EQ(step.edge("all_reduce#0", "side#0"), nullptr);
  for (const graph::OpenEdge* edge : {step.edge("all_reduce#0", "adam#0"), step.edge("gemm#0", "all_reduce#0")}) {
    EXPECT_LT(edge->confidence, 1);  // less sure than a record of the wait
    EXPECT_GT(edge->confidence, 0.5);
  }
  EXPECT_EQ(step.step.edges[static_cast<std::size_t>(EdgeSource::pairing)], 2);
}

TEST(RecoveredEdges, OfOlderTracesComeFromLaunchesAndTimes) {
  KinetoText text;
  text.step(1, 77, 0, 400'000);
  text.call("cudaLaunchKernel", 77, 10'000, 2'000, 1).kernel("gemm", 7, 15'000, 50'000, 1);
  text.call("cudaLaunchKernel", 77, 25'000, 2'000, 4).kernel("ncclKernel_AllReduce", 40, 66'000, 100'000, 4);
  text.call("cudaLaunchKernel", 77, 40'000, 2'000, 6).kernel("side", 7, 65'500, 30'000, 6);
  text.call("cudaLaunchKernel", 77, 70'000, 2'000, 8).kernel("adam", 7, 168'000, 20'000, 8);
  const Recovered step = recovered(text);
  EXPECT_TRUE(step.has("gemm#0", "all_reduce#0", EdgeSource::pairing));
  EXPECT_TRUE(step.has("all_reduce#0", "adam#0", EdgeSource::times));
  EXPECT_EQ(step.edge("all_reduce#0", "side#0"), nullptr);
  ASSERT_EQ(step.step.notes.size(), 4U);
  EXPECT_TRUE(has_parts(step.step.notes[2], {"no calls in which the host waits"}));
  EXPECT_TRUE(has_parts(step.step.notes[3], {"no waits between streams"}));
}

TEST(RecoveredEdges, OfWorkThatOverlapsOnAStreamKeepItsTime) {
  KinetoText text;
  text.kernel("a", 7, 0, 50'000, 1).kernel("b", 7, 20'000, 10'000, 2).kernel("c", 7, 80'000, 5'000, 3);
  const Recovered step = recovered(text);
  EXPECT_TRUE(step.has("a#0", "b#0", EdgeSource::stream));
  EXPECT_TRUE(step.has("b#0", "c#0", EdgeSource::stream));
  EXPECT_EQ(step.ns("a#0"), 20'000) << "until the next one begins";
  EXPECT_EQ(step.ns("b#0"), 30'000) << "until both have ended";
  EXPECT_EQ(step.replayed(), 55'000) << "nothing is known of the gap";
  EXPECT_EQ(step.graph.classes[0].recorded_ns, 85'000);
}

TEST(RecoveredHost, ShowsAStepThatIsBoundByLaunches) {
  KinetoText text;
  text.step(1, 77, 0, 1'000'000);
  for (std::int64_t i = 0; i < 9; ++i) {
    text.call("cudaLaunchKernel", 77, 50'000 + i * 100'000, 4'000, i).kernel("k", 7, 58'000 + i * 100'000, 10'000, i);
  }
  const Recovered step = recovered(text);
  EXPECT_EQ(step.graph.classes[0].recorded_ns, 1'000'000);
  EXPECT_EQ(step.replayed(), 1'000'000);
  EXPECT_EQ(step.path().host, 1'000'000);
  EXPECT_TRUE(step.has("launch of k#3#0", "k#3", EdgeSource::launch));
  EXPECT_EQ(step.ns("launch of k#3#0"), 8'000) << "until the kernel can begin";
  EXPECT_EQ(step.ns("after launch of k#3#0"), 92'000);
  EXPECT_EQ(step.ns("before the first call#0"), 50'000);
}

TEST(RecoveredHost, ShowsAStepThatIsBoundByTheDevice) {
  KinetoText text;
  text.step(1, 77, 0, 100'000);
  for (std::int64_t i = 0; i < 5; ++i) {
    text.call("cudaLaunchKernel", 77, 1'000 + i * 10'000, 4'000, i).kernel("k", 7, 8'000 + i * 100'000, 100'000, i);
  }
  const Recovered step = recovered(text);
  EXPECT_EQ(step.graph.classes[0].recorded_ns, 508'000);
  EXPECT_EQ(step.replayed(), 508'000);
  EXPECT_EQ(step.path().computing, 500'000);
  EXPECT_EQ(step.path().host, 8'000);
}

TEST(RecoveredHost, WaitsForTheDevice) {
  KinetoText text;
  text.step(1, 77, 0, 300'000);
  text.call("cudaLaunchKernel", 77, 10'000, 2'000, 1).kernel("k", 7, 15'000, 200'000, 1);
  text.call("cudaDeviceSynchronize", 77, 20'000, 197'000, 2);
  text.call("cudaMemcpyAsync", 77, 230'000, 30'000, 3).copy("Memcpy DtoH (Device -> Pageable)", 7, 235'000, 20'000, 3);
  text.call("cudaLaunchKernel", 77, 270'000, 2'000, 4).kernel("k", 7, 275'000, 5'000, 4);
  const Recovered step = recovered(text);
  EXPECT_TRUE(step.has("k#0", "wait in cudaDeviceSynchronize#0", EdgeSource::synchronisation));
  EXPECT_TRUE(step.has("memcpy_dtoh#0", "wait in cudaMemcpyAsync#0", EdgeSource::pairing));
  EXPECT_EQ(step.ns("launch of k#0#0") + step.ns("after launch of k#0#0"), 10'000) << "until the call that waits";
  EXPECT_EQ(step.ns("wait in cudaDeviceSynchronize#0"), 15'000) << "from the kernel's end to the next call";
  EXPECT_EQ(step.ns("launch of memcpy_dtoh#0#0"), 5'000);
  EXPECT_EQ(step.replayed(), 300'000);
  EXPECT_EQ(step.path().computing, 200'000);
  EXPECT_EQ(step.path().copying, 20'000);
}

TEST(RecoveredHost, GuessesWhichThreadWokeWhich) {
  KinetoText text;
  text.step(1, 77, 0, 1'000'000);
  std::int64_t correlation = 0, time = 10'000;
  const auto launches = [&](std::int64_t thread, int count) {
    for (int i = 0; i < count; ++i, time += 10'000, ++correlation) {
      text.call("cudaLaunchKernel", thread, time, 2'000, correlation).kernel("k", 7, time + 5'000, 1'000, correlation);
    }
  };
  launches(77, 12);
  time += 50'000;
  launches(88, 12);
  time += 30'000;
  launches(77, 3);
  const Recovered step = recovered(text);
  EXPECT_TRUE(step.has("after launch of k#11#1", "launch of k#12#0", EdgeSource::times));
  EXPECT_TRUE(step.has("after launch of k#23#1", "launch of k#24#0", EdgeSource::times));
  EXPECT_EQ(step.ns("launch of k#11#0"), 2'000);
  EXPECT_EQ(step.ns("after launch of k#11#0"), 3'000) << "until the kernel could begin";
  EXPECT_EQ(step.ns("after launch of k#11#1"), 55'000) << "until it woke the other one";
  EXPECT_EQ(step.replayed(), 1'000'000);
}

TEST(RecoveredHost, OfADeviceThatIsBehindIsCountedFromItsOwnBegin) {
  KinetoText text;
  for (std::int64_t step = 0; step < 3; ++step) {
    text.step(step, 77, step * 100'000, 100'000);
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t id = 4 * step + i;
      text.call("cudaLaunchKernel", 77, step * 100'000 + 10'000 + i * 10'000, 2'000, id);
      text.kernel("k", 7, 15'000 + id * 30'000, 30'000, id);
    }
  }
  const Recovered step =
      recovered(text);  // step 1: its kernels run from 135 to 255 us, and it was marked from 100 us on
  EXPECT_EQ(step.graph.classes[0].recorded_ns, 120'000);
  EXPECT_EQ(step.replayed(), 120'000);
  EXPECT_EQ(step.path().computing, 120'000);
  EXPECT_TRUE(has_parts(step.step.notes.back(), {"0.035 ms behind"}));
}

/// As many kernels of 1 ms as a host can launch at once, then a gap until the device is done, then one more.
KinetoText waits_in_silence(std::int64_t lag, bool polls) {
  KinetoText text;
  for (std::int64_t i = 0; i < 20; ++i) {
    text.call("cudaLaunchKernel", 1, i * 10'000, 5'000, i).kernel("gemm", 7, 20'000 + i * 1'000'000, 1'000'000, i);
  }
  for (std::int64_t at = 250'000; polls && at < 20'030'000; at += 10'000) {
    text.call("cudaEventQuery", 1, at, 2'000, 1000 + at / 10'000);
  }
  text.call("cudaLaunchKernel", 1, 20'020'000 + lag, 5'000, 20);
  text.kernel("gemm", 7, 20'030'000 + lag, 1'000'000, 20);
  return text;
}

TEST(RecoveredHost, ThatIsSilentUntilTheDeviceIsDoneWaits) {
  Recovered step = recovered(waits_in_silence(20'000, false));
  EXPECT_TRUE(step.has("gemm#19", "wait for the device#0", EdgeSource::times));
  EXPECT_EQ(step.ns("wait for the device#0"), 20'000);
  EXPECT_NEAR(step.replayed(), 21'050'000, 20'000);
  for (graph::OpenTask& task : step.graph.classes[0].tasks) {
    if (task.operation == "gemm") task.ns = 500'000;
  }
  EXPECT_NEAR(step.replayed(), 10'550'000, 50'000);
  // A gap that ends long after the device is done is work.
  Recovered works = recovered(waits_in_silence(2'000'000, false));
  EXPECT_EQ(works.step.edges[static_cast<std::size_t>(EdgeSource::times)], 0);
  for (graph::OpenTask& task : works.graph.classes[0].tasks) {
    if (task.operation == "gemm") task.ns = 500'000;
  }
  EXPECT_GT(works.replayed(), 22'000'000);
}

TEST(RecoveredHost, ThatAsksWhetherTheDeviceIsDoneWaits) {
  const Recovered step = recovered(waits_in_silence(300'000, true));  // works for 0.3 ms after its last question
  EXPECT_TRUE(step.has("gemm#19", "wait in cudaEventQuery#0", EdgeSource::times));
  EXPECT_EQ(step.ns("wait in cudaEventQuery#0"), 300'000);
  EXPECT_TRUE(has_parts(step.step.notes.at(1), {"1 waits of the host for the device were guessed"}));
}

TEST(RecoveredHost, WaitsInALaunchIntoAFullQueue) {
  KinetoText text;
  for (std::int64_t i = 0; i < 100; ++i) {
    // From the 81st on, a launch waits until one of the kernels before it has ended.
    const std::int64_t freed = 1'015'000 + (i - 80) * 1'000'000;
    const std::int64_t begin = i <= 80 ? i * 5'000 : freed - 995'000;
    text.call("cudaLaunchKernel", 1, begin, i < 80 ? 4'000 : freed - begin, i);
    text.kernel("gemm", 7, 10'000 + i * 1'000'000, 1'000'000, i);
  }
  const Recovered step = recovered(text);
  EXPECT_TRUE(step.has("gemm#1", "wait in cudaLaunchKernel#1", EdgeSource::times));
  EXPECT_LT(step.ns("wait in cudaLaunchKernel#1") + step.ns("launch of gemm#81#0"), 20'000);
}

TEST(RecoveredHost, OfThreadsThatWorkInTurnsWaitsForTheOther) {
  KinetoText text;
  std::int64_t id = 0;
  const auto launch = [&](std::int64_t thread, std::int64_t time) {
    text.call("cudaLaunchKernel", thread, time, 4'000, id).kernel("k", 7, time + 6'000, 2'000, id);
    ++id;
  };
  for (std::int64_t turn = 0; turn < 3; ++turn) {
    for (std::int64_t i = 0; i < 3; ++i) launch(1, turn * 2'000'000 + i * 10'000);
    for (std::int64_t i = 0; i < 3; ++i) launch(2, turn * 2'000'000 + 500'000 + i * 300'000 / 2);
  }
  Recovered step = recovered(text);
  const double before = step.replayed();
  for (graph::OpenTask& task : step.graph.classes[0].tasks) {
    if (task.kind == graph::OpenKind::host && task.stream == 2) task.ns = 2 * *task.ns;
  }
  EXPECT_GT(step.replayed(), before + 600'000) << "the other thread waits for it";
}

TEST(RecoveredHost, ThatSleepsHoldsNoOtherThreadUp) {
  KinetoText text;
  text.step(1, 1, 0, 6'000'000);
  text.call("cudaLaunchKernel", 1, 10'000, 4'000, 1).kernel("k", 7, 20'000, 5'000'000, 1);
  text.call("cudaDeviceSynchronize", 1, 30'000, 4'995'000, 2);
  text.call("cudaMemcpyAsync", 2, 2'000'000, 4'000, 3);
  text.copy("Memcpy HtoD (Pinned -> Device)", 25, 2'010'000, 3'900'000, 3);
  const Recovered step = recovered(text);
  EXPECT_NEAR(*step.graph.classes[0].tasks[step.find("memcpy_htod#0")].begin_ns, 2'010'000, 1);
  EXPECT_NEAR(step.replayed(), 6'000'000, 60'000);
  EXPECT_NEAR(replay_steps(step.graph)[0].begins[step.find("memcpy_htod#0")], 2'010'000, 10'000);
}

TEST(RecoveredHost, HasNoTailAfterTheStep) {
  KinetoText text;
  text.call("cudaLaunchKernel", 77, 10'000, 2'000, 1).kernel("k", 7, 15'000, 50'000, 1);
  text.call("cudaDeviceSynchronize", 77, 20'000, 46'000, 2);
  text.call("cudaDeviceSynchronize", 77, 900'000, 4'000'000, 3);
  const Recovered step = recovered(text, {.whole = true});
  EXPECT_EQ(step.graph.classes[0].recorded_ns, 55'000);
  EXPECT_EQ(step.replayed(), 55'000);
}

TEST(RecoveredStepOfTrace, IsAPeriodOfEachStream) {
  KinetoText text;
  for (std::int64_t i = 0; i < 4; ++i) {
    const std::int64_t begin = i * 10'000'000;
    text.step(i, 1, begin, 10'000'000);
    text.call("cudaMemcpyAsync", 1, begin + 100'000, 5'000, 20 * i);
    text.copy("Memcpy HtoD (Pinned -> Device)", 25, begin + 120'000, 300'000, 20 * i);
    for (std::int64_t k = 1; k < 10; ++k) {
      text.call("cudaLaunchKernel", 1, begin + 500'000 + k * 20'000, 5'000, 20 * i + k);
      text.kernel("gemm", 7, begin + 9'500'000 + (k - 1) * 1'100'000, 1'100'000, 20 * i + k);
    }
  }
  const Recovered step = recovered(text);  // the copies run ahead of the kernels by a step
  EXPECT_EQ(step.step.marked_ns, 10'000'000);
  EXPECT_EQ(step.graph.classes[0].recorded_ns, 10'000'000);
  EXPECT_NEAR(step.replayed(), 10'000'000, 200'000);
  EXPECT_EQ(step.graph.classes[0].tasks[step.find("memcpy_htod#0")].begin_ns, 720'000) << "that of the next step";
}

TEST(RecoveredStepOfTrace, CountsCollectivesThatLagBehindTheComputations) {
  KinetoText text;
  for (std::int64_t i = 0; i < 4; ++i) {
    const std::int64_t begin = i * 1'000'000;
    text.step(i, 1, begin, 1'000'000);
    text.call("cudaLaunchKernel", 1, begin + 10'000, 5'000, 20 * i).kernel("gemm", 7, begin + 100'000, 900'000, 20 * i);
    text.call("cudaLaunchKernel", 1, begin + 30'000, 5'000, 20 * i + 1);
    text.kernel("ncclDevKernel_AllReduce", 9, begin + 1'000'500, 950'000, 20 * i + 1);
  }
  const Recovered step = recovered(text);
  EXPECT_EQ(step.graph.classes[0].recorded_ns, 1'000'000);
  EXPECT_NEAR(step.replayed(), 1'000'000, 20'000);
  EXPECT_EQ(step.ns("gemm#0"), 900'000) << "all of it";
  EXPECT_EQ(step.ns("all_reduce#0"), 950'000);
}

TEST(RecoveredStepOfTrace, IsntShortenedByWorkThatAnEarlierStepLeftRunning) {
  KinetoText text;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::int64_t begin = i * 1'000'000;
    text.step(i, 1, begin, 1'000'000);
    if (i == 0) {
      text.call("cudaMemcpyAsync", 1, begin + 5'000, 4'000, 99);
      text.copy("Memcpy DtoH (Device -> Pinned)", 30, begin + 10'000, 1'600'000, 99);
    }
    text.call("cudaLaunchKernel", 1, begin + 10'000, 5'000, 100 + i)
        .kernel("gemm", 7, begin + 20'000, 950'000, 100 + i);
  }
  const Recovered step = recovered(text);
  EXPECT_EQ(step.graph.classes[0].recorded_ns, 1'000'000);
  EXPECT_EQ(step.ns("gemm#0"), 950'000);
}

TEST(RecoveredStepOfTrace, IsAsLongAsATailThatIsntThereEachTime) {
  KinetoText text;
  text.step(0, 1, 0, 100'000);
  text.call("cudaLaunchKernel", 1, 10'000, 5'000, 1).kernel("gemm", 7, 20'000, 60'000, 1);
  text.call("cudaLaunchKernel", 1, 30'000, 5'000, 2).kernel("ncclDevKernel_AllReduce", 9, 80'500, 200'000, 2);
  EXPECT_EQ(recovered(text).graph.classes[0].recorded_ns, 280'500);
}

TEST(RecoveredChannels, AreNamedByArguments) {
  KinetoText text;
  text.info = R"("rank": 1, "world_size": 4, "pg_config": [{"pg_name": "3", "pg_desc": "tp", "ranks": [0, 1]}])";
  const auto args = [](const char* group, const char* more) {
    return fmt::format(R"(, "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
                       "dtype": "Float", "Process Group Name": "{}"{})",
                       group, more);
  };
  text.kernel("ncclDevKernel_AllReduce", 40, 0, 10, 1, args("3", R"(, "Group size": 2)"));
  text.kernel("ncclDevKernel_AllReduce", 41, 0, 10, 2, args("0", R"(, "Group size": 4, "Seq": 9,
                                                            "Process Group Description": "default_pg")"));
  text.kernel("ncclDevKernel_AllGather", 42, 0, 10, 3);
  const Recovered step = recovered(text);
  ASSERT_EQ(step.graph.channels.size(), 3U);
  EXPECT_EQ(step.graph.channels[0].name, "tp");
  EXPECT_EQ(step.graph.channels[0].groups, (std::vector<std::vector<std::int64_t>>{{0, 1}}));
  EXPECT_EQ(step.graph.channels[1].name, "group 0");
  EXPECT_EQ(step.graph.channels[1].group_size, 4);
  EXPECT_EQ(step.graph.channels[2].name, "stream 42 (inferred)");
  EXPECT_EQ(step.graph.channels[2].group_size, 2);
  const auto& task = step.graph.classes[0].tasks[step.find("all_reduce#1")];
  EXPECT_EQ(task.sequence, 9);
  EXPECT_EQ(task.network_bytes, 6000);
  EXPECT_EQ(task.kind, graph::OpenKind::collective);
}

TEST(RecoveredStepOfTrace, RefusesAStepWithoutWork) {
  KinetoText text;
  text.step(1, 77, 0, 100).call("cudaLaunchKernel", 77, 10, 2, 1);
  EXPECT_TRUE(refuses([&] { recovered(text); }, {"step 1 of 't.json' has no work of a device", "--step"}));
}

}  // namespace
}  // namespace weft::inspect
