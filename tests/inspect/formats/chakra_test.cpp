// Chakra traces, read back by a reader of their own and compared with the plan.
#include "inspect/formats/chakra.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/analysis.h"
#include "tests/runtime/protobuf_walker.h"
#include "tests/runtime/random_graph.h"

namespace weft::inspect {
namespace {

using testing::all_of;
using testing::field_of;
using testing::ProtoField;

struct Node {
  std::uint64_t id = 0, type = 0, duration = 0;
  std::string name;
  std::vector<std::uint64_t> ctrl_deps, data_deps;
  std::map<std::string, std::uint64_t> numbers;
  std::map<std::string, std::string> texts;
};

std::vector<Node> read_trace(std::string_view text) {
  const std::string_view metadata = testing::take_bytes(text, testing::take_varint(text));
  EXPECT_EQ(field_of(metadata, 1).bytes, "0.0.4");
  std::vector<Node> nodes;
  while (!text.empty()) {
    const std::string_view bytes = testing::take_bytes(text, testing::take_varint(text));
    Node node;
    node.id = field_of(bytes, 1).value, node.type = field_of(bytes, 3).value, node.duration = field_of(bytes, 7).value;
    node.name = field_of(bytes, 2).bytes;
    node.ctrl_deps = testing::numbers_of(bytes, 4), node.data_deps = testing::numbers_of(bytes, 5);
    for (const ProtoField& attribute : all_of(bytes, 10)) {
      const std::string name(field_of(attribute.bytes, 1).bytes);
      const auto fields = testing::fields_of(attribute.bytes);
      EXPECT_EQ(fields.size(), 2U) << name;
      const ProtoField& value = fields.back();
      const std::map<std::string, std::uint32_t> types = {{"is_cpu_op", 27}, {"num_ops", 9},   {"tensor_size", 13},
                                                          {"comm_type", 9},  {"comm_size", 9}, {"pg_name", 29}};
      EXPECT_EQ(value.field, types.at(name)) << name;
      if (value.wire == 2) {
        node.texts[name] = value.bytes;
      } else {
        node.numbers[name] = value.value;
      }
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// a: product, then its gradients: reduce-scatter of 2 · 8 bf16, all-gather of 8, all-reduce of 5 fp32.
struct ChakraSample {
  graph::Grid grid{.x = 2, .z = 2};
  plan::Plan plan;
  std::vector<double> ns = {1'400'000, 700, 20'600, 3'000};

  ChakraSample() {
    graph::GraphBuilder builder(graph::Arguments::of_any_form);
    const auto tensor = [&](const char* name, DType dtype, std::int64_t elements) {
      return graph::whole(builder, builder.add_tensor({name, dtype, {elements}, graph::Role::activation}));
    };
    const graph::View big = tensor("big", DType::bf16, 16), part = tensor("part", DType::bf16, 8);
    const graph::View again = tensor("again", DType::bf16, 16), loss = tensor("loss", DType::f32, 5);
    builder.add_task({"a", graph::Gemm{4, 4, 8}, {graph::write(big), graph::write(loss)}});
    builder.add_task(
        {"scatter", graph::ReduceScatter{graph::Channel::z_scatter, 2, 8}, {graph::read(big), graph::write(part)}});
    builder.add_task(
        {"gather", graph::AllGather{graph::Channel::z_gather, 2, 8}, {graph::read(part), graph::write(again)}});
    builder.add_task({"sum", graph::AllReduce{graph::Channel::x, 2, 5}, {graph::read_write(loss)}});
    const auto graph = std::make_shared<const graph::Graph>(std::move(builder).build());
    plan = plan::make_plan(graph, testing::RandomPolicy(1).order(*graph, {}), "random");
  }
};

TEST(Chakra, NodesCarryWhatSimulatorsRead) {
  const ChakraSample sample;
  const std::vector<Node> nodes = read_trace(ChakraTraces({&sample.plan}, sample.grid, {sample.ns}).trace(3));
  ASSERT_EQ(nodes.size(), 4U);
  std::map<std::string, Node> by_name;
  for (const Node& node : nodes) by_name[node.name] = node;
  const graph::Work work = graph::work_of(*sample.plan.graph, sample.plan.graph->tasks()[0]);
  const Node &a = by_name.at("a"), &scatter = by_name.at("scatter"), &gather = by_name.at("gather");
  const Node& sum = by_name.at("sum");
  EXPECT_EQ(a.type, 4U);
  EXPECT_EQ(a.duration, 1400U);
  EXPECT_EQ(a.numbers.at("num_ops"), 2 * 4 * 4 * 8U);
  EXPECT_EQ(a.numbers.at("tensor_size"), static_cast<std::uint64_t>(work.bytes));
  EXPECT_EQ(a.numbers.at("is_cpu_op"), 0U);
  EXPECT_EQ(scatter.type, 7U);
  EXPECT_EQ(scatter.duration, 1U) << "never nothing";
  EXPECT_EQ(scatter.numbers.at("comm_type"), 7U);
  EXPECT_EQ(scatter.numbers.at("comm_size"), 16 * 2U) << "the whole input";
  EXPECT_EQ(gather.numbers.at("comm_type"), 2U);
  EXPECT_EQ(gather.numbers.at("comm_size"), 8 * 2U) << "what one rank gives";
  EXPECT_EQ(gather.duration, 21U);
  EXPECT_EQ(sum.numbers.at("comm_type"), 0U);
  EXPECT_EQ(sum.numbers.at("comm_size"), 5 * 4U);
  EXPECT_EQ(scatter.data_deps, std::vector<std::uint64_t>{a.id});
  EXPECT_EQ(gather.data_deps, std::vector<std::uint64_t>{scatter.id});
}

TEST(Chakra, GroupsNameTheMembersOfEachRank) {
  const ChakraSample sample;
  const ChakraTraces traces({&sample.plan}, sample.grid, {sample.ns});
  const nlohmann::json groups = nlohmann::json::parse(traces.groups());
  EXPECT_EQ(groups.size(), 6U);                                         // two each of x, z_gather and z_scatter
  std::map<std::string, std::map<std::string, std::set<int>>> members;  // by task and group
  for (int rank = 0; rank < 4; ++rank) {
    for (const Node& node : read_trace(traces.trace(rank))) {
      if (node.type == 7) members[node.name][node.texts.at("pg_name")].insert(rank);
    }
  }
  ASSERT_EQ(members.size(), 3U);
  for (const auto& [task, by_group] : members) {
    for (const auto& [group, ranks] : by_group) EXPECT_EQ(groups.at(group).get<std::set<int>>(), ranks) << task;
  }
  EXPECT_EQ(members.at("sum").begin()->second, (std::set<int>{0, 1}));
  EXPECT_EQ(members.at("gather").begin()->second, (std::set<int>{0, 2}));
}

TEST(Chakra, DependenciesAreThePlansOfRandomPlans) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const auto graph = testing::random_graph(seed);
    const plan::Plan plan = plan::make_plan(graph, testing::RandomPolicy(seed, 4).order(*graph, {}), "random");
    const graph::Grid grid{.x = 2, .z = 2, .data = 2};
    const auto nodes =
        read_trace(ChakraTraces({&plan}, grid, {std::vector<double>(graph->tasks().size(), 1000)}).trace(5));
    ASSERT_EQ(nodes.size(), plan.sequence.size());
    std::map<std::string, std::uint64_t> ids;
    std::map<std::uint32_t, std::uint64_t> last;
    std::vector<std::set<std::uint64_t>> data(nodes.size()), ctrl(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_EQ(nodes[i].id, i);
      EXPECT_EQ(nodes[i].name, graph->task(plan.sequence[i]).name);
      ids[nodes[i].name] = i;
      const std::uint32_t stream = plan.position[plan.sequence[i].index()].stream.value;
      if (last.contains(stream)) ctrl[i].insert(last.at(stream));
      last[stream] = i;
    }
    std::vector<graph::Edge> edges(graph->edges().begin(), graph->edges().end());
    edges.insert(edges.end(), plan.added_edges.begin(), plan.added_edges.end());
    for (const graph::Edge& edge : edges) {
      if (edge.distance > 0) continue;
      auto& deps = edge.kind == graph::EdgeKind::completes_before ? data : ctrl;
      deps[ids.at(graph->task(edge.to).name)].insert(ids.at(graph->task(edge.from).name));
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_EQ(std::set(nodes[i].data_deps.begin(), nodes[i].data_deps.end()), data[i]);
      EXPECT_EQ(std::set(nodes[i].ctrl_deps.begin(), nodes[i].ctrl_deps.end()), ctrl[i]);
      for (const std::uint64_t dep : nodes[i].data_deps) EXPECT_LT(dep, i);
    }
  }
}

}  // namespace
}  // namespace weft::inspect
