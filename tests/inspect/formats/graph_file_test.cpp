// Open graphs are read back as they were written; what can't be a step is refused with its place.
#include "inspect/formats/graph_file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::inspect {
namespace {

/// Every member of every part with another value than the default.
constexpr std::string_view kWholeGraph = R"({"format": "weft-graph", "version": 1,
"name": "tiny \"x\"", "source": "kineto", "world": 4,
"notes": [
  "Costs of rank 2 are guessed.",
  "None is absent."],
"channels": [
 {"name": "z", "group_size": 2, "groups": [[0, 1], [2, 3]], "link": "wire"},
 {"name": "data"}],
"contention": {"compute_streams": 2, "shared_cores": 1.5,
 "slowdowns": [
  {"compute": "gemm", "collective": "all_reduce", "factor": 1.25},
  {"factor": 1.5}]},
"classes": [
 {"name": "first", "ranks": [0, 1], "recorded_ns": 1234567.5, "edges_from_accesses": false,
  "streams": [
   {"name": "compute"},
   {"name": "thread 12", "host": true},
   {"name": "z", "channel": 0}],
  "tensors": [
   {"name": "L0.w", "bytes": 4096, "outlives_step": true, "role": "optimizer_state"},
   {"name": "L0.y", "bytes": 0}],
  "tasks": [
   {"name": "mb0.L0.qkv", "operation": "gemm", "stream": 0, "ns": 1000.5, "begin_ns": 0, "end_ns": 1000.5, "flops": 2e+30, "bytes": 1000000, "reads": [0], "writes": [1], "layer": 0, "micro_batch": 0, "phase": "forward"},
   {"name": "mb0.L0.ar", "kind": "collective", "operation": "all_reduce", "stream": 2, "channel": 0, "sequence": 4, "ns": 5, "beside_ns": 7, "link_ns": 3, "cpu_ns": 2, "network_bytes": 0.1, "updates": [1], "phase": "update"},
   {"name": "send", "kind": "send", "channel": 1, "peer": 3, "message": 6},
   {"name": "receive", "kind": "receive", "channel": 1, "peer": 3, "phase": "backward"},
   {"name": "copy", "kind": "copy"},
   {"name": "launch", "kind": "host", "stream": 1}],
  "edges": [
   {"from": 0, "to": 1, "kind": "issued_before", "source": "launch", "confidence": 0.9, "after_begin_ns": 4000},
   {"from": 0, "to": 2, "source": "synchronisation"},
   {"from": 1, "to": 2, "source": "stream"},
   {"from": 1, "to": 3, "source": "pairing"},
   {"from": 1, "to": 4, "source": "times"},
   {"from": 1, "to": 5}]},
 {"name": "second",
  "tasks": [
   {"name": "only"}]}]}
)";

std::string written_graph(const graph::OpenGraph& graph) {
  std::string text;
  write_graph(graph, [&](std::string_view piece) { text += piece; });
  return text;
}

std::string graph_refusal(std::string_view text) {
  return testing::message_of<UserError>([&] { parse_graph_file(text, "g"); });
}

/// The refusal of a graph of one class with these members.
std::string class_refusal(std::string_view members) {
  return graph_refusal(
      R"({"format": "weft-graph", "version": 1, "world": 2, "channels": [{"name": "c"}], "classes": [{)" +
      std::string(members) + "}]}");
}

TEST(GraphFile, RefusesGroupsThatContradictThemselves) {
  const auto refusal = [](const std::string& world, const std::string& channel, const std::string& classes) {
    return graph_refusal(R"({"format": "weft-graph", "version": 1)" + world + R"(, "channels": [{"name": "c", )" +
                         channel + R"(}], "classes": [)" + classes + "]}");
  };
  const std::string one = R"({"tasks": [{"name": "t"}]})";
  struct Wrong {
    std::string world, channel, classes, part;
  };
  const std::string four = R"(, "world": 4)";
  for (
      const Wrong& wrong : std::vector<Wrong>{
          {four, R"("group_size": 2, "groups": [[0, 1, 2]])", one, "has 3 ranks, and group_size is 2"},
          {four, R"("group_size": 2, "groups": [[1, 1]])", one, "rank 1 stands in a group twice"},
          {four, R"("group_size": 2, "groups": [[2, 4]])", one, "rank 4 doesn't exist"},
          {four, R"("group_size": 2, "groups": [[-1, 0]])", one, "found -1"},
          {four, R"("group_size": 8)", one, "groups of 8 ranks, and world is 4"},
          {four, R"("group_size": 0)", one, "found 0"},
          {four, R"("group_size": 2)", R"({"ranks": [0, 4], "tasks": [{"name": "t"}]})", "rank 4 doesn't exist"},
          {four, R"("group_size": 2)",
           R"({"name": "a", "ranks": [0], "tasks": [{"name": "t"}]}, {"name": "b", "ranks": [0], "tasks": [{"name": "t"}]})",
           "rank 0 is in two classes"},
          {R"(, "world": 0)", R"("group_size": 2)", one, "found 0"}}) {
    const std::string message = refusal(wrong.world, wrong.channel, wrong.classes);
    EXPECT_NE(message.find(wrong.part), std::string::npos) << message;
  }
  // A world that isn't told, groups that share ranks (messages, ranks that stand for classes) and parts of groups load.
  EXPECT_EQ(refusal("", R"("group_size": 8)", one), "");
  EXPECT_EQ(refusal(four, R"("group_size": 2, "groups": [[0, 1], [1, 2], [0]])", one), "");
}

TEST(GraphFile, WritesWhatItReads) {
  const graph::OpenGraph graph = parse_graph_file(kWholeGraph, "g");
  EXPECT_EQ(written_graph(graph), kWholeGraph);
  EXPECT_EQ(graph.world, 4);
  EXPECT_EQ(graph.channels[0].groups[1], (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(graph.contention->compute_streams, 2);
  EXPECT_EQ(graph.contention->shared_cores, 1.5);
  EXPECT_EQ(graph.contention->slowdowns[0].compute, "gemm");
  EXPECT_EQ(graph.contention->slowdowns[1].factor, 1.5);
  const graph::OpenClass& first = graph.classes[0];
  EXPECT_EQ(first.recorded_ns, 1234567.5);
  EXPECT_TRUE(first.streams[1].host);
  EXPECT_TRUE(first.tensors[0].outlives_step);
  EXPECT_EQ(first.tasks[0].ns, 1000.5);
  EXPECT_EQ(first.tasks[0].accesses[1].mode, graph::AccessMode::write);
  EXPECT_EQ(first.tasks[1].kind, graph::OpenKind::collective);
  EXPECT_EQ(first.tasks[1].accesses[0].mode, graph::AccessMode::read_write);
  EXPECT_FALSE(first.tasks[1].begin_ns);
  EXPECT_EQ(first.edges[0].after_begin_ns, 4000);
  EXPECT_EQ(first.edges[0].kind, graph::EdgeKind::issued_before);
  EXPECT_EQ(first.edges[3].source, graph::EdgeSource::pairing);
  EXPECT_EQ(graph.classes[1].tasks[0].stream, -1);
}

TEST(GraphFile, IsPackedByItsName) {
  const testing::TemporaryFolder folder;
  const graph::OpenGraph graph = parse_graph_file(kWholeGraph, "g");
  write_graph_file(folder.path("a.graph.json"), graph);
  write_graph_file(folder.path("a.graph.json.gz"), graph);
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a.graph.json")), kWholeGraph);
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("a.graph.json.gz")).substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(written_graph(read_graph_file(folder.path("a.graph.json.gz"))), kWholeGraph);
  EXPECT_TRUE(is_graph_file("x/a.graph.json"));
  EXPECT_TRUE(is_graph_file("a.graph.json.gz"));
  EXPECT_FALSE(is_graph_file("a.json"));
  EXPECT_FALSE(is_graph_file(".graph.json"));
}

TEST(GraphFile, RefusesOtherFiles) {
  EXPECT_TRUE(has_parts(graph_refusal(R"({"format": "weft.graph", "version": 1})"),
                        {"g line 1", "another format", "weft-graph"}));
  EXPECT_TRUE(has_parts(graph_refusal(R"({"format": "weft-graph", "version": 2, "classes": []})"),
                        {"version 2", "expected version 1"}));
  EXPECT_TRUE(has_parts(graph_refusal(R"({"classes": []})"), {"without \"format\""}));
  EXPECT_TRUE(has_parts(graph_refusal(kWholeGraph.substr(0, 900)), {"breaks off"}));
  EXPECT_TRUE(has_parts(graph_refusal(R"({"format": "weft-graph", "version": 1})"), {"g: ", "no classes"}));
}

TEST(GraphFile, RefusesWrongMembersWithTheirLine) {
  EXPECT_TRUE(has_parts(class_refusal("\"tasks\": [\n{\"name\": \"a\", \"kind\": \"gemm\"}]"),
                        {"line 2", "gemm", "compute", "collective", "host"}));
  EXPECT_TRUE(has_parts(class_refusal(R"("tasks": [{"kind": "host"}])"), {"without \"name\""}));
  EXPECT_TRUE(has_parts(class_refusal(R"("tasks": [{"name": "a", "ns": -1}])"), {"found -1", "not negative"}));
  EXPECT_TRUE(has_parts(class_refusal(R"("tensors": [{"name": "a"}])"), {"without \"bytes\""}));
  EXPECT_TRUE(has_parts(class_refusal(R"("edges": [{"from": 0}])"), {"without \"to\""}));
}

TEST(GraphFile, RefusesContentionThatNoMachineHas) {
  const auto refusal = [](std::string_view contention) {
    return graph_refusal(R"({"format": "weft-graph", "version": 1, "contention": )" + std::string(contention) +
                         R"(, "classes": [{"tasks": [{"name": "a"}]}]})");
  };
  EXPECT_EQ(refusal(R"({"slowdowns": [{"factor": 1}]})"), "");
  EXPECT_NE(refusal(R"({"slowdowns": [{"factor": 0.5}]})"), "");
  EXPECT_NE(refusal(R"({"slowdowns": [{"compute": "gemm"}]})"), "");
  EXPECT_NE(refusal(R"({"shared_cores": 0})"), "");
  EXPECT_NE(refusal(R"({"compute_streams": 0})"), "");
}

}  // namespace
}  // namespace weft::inspect
