// `weft trace` and the Chakra export as processes, over a run that really happened and a simulated run.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/base/messages.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

using nlohmann::json;

class TraceCommand : public testing::SmallStep {
 protected:
  void simulate(const std::string& policy, const std::string& output) const {
    testing::succeeded(
        weft("simulate", {"--grid", "x=2,z=2", "--simulated-steps", "2", "--policy", policy, "-o", output}));
  }
  void train(const Words& more) const {
    testing::succeeded(weft("train", testing::joined({"--steps", "4", "--run-dir", "run", "--quiet"}, more)));
  }
  testing::CommandResult trace(const Words& words) const { return run(testing::joined({"trace"}, words)); }
  std::string trace_text() const { return read("run/trace.json"); }
};

TEST_F(TraceCommand, CheckHoldsForRealRunsAndTheirConfiguration) {
  for (const std::vector<std::string>& how : std::vector<std::vector<std::string>>{
           {"--ranks", "2"}, {"--grid", "x=2,z=2", "--policy", "axonn"}, {"--ranks", "2", "--policy", "serial"}}) {
    std::filesystem::remove_all(folder_.path("run"));
    train(how);
    const testing::CommandResult result = testing::succeeded(trace({"check", "run"}));
    EXPECT_TRUE(has_parts(result.output, {"the trace keeps its plan", "compiles to the same plan", " 0 violations"}));
  }
}

// A task of the file is moved before a task that it waits for.
TEST_F(TraceCommand, CheckNamesWhatATamperedTraceViolates) {
  train({"--ranks", "2"});
  std::string text = trace_text();
  // The first collective, which sums results of computations, begins with its step.
  const std::size_t event = text.find("\"Collective name\"");
  ASSERT_NE(event, std::string::npos);
  const std::size_t line = text.rfind('\n', event) + 1, ts = text.find("\"ts\": ", line) + 6;
  const std::size_t comma = text.find(',', ts);
  const std::string begin = text.substr(ts, comma - ts);
  const std::size_t dot = begin.find('.');
  const long long ns = std::stoll(begin.substr(0, dot)) * 1000 + std::stoll(begin.substr(dot + 1));
  const json meta = json::parse(text).at("weft").at("ranks").at(0).at("steps").at(0);
  const long long early = meta.at(1).get<long long>();
  ASSERT_GT(ns, early);
  text.replace(ts, begin.size(), std::to_string(early / 1000) + "." + std::to_string(1000 + early % 1000).substr(1));
  folder_.write("tampered.json", text);
  const testing::CommandResult result = trace({"check", "tampered.json"});
  EXPECT_EQ(result.exit_code, 3) << result.output << result.errors;
  EXPECT_TRUE(has_parts(result.output, {"THE TRACE VIOLATES ITS PLAN", "rank 0, step "}));
  const json figures = json::parse(trace({"check", "tampered.json", "--json"}).output);
  EXPECT_FALSE(figures.at("holds").get<bool>());
  EXPECT_GT(figures.at("violations").get<int>(), 0);
}

TEST_F(TraceCommand, CheckNamesAPlanThatTheConfigurationNoLongerGives) {
  train({"--ranks", "2", "--policy", "serial"});
  std::string config = read("run/config.toml");
  const std::size_t at = config.find("\"serial\"");
  ASSERT_NE(at, std::string::npos) << config;
  folder_.write("run/config.toml", config.replace(at, 8, "\"program\""));
  const testing::CommandResult result = trace({"check", "run"});
  EXPECT_EQ(result.exit_code, 3) << result.output;
  EXPECT_TRUE(has(result.output, "compiles to another plan")) << result.output;
}

TEST_F(TraceCommand, SummaryAndDiffTellOfRanksAndKinds) {
  simulate("serial", "a.json");
  simulate("axonn", "b.json.gz");
  const testing::CommandResult text = testing::succeeded(trace({"summary", "a.json"}));
  EXPECT_TRUE(
      has_parts(text.output, {"policy serial", "rank 0, step 1", "gemm", "all_reduce", "exposed", "% overlapped"}));
  const json all = object_of({"trace", "summary", "b.json.gz", "--all-steps"});
  EXPECT_EQ(all.at("policy"), "axonn");
  EXPECT_EQ(all.at("steps").size(), 2U);
  const json changes = object_of({"trace", "diff", "a.json", "b.json.gz"});
  EXPECT_EQ(changes.at("policy_a"), "serial");
  const json& exposed = changes.at("sums").at(3);
  EXPECT_EQ(exposed.at("name"), "exposed");
  EXPECT_LE(exposed.at("b_ns").get<double>(), exposed.at("a_ns").get<double>());
  EXPECT_TRUE(has(trace({"diff", "a.json", "b.json.gz", "--most", "2"}).output, "tasks that changed most"));
}

TEST_F(TraceCommand, ExportsForOtherTools) {
  train({"--ranks", "2"});
  testing::succeeded(trace({"export", "run", "--format", "kineto", "-o", "ranks"}));
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = "ranks/rank_" + std::to_string(rank) + ".json";
    const std::string text = read(name);
    EXPECT_TRUE(has_parts(text, {"\"rank\": " + std::to_string(rank), "\"name\": \"ncclKernel:"}));
    const json summary = object_of({"trace", "summary", name});
    EXPECT_EQ(summary.at("steps").at(0).at("rank"), rank);
  }
  testing::succeeded(trace({"export", "run", "--format", "perfetto", "-o", "all.pftrace"}));
  EXPECT_EQ(read("all.pftrace").at(0), '\x0a');
  testing::succeeded(trace({"export", "run", "--format", "chrome", "-o", "again.json"}));
  EXPECT_EQ(read("again.json"), trace_text());
  testing::succeeded(trace({"export", "run", "--format", "chrome", "-o", "again.json.gz"}));
  testing::succeeded(trace({"check", "again.json.gz"}));
}

TEST_F(TraceCommand, ExportsChakraTracesOfARun) {
  train({"--grid", "x=2,z=2"});
  const auto chakra = [&](const Words& more) {
    return run(testing::joined({"export", "run", "--format", "chakra"}, more));
  };
  const testing::CommandResult result = testing::succeeded(chakra({"-o", "et"}));
  EXPECT_TRUE(has(result.output, "4 of 4 ranks")) << result.output;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string text = read("et/step." + std::to_string(rank) + ".et");
    EXPECT_EQ(text.substr(0, 8), std::string("\x07\x0a\x05") + "0.0.4");
  }
  EXPECT_TRUE(read_json("et/groups.json").at("1").is_array());
  EXPECT_EQ(chakra({"-o", "et"}).exit_code, 2) << "nothing is overwritten";
  EXPECT_EQ(chakra({"-o", "two", "--ranks-written", "2"}).exit_code, 0);
  EXPECT_TRUE(exists("two/step.1.et"));
  EXPECT_FALSE(exists("two/step.2.et"));
}

TEST_F(TraceCommand, ImportsATraceOfPyTorch) {
  folder_.write("rank0.json", R"({"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 10, "dur": 2, "pid": 1, "tid": 1, "args": {"correlation": 5}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 15, "dur": 50, "pid": 0, "tid": 7, "args": {"stream": 7, "correlation": 5}}]})");
  const testing::CommandResult result =
      testing::succeeded(trace({"import", "rank0.json", "-o", "step.graph.json", "--json"}));
  const json report = json::parse(result.output);
  EXPECT_EQ(report.at("file"), "step.graph.json");
  EXPECT_EQ(report.at("ranks").at(0).at("recorded_ns"), 55'000);
  EXPECT_EQ(report.at("ranks").at(0).at("replayed_ns"), 55'000);
  const json graph = read_json("step.graph.json");
  EXPECT_EQ(graph.at("source"), "kineto");
  EXPECT_EQ(graph.at("world"), 2);
  EXPECT_TRUE(has_parts(trace({"import", "rank0.json"}).output, {"replayed ms", "No step is marked"}));
  EXPECT_FALSE(has(trace({"import", "rank0.json", "--whole"}).output, "No step is marked")) << "as was asked";
  EXPECT_TRUE(has(trace({"import", "rank0.json", "--step", "3"}).errors, "marks no steps"));
  expect_refusal({"trace", "import", "rank0.json", "--step", "3", "--whole"}, {});
  expect_refusal({"trace", "import", "rank0.json", "--step", "3", "--from-ms", "1"}, {});
  expect_refusal({"trace", "import", "rank0.json", "--from-ms", "3", "--to-ms", "3"}, {});
  expect_refusal({"trace", "import", "rank0.json", "-o", "step.json"}, {});
  expect_refusal({"trace", "import", "text.txt"}, {});
}

TEST_F(TraceCommand, RefusesWhatItCannotRead) {
  folder_.write("empty.json", "");
  folder_.write("other.json", "{\"traceEvents\": []}");
  std::filesystem::create_directory(folder_.path("no_run"));
  for (const char* file : {"missing.json", "empty.json", "other.json", "text.txt", "no_run"}) {
    for (const char* command : {"summary", "check"}) {
      expect_refusal({"trace", command, file}, {file});
    }
  }
  expect_refusal({"trace", "import", "empty.json"}, {"'empty.json' is empty"});
  expect_refusal({"trace", "import", "other.json"}, {"'other.json'", "operators of CPU threads"});
  simulate("serial", "a.json");
  EXPECT_EQ(trace({}).exit_code, 2);
  EXPECT_TRUE(has(trace({"sumary", "a.json"}).errors, "did you mean summary?"));
  EXPECT_TRUE(has(trace({"summary", "a.json", "--all-step"}).errors, "did you mean --all-steps?"));
  expect_refusal({"trace", "diff", "a.json"}, {});
  expect_refusal({"trace", "export", "a.json", "--format", "svg", "-o", "x"}, {});
  expect_refusal({"trace", "export", "a.json", "--format", "kineto", "-o", "."}, {});
  expect_refusal({"trace", "export", "a.json", "--format", "chrome", "-o", "no/such/folder.json"}, {});
}

}  // namespace
}  // namespace weft::tools
