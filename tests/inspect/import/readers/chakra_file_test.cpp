// Chakra's traces of several schemas as steps: dependencies as they stand, and the ones that converters drop.
#include "inspect/import/readers/chakra_file.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "base/error.h"
#include "inspect/formats/protobuf.h"
#include "inspect/import/step_replay.h"
#include "runtime/simulate/open_problem.h"
#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

struct NodeText {
  std::uint64_t id;
  std::string name;
  std::uint64_t type;           // 4: computation, 7: collective
  std::uint64_t begin, length;  // microseconds
  std::vector<std::uint64_t> data = {}, control = {};
  bool host = false;
  std::uint64_t stream = 0;  // 0: not told
};

std::string attribute(std::string_view name, std::uint32_t field, std::uint64_t value) {
  return std::string(ProtoMessage().text(1, name).varint(field, value).bytes());
}

std::string chakra_text(std::initializer_list<NodeText> nodes) {
  std::string out = ProtoMessage().text(1, "0.0.4").delimited();
  for (const NodeText& node : nodes) {
    ProtoMessage one;
    one.varint(1, node.id).text(2, node.name).varint(3, node.type);
    one.packed(4, node.control).packed(5, node.data).varint(6, node.begin).varint(7, node.length);
    one.text(10, attribute("is_cpu_op", 27, node.host ? 1 : 0));
    if (node.stream > 0) one.text(10, attribute("stream", 9, node.stream));
    if (node.type == 7) {
      one.text(10, attribute("comm_type", 9, 0)).text(10, attribute("comm_size", 9, 4000));
      one.text(10, ProtoMessage().text(1, "pg_name").text(29, "3").bytes());
    }
    out += one.delimited();
  }
  return out;
}

ChakraFile parsed_chakra(const std::string& text) {
  return parse_chakra(text_source(text), "trace.0.et");
}

struct ImportedChakra {
  RecoveredStep step;
  graph::OpenGraph graph;
  const graph::OpenEdge* edge(const std::string& from, const std::string& to) const {
    const auto& tasks = step.graph.tasks;
    for (const graph::OpenEdge& edge : step.graph.edges) {
      if (tasks[edge.from].name == from && tasks[edge.to].name == to) return &edge;
    }
    return nullptr;
  }
};

ImportedChakra imported_chakra(const std::string& text) {
  TraceChannels channels(1);
  ImportedChakra out{chakra_step(parsed_chakra(text), channels), {}};
  out.graph.classes = {out.step.graph};
  out.graph.channels = std::move(channels).channels();
  graph::check(out.graph);
  return out;
}

TEST(ChakraFileOfRank, IsReadWithItsRank) {
  const ChakraFile file = parsed_chakra(chakra_text({{7, "gemm", 4, 10, 20, {}, {}, false, 7}}));
  EXPECT_EQ(file.rank, 0);
  ASSERT_EQ(file.nodes.size(), 1U);
  EXPECT_EQ(file.nodes[0].id, 7U);
  EXPECT_EQ(file.nodes[0].type, ChakraType::computation);
  EXPECT_EQ(file.nodes[0].begin_ns, 10'000);
  EXPECT_EQ(file.nodes[0].ns, 20'000);
  EXPECT_EQ(file.nodes[0].stream, 7);
}

TEST(ChakraFileOfRank, IsReadInTheOldestSchema) {
  const std::string text =
      ProtoMessage().varint(1, 0).text(2, "a").varint(3, 3).varint(7, 5).varint(12, 99).delimited() +
      ProtoMessage().varint(1, 1).text(2, "b").varint(3, 6).varint(4, 0).varint(13, 3).varint(18, 64).delimited();
  const ChakraFile file = parsed_chakra(text);
  ASSERT_EQ(file.nodes.size(), 2U);
  EXPECT_EQ(file.nodes[0].flops, 99);
  EXPECT_EQ(file.nodes[0].ns, 5'000);
  EXPECT_EQ(file.nodes[1].type, ChakraType::collective);
  EXPECT_EQ(file.nodes[1].comm_type, 2) << "all_gather";
  EXPECT_EQ(file.nodes[1].data_deps, std::vector<std::uint64_t>{0});
}

TEST(ChakraStep, HasTheDependenciesOfTheFile) {
  const ImportedChakra step = imported_chakra(chakra_text(
      {{1, "a", 4, 0, 10}, {2, "reduce", 7, 10, 30, {1}}, {3, "b", 4, 10, 5, {1}}, {4, "c", 4, 40, 5, {2}, {3}}}));
  ASSERT_EQ(step.step.graph.edges.size(), 4U);
  EXPECT_EQ(step.edge("a", "reduce")->source, graph::EdgeSource::given);
  EXPECT_EQ(step.edge("b", "c")->kind, graph::EdgeKind::completes_before);
  EXPECT_EQ(step.step.graph.recorded_ns, 45'000);
  EXPECT_EQ(replay_steps(step.graph).at(0).length(), 45'000);
  EXPECT_EQ(step.graph.channels.at(0).name, "group 3");
  EXPECT_EQ(step.step.graph.tasks[1].operation, "all_reduce");
}

TEST(ChakraStep, AddsThePredecessorsThatConvertersDrop) {
  // As in issue 215: kernels depend on the host's operators that launched them and on nothing else.
  const ImportedChakra step = imported_chakra(chakra_text({{1, "aten::mm", 4, 0, 10, {}, {}, true},
                                                           {2, "record_param_comms", 4, 10, 10, {1}, {}, true},
                                                           {3, "sgemm", 4, 5, 100, {1}, {}, false, 7},
                                                           {4, "nccl", 7, 105, 50, {2}, {}, false, 20},
                                                           {5, "aten::add", 4, 20, 10, {2}, {}, true},
                                                           {6, "add", 4, 105, 10, {5}, {}, false, 7},
                                                           {7, "nccl", 7, 155, 50, {5}, {}, false, 20}}));
  ASSERT_NE(step.edge("sgemm", "add"), nullptr);
  EXPECT_EQ(step.edge("sgemm", "add")->source, graph::EdgeSource::stream);
  EXPECT_EQ(step.edge("nccl", "nccl#1")->source, graph::EdgeSource::stream);
  EXPECT_EQ(step.edge("sgemm", "nccl"), nullptr) << "of another stream";
  EXPECT_EQ(step.edge("aten::mm", "sgemm")->source, graph::EdgeSource::launch);
  EXPECT_EQ(step.edge("aten::mm", "sgemm")->after_begin_ns, std::nullopt) << "the operator is cut there";
  ASSERT_NE(step.edge("aten::mm", "rest of aten::mm, 1"), nullptr);
  EXPECT_TRUE(has_parts(step.step.notes.at(0), {"2 edges between neighbours on a stream"}));
}

/// The operator launches its kernel after 10 us and goes on until 100, and the next one begins then.
TEST(ChakraStep, TakesAsLongInASimulationAsInItsReplay) {
  const ImportedChakra step = imported_chakra(chakra_text({{1, "aten::mm", 4, 0, 100, {}, {}, true},
                                                           {2, "sgemm", 4, 10, 200, {1}, {}, false, 7},
                                                           {3, "aten::add", 4, 100, 50, {}, {1}, true},
                                                           {4, "add", 4, 210, 20, {3}, {}, false, 7}}));
  EXPECT_EQ(replay_steps(step.graph).at(0).length(), 230'000);
  const simulate::Report report =
      simulate::report_plan(simulate::open_problem(step.graph, {}), policy::named_policy("recorded"));
  EXPECT_EQ(report.step_ns(), 230'000);
}

TEST(ChakraStep, LeavesOutDependenciesOnLaterWork) {
  const ImportedChakra step = imported_chakra(chakra_text({{1, "a", 4, 0, 10, {2}}, {2, "b", 4, 20, 10}}));
  EXPECT_TRUE(step.step.graph.edges.empty());
  EXPECT_TRUE(has_parts(step.step.notes.at(0), {"1 dependencies go from later to earlier work"}));
}

TEST(ChakraStep, RefusesWhatIsNoStep) {
  const auto refusal = [](const std::string& text) {
    return testing::message_of<UserError>([&] { imported_chakra(text); });
  };
  EXPECT_TRUE(has_parts(refusal(""), {"trace.0.et", "empty"}));
  EXPECT_TRUE(has_parts(refusal(chakra_text({})), {"no nodes"}));
  EXPECT_TRUE(has_parts(refusal(chakra_text({{1, "a", 4, 0, 0, {9}}})), {"node 1 ('a')", "node 9"}));
  EXPECT_TRUE(has_parts(refusal(chakra_text({{1, "a", 4, 0, 0}, {1, "b", 4, 0, 0}})), {"the number 1"}));
  EXPECT_TRUE(has_parts(refusal(chakra_text({{1, "a", 4, 5, 0, {2}}, {2, "b", 4, 5, 0, {1}}})), {"itself"}));
  const std::string text = chakra_text({{1, "a", 4, 0, 10}});
  for (std::size_t length = 1; length < text.size(); ++length) {
    const std::string message = refusal(text.substr(0, length));
    const char* expected = length == 8 ? "has no nodes" : "byte";
    EXPECT_TRUE(has_parts(message, {"trace.0.et", expected})) << length;
  }
  EXPECT_TRUE(has_parts(refusal("plain text that is no trace"), {"byte", "Chakra execution trace"}));
}

}  // namespace
}  // namespace weft::inspect
