#include "runtime/plan/order.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

TEST(Streams, AreComputeStreamsThenUsedChannelsInOrderOfTheEnumeration) {
  testing::ToyGraph toy;
  const graph::View a = toy.tensor("a", 8, graph::Role::parameter);
  toy.collective("world", graph::Channel::world, {graph::read_write(a)});
  toy.collective("scatter", graph::Channel::z_scatter, {graph::read_write(a)});
  toy.collective("x", graph::Channel::x, {graph::read_write(a)});
  const auto graph = toy.build();
  const std::vector<Stream> streams = streams_of(*graph, 2);
  const std::vector<Stream> expected = {
      {"compute0", true, graph::Channel::world},
      {"compute1", true, graph::Channel::world},
      {"x", false, graph::Channel::x},
      {std::string(graph::to_string(graph::Channel::z_scatter)), false, graph::Channel::z_scatter},
      {"world", false, graph::Channel::world}};
  EXPECT_EQ(streams, expected);
  EXPECT_EQ(stream_of_channel(streams, graph::Channel::world), StreamId(std::size_t{4}));
  EXPECT_FALSE(stream_of_channel(streams, graph::Channel::y).valid());
}

TEST(Streams, NeedAtLeastOneComputeStream) {
  testing::ToyGraph toy;
  const auto graph = toy.build();
  EXPECT_THROW(streams_of(*graph, 0), UserError);
  EXPECT_EQ(streams_of(*graph, 1).size(), 1U);
}

}  // namespace
}  // namespace weft::plan
