#include "runtime/plan/stream.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/runtime/toy_graph.h"

namespace weft {
namespace {

TEST(Streams, AreComputeStreamsThenUsedChannelsInOrderOfTheEnumeration) {
  testing::ToyGraph toy;
  const View a = toy.tensor("a", 8, Role::parameter);
  toy.collective("world", Channel::world, {read_write(a)});
  toy.collective("scatter", Channel::z_scatter, {read_write(a)});
  toy.collective("x", Channel::x, {read_write(a)});
  const auto graph = toy.build();
  const std::vector<Stream> streams = streams_of(*graph, 2);
  const std::vector<Stream> expected = {{"compute0", true, Channel::world},
                                        {"compute1", true, Channel::world},
                                        {"x", false, Channel::x},
                                        {std::string(to_string(Channel::z_scatter)), false, Channel::z_scatter},
                                        {"world", false, Channel::world}};
  EXPECT_EQ(streams, expected);
  EXPECT_EQ(stream_of_channel(streams, Channel::world), StreamId(std::size_t{4}));
  EXPECT_FALSE(stream_of_channel(streams, Channel::y).valid());
}

TEST(Streams, NeedAtLeastOneComputeStream) {
  testing::ToyGraph toy;
  const auto graph = toy.build();
  EXPECT_THROW(streams_of(*graph, 0), UserError);
  EXPECT_EQ(streams_of(*graph, 1).size(), 1U);
}

}  // namespace
}  // namespace weft
