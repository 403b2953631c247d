// The Chrome trace byte for byte, and the requirements of viewers.
#include "inspect/formats/chrome_trace.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>
#include <utility>

#include "tests/base/messages.h"
#include "tests/runtime/trace_sample.h"

namespace weft::inspect {
namespace {

using testing_sample::sample_plan;
using testing_sample::sample_step;

std::string one_rank(const plan::Plan& plan, std::vector<plan::StepTrace> steps) {
  const std::vector<plan::RankTrace> traced = {{0, std::move(steps)}};
  return chrome_trace_json(plan::record(plan, traced, 1));
}

TEST(ChromeTrace, Golden) {
  const std::vector<plan::RankTrace> traced = {{2, {sample_step(7, 1'000'000, 1001)}}};
  const std::string text = chrome_trace_json(plan::record(sample_plan(), traced, 4));
  EXPECT_EQ(text, R"GOLD({
"schemaVersion": 1,
"distributedInfo": {"backend": "weft", "rank": 2, "world_size": 4},
"displayTimeUnit": "ms",
"weft": {
"version": 1,
"policy": "by <hand>",
"world": 4,
"state_bytes": 0,
"plan_fingerprint": "0x0000000000000000",
"origin_ns": 1000000,
"streams": [
{"name": "compute0", "compute": true},
{"name": "compute1", "compute": true},
{"name": "data", "compute": false}
],
"tasks": [
{"name": "mb0.L1.a \"<&>\"", "kind": "gemm", "style": "GEMM", "stream": 0, "phase": "forward", "layer": 1, "micro_batch": 0, "flops": 8, "bytes": 36, "network_bytes": 0, "allocates": 16, "frees": 0, "reason": "as early as possible"},
{"name": "b", "kind": "select_row", "style": "copy, broadcast", "stream": 1, "phase": "forward", "layer": -1, "micro_batch": -1, "flops": 0, "bytes": 32, "network_bytes": 0, "allocates": 16, "frees": 16},
{"name": "r", "kind": "all_reduce", "style": "all-reduce", "stream": 2, "phase": "backward", "layer": -1, "micro_batch": -1, "flops": 4, "bytes": 48, "network_bytes": 16, "allocates": 0, "frees": 0, "channel": "data"},
{"name": "c", "kind": "gelu", "style": "elementwise", "stream": 0, "phase": "update", "layer": -1, "micro_batch": -1, "flops": 48, "bytes": 32, "network_bytes": 0, "allocates": 16, "frees": 16},
{"name": "s", "kind": "all_reduce", "style": "all-reduce", "stream": 2, "phase": "forward", "layer": -1, "micro_batch": -1, "flops": 4, "bytes": 48, "network_bytes": 16, "allocates": 0, "frees": 16, "channel": "data"}
],
"edges": [
[0, 2],
[2, 3],
[3, 4],
[4, 0, 4, 1]
],
"ranks": [
{"rank": 2, "steps": [[7, 0, 100100]]}
]
},
"traceEvents": [
{"ph": "M", "name": "process_name", "pid": 3, "tid": 2999, "args": {"name": "rank 2"}},
{"ph": "M", "name": "process_sort_index", "pid": 3, "tid": 2999, "args": {"sort_index": 2}},
{"ph": "M", "name": "thread_name", "pid": 3, "tid": 2999, "args": {"name": "steps"}},
{"ph": "M", "name": "thread_sort_index", "pid": 3, "tid": 2999, "args": {"sort_index": 0}},
{"ph": "M", "name": "thread_name", "pid": 3, "tid": 2001, "args": {"name": "compute0"}},
{"ph": "M", "name": "thread_sort_index", "pid": 3, "tid": 2001, "args": {"sort_index": 1}},
{"ph": "M", "name": "thread_name", "pid": 3, "tid": 2002, "args": {"name": "compute1"}},
{"ph": "M", "name": "thread_sort_index", "pid": 3, "tid": 2002, "args": {"sort_index": 2}},
{"ph": "M", "name": "thread_name", "pid": 3, "tid": 2003, "args": {"name": "data"}},
{"ph": "M", "name": "thread_sort_index", "pid": 3, "tid": 2003, "args": {"sort_index": 3}},
{"ph": "X", "name": "ProfilerStep#7", "cat": "user_annotation", "pid": 3, "tid": 2999, "ts": 0.000, "dur": 100.100, "args": {"step": 7}},
{"ph": "X", "name": "mb0.L1.a \"<&>\"", "cat": "gemm", "pid": 3, "tid": 2001, "ts": 0.000, "dur": 40.040, "args": {"step": 7, "phase": "forward", "layer": 1, "micro_batch": 0, "stream": 1, "flops": 8, "bytes": 36, "reason": "as early as possible"}},
{"ph": "X", "name": "b", "cat": "select_row", "pid": 3, "tid": 2002, "ts": 30.030, "dur": 20.020, "args": {"step": 7, "phase": "forward", "layer": -1, "micro_batch": -1, "stream": 2, "flops": 0, "bytes": 32}},
{"ph": "X", "name": "r", "cat": "all_reduce", "pid": 3, "tid": 2003, "ts": 40.040, "dur": 30.030, "args": {"step": 7, "phase": "backward", "layer": -1, "micro_batch": -1, "stream": 3, "flops": 4, "bytes": 48, "network_bytes": 16, "Collective name": "all_reduce", "Process Group Name": "data"}},
{"ph": "X", "name": "c", "cat": "gelu", "pid": 3, "tid": 2001, "ts": 60.060, "dur": 20.020, "args": {"step": 7, "phase": "update", "layer": -1, "micro_batch": -1, "stream": 1, "flops": 48, "bytes": 32}},
{"ph": "X", "name": "s", "cat": "all_reduce", "pid": 3, "tid": 2003, "ts": 75.075, "dur": 25.025, "args": {"step": 7, "phase": "forward", "layer": -1, "micro_batch": -1, "stream": 3, "flops": 4, "bytes": 48, "network_bytes": 16, "Collective name": "all_reduce", "Process Group Name": "data"}},
{"ph": "s", "name": "wait", "cat": "wait", "id": 2000000001, "pid": 3, "tid": 2001, "ts": 40.039},
{"ph": "f", "name": "wait", "cat": "wait", "id": 2000000001, "pid": 3, "tid": 2003, "ts": 40.040, "bp": "e"},
{"ph": "s", "name": "wait", "cat": "wait", "id": 2000000002, "pid": 3, "tid": 2003, "ts": 60.060},
{"ph": "f", "name": "wait", "cat": "wait", "id": 2000000002, "pid": 3, "tid": 2001, "ts": 60.060, "bp": "e"},
{"ph": "s", "name": "wait", "cat": "wait", "id": 2000000003, "pid": 3, "tid": 2001, "ts": 75.075},
{"ph": "f", "name": "wait", "cat": "wait", "id": 2000000003, "pid": 3, "tid": 2003, "ts": 75.075, "bp": "e"},
{"ph": "C", "name": "scratch memory", "pid": 3, "ts": 0.000, "args": {"bytes": 16}},
{"ph": "C", "name": "scratch memory", "pid": 3, "ts": 30.030, "args": {"bytes": 32}},
{"ph": "C", "name": "scratch memory", "pid": 3, "ts": 50.050, "args": {"bytes": 16}},
{"ph": "C", "name": "scratch memory", "pid": 3, "ts": 60.060, "args": {"bytes": 32}},
{"ph": "C", "name": "scratch memory", "pid": 3, "ts": 80.080, "args": {"bytes": 16}},
{"ph": "C", "name": "scratch memory", "pid": 3, "ts": 100.100, "args": {"bytes": 0}},
{"ph": "C", "name": "in flight", "pid": 3, "ts": 0.000, "args": {"bytes": 0}},
{"ph": "C", "name": "in flight", "pid": 3, "ts": 40.040, "args": {"bytes": 16}},
{"ph": "C", "name": "in flight", "pid": 3, "ts": 70.070, "args": {"bytes": 0}},
{"ph": "C", "name": "in flight", "pid": 3, "ts": 75.075, "args": {"bytes": 16}},
{"ph": "C", "name": "in flight", "pid": 3, "ts": 100.100, "args": {"bytes": 0}}
]}
)GOLD");
  EXPECT_TRUE(nlohmann::json::accept(text));
  // HolisticTraceAnalysis finds the rank here.
  std::smatch match;
  ASSERT_TRUE(std::regex_search(text, match, std::regex("\"rank\":\\s+(\\d+)")));
  EXPECT_EQ(match[1], "2");
}

// Each rank names its own group, with the keys of PyTorch's profiler.
TEST(ChromeTrace, CollectivesNameTheirGroupWhereTheGridIsKnown) {
  const auto group = [](const graph::Grid& grid, int rank) {
    const std::vector<plan::RankTrace> traced = {{rank, {sample_step(0, 0, 1)}}};
    const auto json = nlohmann::json::parse(
        chrome_trace_json(plan::record(sample_plan(), traced, static_cast<int>(grid.ranks()), grid)));
    std::set<std::string> groups;
    for (const auto& event : json["traceEvents"]) {
      if (!event.contains("args")) continue;  // an arrow
      EXPECT_EQ(event["args"].contains("Process Group Ranks"), event["args"].contains("Collective name"));
      if (!event["args"].contains("Process Group Ranks")) continue;
      EXPECT_EQ(event["args"]["Group size"], grid.data);
      groups.insert(event["args"]["Process Group Ranks"].get<std::string>());
    }
    return groups;
  };
  EXPECT_EQ(group({2, 1, 1, 2}, 0), std::set<std::string>{"[0, 2]"});
  EXPECT_EQ(group({2, 1, 1, 2}, 3), std::set<std::string>{"[1, 3]"});
  const std::string many = *group({1, 1, 1, 64}, 5).begin();
  EXPECT_TRUE(many.starts_with("[0, 1, ") && many.ends_with("28, ...]")) << many;
}

TEST(ChromeTrace, NoRanksStepsOrTasksIsAFile) {
  const plan::Plan plan = sample_plan();
  EXPECT_TRUE(nlohmann::json::accept(chrome_trace_json(plan::record(plan, {}, 1))));
  EXPECT_TRUE(nlohmann::json::accept(one_rank(plan, {})));
  EXPECT_TRUE(nlohmann::json::accept(chrome_trace_json({})));
}

TEST(ChromeTrace, TimesKeepTheirNanosecondsBeyondWhatADoubleHolds) {
  const std::int64_t origin = std::numeric_limits<std::int64_t>::max() - 1'000'000'000'000;
  const std::string text =
      one_rank(sample_plan(), {sample_step(0, origin, 1), sample_step(1, origin + 900'000'000'001, 1)});
  EXPECT_NE(text.find("\"ts\": 900000000.001, \"dur\": 0.040"), std::string::npos);
}

TEST(ChromeTrace, RefusesTasksBeforeTheirStep) {
  plan::StepTrace trace = sample_step(0, 10, 1);
  trace.times[1][0].begin = 9;
  EXPECT_THROW(one_rank(sample_plan(), {trace}), std::logic_error);
}

TEST(ChromeTrace, RanksShareAnOriginAndNothingElse) {
  const std::vector<plan::RankTrace> traced = {{0, {sample_step(0, 1500, 1)}}, {1, {sample_step(0, 1000, 1)}}};
  const auto json = nlohmann::json::parse(chrome_trace_json(plan::record(sample_plan(), traced, 2)));
  std::map<int, std::set<int>> rows;
  std::map<int, double> first;
  std::map<std::int64_t, std::set<int>> processes_of_arrow;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "C") continue;  // counters belong to the process
    const int pid = event["pid"];
    rows[pid].insert(event["tid"].get<int>());
    if (event["name"] == "b") first[pid] = event["ts"];
    if (event.contains("id")) processes_of_arrow[event["id"].get<std::int64_t>()].insert(pid);
  }
  EXPECT_EQ(rows[1], (std::set<int>{1, 2, 3, 999}));
  EXPECT_EQ(rows[2], (std::set<int>{1001, 1002, 1003, 1999}));
  EXPECT_DOUBLE_EQ(first[1], 0.530);
  EXPECT_DOUBLE_EQ(first[2], 0.030);
  EXPECT_EQ(processes_of_arrow.size(), 2 * 3U);
  for (const auto& [id, processes] : processes_of_arrow) EXPECT_EQ(processes.size(), 1U) << id;
}

// Nanoseconds of "12.345".
std::int64_t nanoseconds(const std::string& line, const std::string& key) {
  std::smatch match;
  const std::regex number("\"" + key + "\": (\\d+)\\.(\\d{3})");
  EXPECT_TRUE(std::regex_search(line, match, number)) << line;
  return std::stoll(match[1]) * 1000 + std::stoll(match[2]);
}

TEST(ChromeTrace, SlicesOfARowNeitherCrossNorVanish) {
  const plan::Plan plan = sample_plan();
  plan::StepTrace first = sample_step(0, 0, 1), second = sample_step(1, 100, 1);
  first.times[0][0] = {5, 5};     // too short for the clock
  first.times[2][1] = {60, 100};  // posted before r was complete
  second.times[2][0] = {100, 100};
  second.times[2][1] = {100, 100};
  const std::string text = one_rank(plan, {first, second});
  std::map<std::string, std::int64_t> end_of_row;
  std::size_t slices = 0;
  const std::regex slice("\\{\"ph\": \"X\".*?\"tid\": (\\d+).*");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), slice); it != std::sregex_iterator(); ++it, ++slices) {
    const std::int64_t begin = nanoseconds((*it)[0], "ts"), length = nanoseconds((*it)[0], "dur");
    EXPECT_GE(begin, end_of_row[(*it)[1]]);
    EXPECT_GE(length, 1);
    end_of_row[(*it)[1]] = begin + length;
  }
  EXPECT_EQ(slices, 2 * 6U);
  EXPECT_TRUE(has_parts(text, {"\"ts\": 0.070, \"dur\": 0.030, \"args\": {\"step\": 0", "\"waited_ns\": 10"}));
}

TEST(ChromeTrace, EveryArrowHasItsOwnIdAndTwoEndsInsideSlices) {
  const plan::Plan plan = sample_plan();
  const std::string text = one_rank(plan, {sample_step(3, 0, 1), sample_step(4, 100, 1), sample_step(9, 500, 1)});
  const auto json = nlohmann::json::parse(text);
  std::set<std::int64_t> starts, ends;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "s") {
      EXPECT_TRUE(starts.insert(event["id"].get<std::int64_t>()).second);
    }
    if (event["ph"] == "f") {
      EXPECT_TRUE(ends.insert(event["id"].get<std::int64_t>()).second);
      EXPECT_EQ(event["bp"], "e");
    }
  }
  // Three waits within each step, and one of step 4 for step 3; step 9's predecessor isn't there.
  EXPECT_EQ(starts.size(), 3 * 3 + 1U);
  EXPECT_EQ(starts, ends);
}

}  // namespace
}  // namespace weft::inspect
