// Classes of kernels as Holistic Trace Analysis has them, kinds of collectives, and short names; phases, layers and
// micro-batches in the names of marks.
#include "inspect/import/device_trace.h"

#include <gtest/gtest.h>

namespace weft::inspect {
namespace {

TEST(DeviceClassOfName, FollowsHolisticTraceAnalysis) {
  EXPECT_EQ(device_class("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"), DeviceClass::communication);
  EXPECT_EQ(device_class("hcclAllReduce"), DeviceClass::communication);
  EXPECT_EQ(device_class("void my::ncclKernelCopy()"), DeviceClass::communication);
  EXPECT_EQ(device_class("Memcpy DtoH (Device -> Pinned)"), DeviceClass::memory);
  EXPECT_EQ(device_class("Memset (Device)"), DeviceClass::memory);
  EXPECT_EQ(device_class("dma_copy"), DeviceClass::memory);
  EXPECT_EQ(device_class("Stream Wait Sync"), DeviceClass::other);
  EXPECT_EQ(device_class("fusedMemcpyKernel"), DeviceClass::other);
  EXPECT_EQ(device_class("ampere_sgemm_128x64_tn"), DeviceClass::compute);
}

TEST(DeviceClassOfName, KnowsCollectivesInEverySpelling) {
  EXPECT_EQ(collective_kind("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), "all_reduce");
  EXPECT_EQ(collective_kind("ncclKernel_ReduceScatter_RING_LL_Sum_half"), "reduce_scatter");
  EXPECT_EQ(collective_kind("_allgather_base"), "all_gather");
  EXPECT_EQ(collective_kind("nccl:all_to_all"), "all_to_all");
  EXPECT_EQ(collective_kind("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)"), "send_receive");
  EXPECT_EQ(collective_kind("broadcast"), "broadcast");
  EXPECT_EQ(collective_kind("ncclDevKernel_Generic"), "");
}

TEST(DeviceClassOfName, ShortensNames) {
  EXPECT_EQ(short_kernel_name("void at::native::vectorized_elementwise_kernel<4, at::AUnary<float, int>, "
                              "at::detail::Array<char*, 2> >(int, float)"),
            "vectorized_elementwise_kernel");
  EXPECT_EQ(short_kernel_name("void (anonymous namespace)::softmax_warp_forward<float>(float*)"),
            "softmax_warp_forward");
  EXPECT_EQ(short_kernel_name("ampere_sgemm_128x64_tn"), "ampere_sgemm_128x64_tn");
  EXPECT_EQ(short_kernel_name("Memcpy DtoD (Device -> Device)"), "memcpy_dtod");
  EXPECT_EQ(short_kernel_name("Memset (Device)"), "memset");
  EXPECT_EQ(short_kernel_name("<<<"), "<<<");
}

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
