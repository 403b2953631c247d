// Classes of kernels as Holistic Trace Analysis has them, kinds of collectives, and short names.
#include "inspect/import/device_class.h"

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

}  // namespace
}  // namespace weft::inspect
