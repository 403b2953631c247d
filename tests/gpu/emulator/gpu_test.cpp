// The emulated GPU keeps the orders that CUDA promises, and no other.
#include "tests/gpu/emulator/gpu.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <set>
#include <string>
#include <vector>

namespace weft::emulator {
namespace {

class EmulatedGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    for (cudaStream_t& stream : streams_) cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
    for (cudaEvent_t& event : events_) cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  void TearDown() override {
    forget_error();
    for (cudaStream_t stream : streams_) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  void say(int stream, char what) {
    enqueue(streams_[stream], std::string(1, what), [this, what] { said_ += what; });
  }
  // The orders in which the work that `enqueue` makes runs, over many seeds.
  std::set<std::string> orders_of(const std::function<void()>& enqueue) {
    std::set<std::string> orders;
    for (std::uint64_t seed = 0; seed < 64; ++seed) {
      set_seed(seed);
      said_.clear();
      enqueue();
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      orders.insert(said_);
    }
    return orders;
  }

  cudaStream_t streams_[3] = {};
  cudaEvent_t events_[2] = {};
  std::string said_;
};

TEST_F(EmulatedGpu, AStreamKeepsItsOrderAndStreamsHaveNone) {
  EXPECT_EQ(orders_of([&] { say(0, 'a'), say(0, 'b'), say(1, 'c'); }), (std::set<std::string>{"abc", "acb", "cab"}));
}

TEST_F(EmulatedGpu, AnEventOrdersStreams) {
  EXPECT_EQ(orders_of([&] {
              say(0, 'a');
              cudaEventRecord(events_[0], streams_[0]);
              say(0, 'b');
              cudaStreamWaitEvent(streams_[1], events_[0], 0);
              say(1, 'c');
            }),
            (std::set<std::string>{"abc", "acb"}));
}

TEST_F(EmulatedGpu, NothingRunsBeforeSomebodyWaits) {
  say(0, 'a');
  EXPECT_EQ(said_, "");
  cudaEventRecord(events_[0], streams_[0]);
  EXPECT_EQ(cudaEventQuery(events_[0]), cudaErrorNotReady);
  EXPECT_EQ(said_, "a");
  EXPECT_EQ(cudaEventSynchronize(events_[0]), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(events_[0]), cudaSuccess);
}

TEST_F(EmulatedGpu, AGraphHasTheEdgesOfItsCapture) {
  const auto capture = [&](bool join) {
    cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal);
    say(0, 'a');
    cudaEventRecord(events_[0], streams_[0]);
    cudaStreamWaitEvent(streams_[1], events_[0], 0);
    say(1, 'b');
    say(0, 'c');
    cudaEventRecord(events_[1], streams_[1]);
    if (join) cudaStreamWaitEvent(streams_[0], events_[1], 0);
    say(0, 'd');
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamWaitEvent(streams_[2], events_[0], 0), cudaSuccess);  // joins, and has nothing to do
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(streams_[0], &graph), join ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    return graph;
  };
  EXPECT_EQ(capture(false), nullptr);
  const cudaGraph_t graph = capture(true);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(orders_of([&] {
              say(0, '<');
              cudaGraphLaunch(executable, streams_[0]);
              say(0, '>');
            }),
            (std::set<std::string>{"<abcd>", "<acbd>"}));
  cudaGraphExecDestroy(executable);
}

TEST_F(EmulatedGpu, TheFirstFailureAnswersEveryLaterCall) {
  enqueue(streams_[0], "broken", [] { throw std::logic_error("no such thing"); });
  say(0, 'a');
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorLaunchFailure);
  EXPECT_EQ(said_, "");
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorLaunchFailure);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorLaunchFailure), "no such thing");
}

TEST_F(EmulatedGpu, RefusesKernelsThatNoGpuWouldStart) {
  const auto start = [&](dim3 blocks, dim3 threads, std::size_t shared) {
    return enqueue_kernel(streams_[0], "k", blocks, threads, shared, [] {});
  };
  EXPECT_EQ(start({1, 1, 1}, {1024, 1, 1}, kSharedBytes), cudaSuccess);
  EXPECT_EQ(start({1, 1, 1}, {32, 33, 1}, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start({0, 1, 1}, {32, 1, 1}, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start({1, 70000, 1}, {32, 1, 1}, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(start({1, 1, 1}, {32, 1, 1}, kSharedBytes + 1), cudaErrorInvalidConfiguration);
}

TEST_F(EmulatedGpu, MemoryEnds) {
  void *some = nullptr, *more = nullptr;
  ASSERT_EQ(cudaMalloc(&some, kMemoryBytes - 100), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 200), cudaErrorMemoryAllocation);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 100U);
  EXPECT_EQ(cudaFree(some), cudaSuccess);
  EXPECT_EQ(cudaFree(&total), cudaErrorInvalidValue);
}

// Two ranks of one thread.
class EmulatedNccl : public EmulatedGpu {
 protected:
  void SetUp() override {
    EmulatedGpu::SetUp();
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(ncclCommInitRankConfig(&ranks_[rank], 2, id, rank, &config), rank == 0 ? ncclInProgress : ncclSuccess);
    }
  }
  void TearDown() override {
    for (ncclComm_t rank : ranks_) ncclCommAbort(rank);
    EmulatedGpu::TearDown();
  }

  ncclComm_t ranks_[2] = {};
  std::vector<float> in_[2] = {{1, 2, 3, 4}, {10, 20, 30, 40}},
                     out_[2] = {std::vector<float>(8), std::vector<float>(8)};
};

TEST_F(EmulatedNccl, MovesOnceAllHaveCome) {
  ncclAllGather(in_[0].data(), out_[0].data(), 4, ncclFloat32, ranks_[0], streams_[0]);
  while (run_one()) {
  }
  EXPECT_EQ(out_[0][0], 0);
  ncclAllGather(in_[1].data(), out_[1].data(), 4, ncclFloat32, ranks_[1], streams_[1]);
  ncclAllReduce(in_[0].data(), in_[0].data(), 4, ncclFloat32, ncclSum, ranks_[0], streams_[0]);
  ncclAllReduce(in_[1].data(), in_[1].data(), 4, ncclFloat32, ncclSum, ranks_[1], streams_[1]);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(out_[0], (std::vector<float>{1, 2, 3, 4, 10, 20, 30, 40}));
  EXPECT_EQ(out_[1], out_[0]);
  EXPECT_EQ(in_[0], (std::vector<float>{11, 22, 33, 44}));
  EXPECT_EQ(in_[1], in_[0]);
  ncclReduceScatter(out_[0].data(), in_[0].data(), 4, ncclFloat32, ncclSum, ranks_[0], streams_[0]);
  ncclReduceScatter(out_[1].data(), in_[1].data(), 4, ncclFloat32, ncclSum, ranks_[1], streams_[1]);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(in_[0], (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(in_[1], (std::vector<float>{20, 40, 60, 80}));
}

TEST_F(EmulatedNccl, RanksMustAgree) {
  ncclAllReduce(in_[0].data(), in_[0].data(), 4, ncclFloat32, ncclSum, ranks_[0], streams_[0]);
  ncclAllReduce(in_[1].data(), in_[1].data(), 3, ncclFloat32, ncclSum, ranks_[1], streams_[1]);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(in_[0][0], 1);
}

}  // namespace
}  // namespace weft::emulator
