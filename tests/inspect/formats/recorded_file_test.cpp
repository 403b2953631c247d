// A recording is read back as it was written; a contradiction is refused with its place.
#include "inspect/formats/recorded_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "base/error.h"
#include "base/files/input_file.h"
#include "inspect/formats/chrome_trace.h"
#include "runtime/simulate/simulator.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/links.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/trace_sample.h"

namespace weft::inspect {
namespace {

using testing_sample::sample_plan;
using testing_sample::sample_step;

/// Two ranks of three, two steps, one of which has an overlap of a row, an empty task and a gap in its numbers.
plan::Recording sample_on_a_grid() {
  plan::StepTrace late = sample_step(9, 5'000'000'000, 17);
  late.times[2][1].begin = late.times[2][0].begin;
  late.times[1][0].end = late.times[1][0].begin;
  const std::vector<plan::RankTrace> ranks = {{0, {sample_step(7, 4'000'000'000, 11), late}},
                                              {2, {sample_step(7, 4'000'000'123, 11), late}}};
  plan::Recording recording =
      plan::record(sample_plan(), ranks, 3,
                   graph::Grid{.x = 3, .order = {graph::Axis::z, graph::Axis::x, graph::Axis::y, graph::Axis::data}});
  recording.plan_fingerprint = 0xfedcba9876543210U;
  recording.tasks[0].flops = 0.1;
  return recording;
}

std::string refusal(const std::string& text) {
  return testing::message_of<UserError>([&] { parse_recording(text, "t.json"); });
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

TEST(RecordedFile, ReadsWhatIsWritten) {
  const plan::Recording recording = sample_on_a_grid();
  for (const bool kineto : {false, true}) {
    const std::string text = chrome_trace_json(recording, {.kineto_names = kineto});
    EXPECT_EQ(parse_recording(text, "t.json"), recording);
    EXPECT_EQ(chrome_trace_json(parse_recording(text, "t.json"), {.kineto_names = kineto}), text);
  }
  EXPECT_EQ(parse_recording(chrome_trace_json({}), "t.json"), plan::Recording());
  plan::Recording with_thread = recording;
  with_thread.streams.front().compute = false;
  with_thread.streams.front().local = true;
  EXPECT_EQ(parse_recording(chrome_trace_json(with_thread), "t.json"), with_thread);
}

TEST(RecordedFile, ReadsTheStepsOfRandomPlans) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto graph = testing::random_graph(seed);
    const plan::Plan plan = plan::make_plan(graph, testing::RandomPolicy(seed, 5).order(*graph, {}), "random");
    cost::TaskCosts costs;
    for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
      costs.ns.push_back(static_cast<double>(i * 37 % 11) * 100);
      costs.cpu_ns.push_back(0);
    }
    simulate::SimulationOptions options;
    options.grid = {.x = 2, .z = 2, .data = 2};
    options.steps = 3;
    options.noise = 0.3;
    const simulate::Simulation simulation = testing::simulate_plan(plan, costs, cost::Machine(), options);
    std::vector<plan::RankTrace> ranks;
    for (const simulate::SimulatedRank& rank : simulation.ranks) ranks.push_back({rank.rank, rank.steps});
    const plan::Recording recording = plan::record(plan, ranks, 8, options.grid);
    ASSERT_EQ(recording.ranks.size(), 8U);
    EXPECT_EQ(parse_recording(chrome_trace_json(recording), "t.json"), recording) << "seed " << seed;
  }
}

TEST(RecordedFile, ReadsItAlsoWhenAnotherProgramHasWrittenItAnew) {
  const plan::Recording recording = sample_on_a_grid();
  std::string text = chrome_trace_json(recording);
  for (const std::string blank : {"\": ", ", \""}) {
    const std::string wide = blank == "\": " ? "\" :\t\n " : "\r\n ,\"";
    for (std::size_t at = 0; (at = text.find(blank, at)) != std::string::npos; at += wide.size()) {
      text.replace(at, blank.size(), wide);
    }
  }
  EXPECT_EQ(parse_recording(text, "t.json"), recording);
}

TEST(RecordedFile, ReadsPackedFilesAndNamesBrokenOnes) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path("weft_trace.json.gz").string();
  const plan::Recording recording = sample_on_a_grid();
  const std::string text = chrome_trace_json(recording);
  std::string packed;
  GzipPacker packer([&](std::string_view piece) { packed += piece; });
  packer.write(std::string_view(text).substr(0, 1000));
  packer.write(std::string_view(text).substr(1000));
  packer.finish();
  EXPECT_LT(packed.size(), text.size() / 4);
  const auto write = [&](std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  write(packed);
  EXPECT_EQ(read_recording(path), recording);
  write(text);
  EXPECT_EQ(read_recording(path), recording);
  write(packed.substr(0, packed.size() / 2));
  EXPECT_THROW(read_recording(path), UserError);
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
  write(packed);
  EXPECT_THROW(read_recording(path), UserError);
  EXPECT_THROW(read_recording(path + ".missing"), UserError);
  EXPECT_THROW(read_recording(folder.path()), UserError);
}

TEST(RecordedFile, TruncationsAreRefused) {
  const std::string text = chrome_trace_json(sample_on_a_grid());
  for (std::size_t length = 0; length + 2 < text.size(); length += 7) {
    EXPECT_NE(refusal(text.substr(0, length)), "") << length;
  }
}

TEST(RecordedFile, RefusesWhatContradictsItselfWithItsPlace) {
  const std::string text = chrome_trace_json(sample_on_a_grid());
  const auto expect = [&](const std::string& what, const std::string& with,
                          std::initializer_list<std::string_view> parts) {
    EXPECT_TRUE(has_parts(refusal(replaced(text, what, with)), parts));
  };
  expect("\"version\": 1", "\"version\": 2", {"line 6", "a trace of version 2", "expected version 1"});
  expect("\"version\": 1", "\"version\": \"1\"", {"found '\"'", "an integer"});
  expect("\"policy\": \"by <hand>\"", "\"policy\": 4", {"line 7", "a text in quotes"});
  expect("{\"name\": \"b\"", "{\"name\": \"r\"", {"two tasks are called 'r'"});
  expect("{\"name\": \"b\", \"kind\"", "{\"name\": \"b\", \"name\"", {"\"name\" stands twice"});
  expect("\"kind\": \"gelu\", ", "", {"without \"kind\""});
  expect("\"style\": \"GEMM\"", "\"style\": \"gem\"", {"found \"gem\""});
  expect("\"stream\": 0", "\"stream\": 3", {"found 3", "from 0 to 2"});
  expect("\n[0, 2]", "\n[2, 0]", {"an edge from 'r' to 'mb0.L1.a \"<&>\"'", "cycle"});
  expect("\n[0, 2]", "\n[2, 2]", {"cycle"});
  expect("\n[0, 2]", "\n[0, 5]", {"found 5", "from 0 to 4"});
  expect("\n[0, 2]", "\n[0]", {"fewer than two"});
  expect("{\"rank\": 2, \"steps\"", "{\"rank\": 0, \"steps\"", {"rank 0 after rank 0"});
  expect("[9, 1", "[7, 1", {"step 7 after step 7"});
  expect("\"ts\": 0.330", "\"ts\": 0.3301", {"found 0.3301", "three decimals"});
  expect("\"ts\": 0.330", "\"ts\": 99.330", {"runs outside of step 7"});
  expect("\"ts\": 0.330", "\"ts\": -0.330", {"microseconds"});
  expect("\"ts\": 0.330", "\"ts\": 9223372036854775.808", {"microseconds"});
  expect("\"args\": {\"step\": 7, \"phase\"", "\"args\": {\"step\": 8, \"phase\"", {"an event of step 8"});
  expect("\"args\": {\"step\": 9, \"phase\"", "\"args\": {\"step\": 7, \"phase\"", {"runs twice"});
  expect("\"pid\": 3, \"tid\": 2001, \"ts\": 0", "\"pid\": 2, \"tid\": 2001, \"ts\": 0", {"an event of rank 1"});
  expect("{\"ph\": \"X\", \"name\": \"b\"", "{\"ph\": \"X\", \"name\": \"bb\"", {"a slice called 'bb'"});
  expect("{\"ph\": \"X\", \"name\": \"b\"", "{\"ph\": \"i\", \"name\": \"b\"",
         {"task 'b' doesn't run in step 7 of rank 0"});
  expect("\"weft\": {", "\"other\": {", {"no \"weft\" before"});
  expect("\n]}\n", "\n]} {\n", {"after the document"});
  EXPECT_NE(refusal("").find("breaks off"), std::string::npos);
  EXPECT_NE(refusal("[]").find("an object"), std::string::npos);
}

TEST(RecordedFile, DeepNestingIsRefusedWhereItPasses64) {
  const std::string message = refusal("{\"deep\": " + std::string(1'000'000, '['));
  EXPECT_NE(message.find("line 1 byte 73: values nest more than 64 deep"), std::string::npos) << message;
  EXPECT_NE(refusal("{\"deep\": " + std::string(64, '[') + std::string(64, ']') + "}").find("without \"weft\""),
            std::string::npos);
}

// A short file can't ask for the memory of a long one.
TEST(RecordedFile, StepsWithoutRoomForTheirEventsAreRefused) {
  std::string tasks, steps;
  for (int i = 0; i < 1000; ++i) {
    tasks +=
        (i > 0 ? "," : "") + std::string("{\"name\": \"t") + std::to_string(i) +
        R"(","kind":"add","style":"GEMM","stream":0,"phase":"forward","layer":0,"micro_batch":0,"flops":0,"bytes":0,)" +
        R"("network_bytes":0,"allocates":0,"frees":0})";
  }
  std::string events;
  for (int i = 0; i < 1000; ++i) {
    steps += (i > 0 ? "," : "") + std::string("[") + std::to_string(i) + ",0,9]";
    events += (i > 0 ? "," : "") +
              std::string(R"({"ph":"X","name":"t0","cat":"","pid":1,"ts":0,"dur":0,"args":{"step":)") +
              std::to_string(i) + "}}";
  }
  const std::string message = refusal(
      R"({"weft":{"version":1,"policy":"","world":1,"state_bytes":0,"plan_fingerprint":"0x0000000000000000",)"
      R"("origin_ns":0,"streams":[{"name":"s","compute":true}],"tasks":[)" +
      tasks + R"(],"edges":[],"ranks":[{"rank":0,"steps":[)" + steps + R"(]}]},"traceEvents":[)" + events + "]}");
  EXPECT_NE(message.find("more tasks and steps than the file has room for"), std::string::npos) << message;
}

}  // namespace
}  // namespace weft::inspect
