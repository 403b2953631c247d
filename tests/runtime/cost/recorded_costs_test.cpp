// Costs of opaque tasks with other bandwidths.
#include "runtime/cost/recorded_costs.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/opaque_graph.h"
#include "tests/base/messages.h"
#include "tests/graph/open_graph_sample.h"

namespace weft::cost {
namespace {

constexpr std::size_t kUp = 1, kSum = 4;  // tasks of the sample

TaskCosts costs_with(const std::vector<NamedFactor>& factors, std::optional<Machine> machine = {},
                     std::optional<double> link_ns = {}) {
  graph::OpenGraph open = testing::sample_open_graph();
  open.classes[0].tasks[kSum].link_ns = link_ns;
  return recorded_costs(std::move(machine), DType::bf16, factors)->costs(graph::opaque_graph(open, 0));
}

TEST(Bandwidth, IsOfTheTimeInWhichBytesAreSent) {
  EXPECT_DOUBLE_EQ(costs_with({{"*", 2}}).ns[kSum], 600);
  EXPECT_DOUBLE_EQ(costs_with({{"tp", 2}, {"t*", 2}}).ns[kSum], 300);
  EXPECT_DOUBLE_EQ(costs_with({{"*", 2}}).ns[kUp], 1000);
  const TaskCosts shared = costs_with({{"tp", 4}}, {}, 800.0);
  EXPECT_DOUBLE_EQ(shared.ns[kSum], 400 + 200) << "400 of it are latency";
  EXPECT_DOUBLE_EQ(shared.link_ns[kSum], 200);
  EXPECT_DOUBLE_EQ(shared.beside_ns[kSum], 600);
}

TEST(Bandwidth, LeavesAMachinesLatency) {
  Machine machine;
  machine.node.latency = 2e-7;
  machine.node.setup = 1e-7;
  machine.devices_per_node = 2;
  EXPECT_DOUBLE_EQ(costs_with({{"tp", 3}}, machine).ns[kSum], 300 + 300);
  machine.node.latency = 1;
  EXPECT_DOUBLE_EQ(costs_with({{"tp", 3}}, machine).ns[kSum], 1200) << "latency alone";
}

TEST(Bandwidth, IsAFactor) {
  EXPECT_EQ(parse_bandwidth("2").pattern, "*");
  EXPECT_EQ(parse_bandwidth("a=b=0.5").pattern, "a=b");
  EXPECT_EQ(parse_bandwidth("a=b=0.5").factor, 0.5);
  for (const char* wrong : {"", "x", "0", "-1", "=2", "a=", "a=1e7", "a=nan"}) {
    EXPECT_TRUE(testing::has_parts(testing::message_of<UserError>([&] { parse_bandwidth(wrong); }), {"--bandwidth"}))
        << wrong;
  }
  EXPECT_TRUE(testing::has_parts(testing::message_of<UserError>([] { costs_with({{"dp", 2}}); }), {"dp", "tp"}));
}

}  // namespace
}  // namespace weft::cost
