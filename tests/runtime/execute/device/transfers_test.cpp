// Transfers to the device before a run and back after it.
#include "runtime/execute/device/transfers.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/execute/device/fake_device.h"
#include "tests/runtime/toy_graph.h"

namespace weft::execute {
namespace {

TEST(Transfers, InputsGoThereAndWrittenScalarsComeBack) {
  testing::ToyGraph toy;
  const graph::View in = toy.tensor("in", 3, graph::Role::input), unused = toy.tensor("unused", 3, graph::Role::input);
  const graph::View loss = toy.tensor("loss", 1, graph::Role::scalar),
                    weight = toy.tensor("weight", 3, graph::Role::parameter);
  toy.compute("a", {graph::read(in), graph::read(weight), graph::write(loss)});
  const auto graph = toy.build();
  const State state(std::vector<const graph::Graph*>{graph.get()});
  const auto device = testing::make_fake_device();
  std::byte* const on_device = device->allocate(state.bytes());
  const Transfers transfers = find_transfers(*graph, state, on_device, *device);
  EXPECT_EQ(graph->tensor(unused.tensor).name, "unused");
  ASSERT_EQ(transfers.uploads.parts.size(), 2U);
  ASSERT_EQ(transfers.downloads.parts.size(), 1U);
  EXPECT_EQ(transfers.uploads.parts[0].host, state.data("in"));
  EXPECT_EQ(transfers.uploads.parts[0].device, on_device + state.offset("in"));
  EXPECT_EQ(transfers.uploads.parts[0].bytes, 12);
  EXPECT_EQ(transfers.downloads.parts[0].host, state.data("loss"));
}

TEST(Transfers, ACopyHoldsWhatTheHostHad) {
  testing::ToyGraph toy;
  const graph::View in = toy.tensor("in", 2, graph::Role::input), other = toy.tensor("other", 1, graph::Role::input);
  toy.compute("a", {graph::read(in), graph::read(other), graph::write(in), graph::write(other)});
  const auto graph = toy.build();
  const State state(std::vector<const graph::Graph*>{graph.get()});
  const auto device = testing::make_fake_device();
  const Transfers transfers = find_transfers(*graph, state, device->allocate(state.bytes()), *device);
  const auto write_all = [&](float first) {
    state.get<float>("in")[0] = first;
    state.get<float>("in")[1] = first + 1;
    state.get<float>("other")[0] = first + 2;
  };
  write_all(1);
  collect(transfers.uploads, 0);
  write_all(10);
  collect(transfers.uploads, 1);
  write_all(0);
  deliver(transfers.uploads, 0);
  EXPECT_EQ(state.get<float>("in")[1], 2);
  EXPECT_EQ(state.get<float>("other")[0], 3);
  deliver(transfers.uploads, 1);
  EXPECT_EQ(state.get<float>("in")[0], 10);
  EXPECT_EQ(state.get<float>("other")[0], 12);
}

}  // namespace
}  // namespace weft::execute
