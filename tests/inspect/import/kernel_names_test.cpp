// What kernels' names tell: classes as Holistic Trace Analysis has them and of libraries that it doesn't know, kinds of
// collectives, and short names that tell kernels apart.
#include "inspect/import/kernel_names.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"

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

TEST(DeviceClassOfName, KnowsLibrariesOfCollectives) {
  const auto kind = [](std::string_view name) { return communication_of(name, {}).value_or("computes"); };
  EXPECT_EQ(kind("void deep_ep::internode::dispatch<false, 8>(int4*)"), "all_to_all");
  EXPECT_EQ(kind("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)"), "all_to_all");
  EXPECT_EQ(kind("void deep_ep::intranode::barrier<8>(int**, int)"), "barrier");
  EXPECT_EQ(kind("void nvshmem_alltoall_kernel(int)"), "all_to_all");
  EXPECT_EQ(kind("nvshmemi_proxy_quiet"), "");
  EXPECT_EQ(kind("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(int)"), "all_reduce");
  EXPECT_EQ(kind("void sglang::cross_device_reduce_2stage<half, 4>(RankData*)"), "all_reduce");
  EXPECT_EQ(kind("multimem_all_reduce_kernel"), "all_reduce");
  EXPECT_EQ(kind("void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 8>(int)"), "all_reduce");
  EXPECT_EQ(kind("void trtllm::allreduce_fusion_kernel_oneshot_lamport<8>(int)"), "all_reduce");
  EXPECT_EQ(kind("void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8>(Params)"), "all_reduce");
  EXPECT_EQ(kind("void flashinfer::trtllm_alltoall::moeAllToAllKernel(int)"), "all_to_all");
}

TEST(DeviceClassOfName, OfComputationsIsNotTakenForCommunication) {
  for (const char* name :
       {"hipLaunchedKernel", "hipblaslt_gemm", "void deep_ep::layout::get_dispatch_layout<256>(long*)",
        "void fused_softmax_with_block_all_reduce<float>(float*)", "blockAllReduceSum", "void warpAllReduce<4>(float*)",
        "void cutlass::device_kernel<cutlass::gemm::collective::CollectiveMma<int> >(P)", "expandmask_kernel",
        "void at::native::dispatch_and_combine(float*)", "void moe::scatter_tokens(int)", "gather_kernel",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(X)"}) {
    EXPECT_EQ(device_class(name), DeviceClass::compute) << name;
    EXPECT_FALSE(communication_of(name, {})) << name;
  }
}

TEST(CommunicationRules, MatchPartsOrWholeNames) {
  const CommunicationRule part = parse_communication_rule("exchange"),
                          whole = parse_communication_rule("my_*=broadcast");
  EXPECT_EQ(communication_of("token_exchange_kernel", {part, whole}), "");
  EXPECT_EQ(communication_of("my_allgather", {part, whole}), "broadcast");
  EXPECT_EQ(communication_of("my_exchange_all_gather_kernel", {part, whole}), "all_gather") << "the first rule";
  EXPECT_FALSE(communication_of("not_my_kernel", {part, whole}));
  EXPECT_TRUE(matches(parse_communication_rule("k?rnel*a"), "karnel_xxa_a"));
  EXPECT_FALSE(matches(parse_communication_rule("k?rnel*a"), "krnel_a"));
  EXPECT_TRUE(refuses([] { parse_communication_rule("x=reduction"); }, {"x=reduction", "all_to_all"}));
  EXPECT_TRUE(refuses([] { parse_communication_rule("=all_reduce"); }, {"PATTERN"}));
}

TEST(CommunicationRules, AreWantedForDoubtfulNames) {
  EXPECT_TRUE(looks_like_communication("void my::gemm_allreduce_fused(int)"));
  EXPECT_TRUE(looks_like_communication("void fused<EpilogueWithAllGather<4> >(int)"));
  EXPECT_TRUE(looks_like_communication("rdma_put_tokens"));
  EXPECT_FALSE(looks_like_communication("warpAllReduce"));
  EXPECT_FALSE(looks_like_communication("ncclDevKernel_AllReduce")) << "it counts as one";
  EXPECT_FALSE(looks_like_communication("void cutlass::gemm::collective::mma(int)"));
}

using Names = std::vector<std::string>;

TEST(KernelNames, KeepWhatTellsKernelsApart) {
  EXPECT_EQ(telling_kernel_names({"void cutlass::device_kernel<flash::FlashAttnBwd<X> >(P)",
                                  "void cutlass::device_kernel<GemmKernel<Y> >(P)",
                                  "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128>(P)",
                                  "void cutlass::Kernel2<cutlass_80_wmma_fprop>(P)"}),
            (Names{"device_kernel<FlashAttnBwd>", "device_kernel<GemmKernel>",
                   "Kernel<cutlass_80_tensorop_s1688gemm_128x128>", "Kernel2<cutlass_80_wmma_fprop>"}));
  EXPECT_EQ(
      telling_kernel_names(
          {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, "
           "3ul> "
           ">(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
           "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, "
           "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int)",
           "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, "
           "at::native::binary_internal::DivFunctor<float> >, std::array<char*, 2ul> >(int)",
           "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::"
           "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}, "
           "std::array<char*, 2ul> >(int)"}),
      (Names{"vectorized_elementwise_kernel<CUDAFunctor_add>",
             "vectorized_elementwise_kernel<AUnaryFunctor,MulFunctor>",
             "vectorized_elementwise_kernel<AUnaryFunctor,DivFunctor>",
             "vectorized_elementwise_kernel<direct_copy_kernel_cuda>"}));
}

TEST(KernelNames, StayShortWhereTheyTellEnough) {
  EXPECT_EQ(telling_kernel_names({"void at::native::vectorized_elementwise_kernel<4, at::AUnary<float> >(int)",
                                  "ampere_sgemm_128x64_tn", "Memset (Device)"}),
            (Names{"vectorized_elementwise_kernel", "ampere_sgemm_128x64_tn", "memset"}));
  EXPECT_EQ(telling_kernel_names({"void f<4, float>(int)", "void f<8, double>(int)"}), (Names{"f", "f"}))
      << "one function for two types";
}

}  // namespace
}  // namespace weft::inspect
