// Phases, layers and micro-batches in the names of marks.
#include "inspect/import/device_trace.h"

#include <gtest/gtest.h>

namespace weft::inspect {
namespace {

TEST(MarkWords, TellPhases) {
  EXPECT_EQ(place_in_name("DistributedDataParallel.forward").phase, graph::Phase::forward);
  EXPECT_EQ(place_in_name("## backward ##").phase, graph::Phase::backward);
  EXPECT_EQ(place_in_name("autograd::engine::evaluate_function: AddmmBackward0").phase, graph::Phase::backward);
  EXPECT_EQ(place_in_name("Optimizer.step#SGD.step").phase, graph::Phase::update);
  EXPECT_FALSE(place_in_name("Optimizer.zero_grad#SGD.zero_grad").phase);
  EXPECT_FALSE(place_in_name("aten::add").phase);
}

TEST(MarkWords, TellLayersAndMicroBatches) {
  EXPECT_EQ(place_in_name("model.layers.13.mlp").layer, 13);
  EXPECT_EQ(place_in_name("Block_3 forward").layer, 3);
  EXPECT_EQ(place_in_name("player 3").layer, -1);
  EXPECT_EQ(place_in_name("layer_norm").layer, -1);
  EXPECT_EQ(place_in_name("microbatch 2").micro_batch, 2);
  EXPECT_EQ(place_in_name("mb0.L3").micro_batch, 0);
  EXPECT_EQ(place_in_name("layers.99999999999").layer, 999999);
}

TEST(MarkWords, HoldForTheCallsBelowThem) {
  DeviceTrace trace;
  const auto mark = [&](std::int64_t begin, std::int64_t end, std::int64_t thread, const char* name) {
    trace.marks.push_back({begin, end, thread, trace.names.number(name)});
  };
  mark(0, 100, 7, "forward");
  mark(10, 50, 7, "layer 3");
  mark(60, 90, 7, "backward of layer 2");
  for (const std::int64_t begin : {5, 20, 70, 95, 120}) trace.calls.push_back({.begin = begin, .thread = 7});
  trace.calls.push_back({.begin = 130, .thread = 8});
  const std::vector<MarkedPlace> places = places_of_calls(trace);
  EXPECT_EQ(places[0].phase, graph::Phase::forward);
  EXPECT_EQ(places[0].layer, -1);
  EXPECT_EQ(places[1].layer, 3);
  EXPECT_EQ(places[2].phase, graph::Phase::backward);
  EXPECT_EQ(places[2].layer, 2);
  EXPECT_EQ(places[3].layer, -1);
  EXPECT_FALSE(places[4].phase);
  EXPECT_FALSE(places[5].phase);
}

}  // namespace
}  // namespace weft::inspect
