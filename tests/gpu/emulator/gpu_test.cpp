// The emulated GPU keeps the orders that CUDA guarantees, and no others.
#include "tests/gpu/emulator/gpu.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/emulator/block.h"

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
  // The orders in which the enqueued work runs, over many seeds.
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
    EXPECT_EQ(cudaStreamWaitEvent(streams_[2], events_[0], 0), cudaSuccess);  // joins the capture without any work
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

TEST_F(EmulatedGpu, AGraphRecordsEventsOfItsOwn) {
  cudaEvent_t from = nullptr, to = nullptr;
  cudaEventCreate(&from);
  cudaEventCreate(&to);
  EXPECT_EQ(cudaEventRecordWithFlags(to, streams_[0], cudaEventRecordExternal), cudaErrorInvalidValue);
  forget_error();
  cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal);
  cudaEventRecordWithFlags(from, streams_[0], cudaEventRecordExternal);
  say(0, 'a');
  cudaEventRecordWithFlags(to, streams_[0], cudaEventRecordExternal);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidResourceHandle);
  forget_error();
  cudaGraphLaunch(executable, streams_[0]);
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, from, to), cudaSuccess);
  EXPECT_GE(ms, 0);
  cudaGraphExecDestroy(executable);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
}

// A kernel that is launched early may begin before the kernel right before it in its stream has ended; never before a
// copy, or a kernel of another stream.
TEST_F(EmulatedGpu, AnEarlyKernelBeginsBeforeTheLastOneEnds) {
  const auto kernel = [&](int stream, const std::function<void()>& body, KernelStart how) {
    EXPECT_EQ(enqueue_kernel(streams_[stream], "kernel", {1, 1, 1}, {1, 1, 1}, 0, body, how), cudaSuccess);
  };
  const auto plain = [&](int stream) {
    kernel(
        stream, [this] { said_ += 'k'; }, KernelStart::in_order);
  };
  const auto early = [&](int stream) {
    kernel(
        stream, [this] { said_ += '(', await_earlier(), said_ += ')'; }, KernelStart::early);
  };
  using Orders = std::set<std::string>;
  EXPECT_EQ(orders_of([&] { plain(0), early(0); }), (Orders{"k()", "(k)"}));
  EXPECT_EQ(orders_of([&] { early(0), early(0); }), (Orders{"()()", "(())"}));
  EXPECT_EQ(orders_of([&] { say(0, 'a'), early(0); }), (Orders{"a()"}));
  EXPECT_EQ(orders_of([&] {
              plain(1);
              cudaEventRecord(events_[0], streams_[1]);
              cudaStreamWaitEvent(streams_[0], events_[0], 0);
              early(0);
            }),
            (Orders{"k()"}));
  cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal);
  plain(0), early(0), say(0, 'a');
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiateWithFlags(&executable, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(orders_of([&] { cudaGraphLaunch(executable, streams_[0]); }), (Orders{"k()a", "(k)a"}));
  cudaGraphExecDestroy(executable);
}

TEST_F(EmulatedGpu, AQuestionSpoilsACapture) {
  const auto capture = [&](const std::function<void()>& ask) {
    EXPECT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(events_[0], streams_[0]), cudaSuccess);
    ask();
    const cudaError_t goes_on = cudaEventRecord(events_[1], streams_[0]);
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(streams_[0], &graph);
    EXPECT_EQ(goes_on, ended);
    EXPECT_EQ(graph == nullptr, ended != cudaSuccess);
    cudaGraphDestroy(graph);
    return ended;
  };
  cudaEventRecord(events_[1], streams_[1]);
  EXPECT_EQ(capture([&] { EXPECT_EQ(cudaEventSynchronize(events_[1]), cudaSuccess); }), cudaSuccess);
  EXPECT_EQ(capture([&] { EXPECT_EQ(cudaEventQuery(events_[0]), cudaErrorCapturedEvent); }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(capture([&] { EXPECT_EQ(cudaEventSynchronize(events_[0]), cudaErrorCapturedEvent); }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(capture([&] { EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaErrorStreamCaptureUnsupported); }),
            cudaErrorStreamCaptureInvalidated);
  // The event doesn't change until it is recorded again.
  EXPECT_EQ(cudaEventQuery(events_[0]), cudaErrorCapturedEvent);
  cudaEventRecord(events_[0], streams_[0]);
  EXPECT_EQ(cudaEventSynchronize(events_[0]), cudaSuccess);
}

// When cudaMemcpy() returns, a copy from pageable memory is only staged; a fill is only enqueued.
TEST_F(EmulatedGpu, TheDefaultStreamAloneKnowsOfStagedCopies) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 1), cudaSuccess);
  char* const on_device = static_cast<char*>(memory);
  const auto read = [&](int stream) {
    enqueue(streams_[stream], "a read", [this, on_device] { said_ += *on_device; });
  };
  EXPECT_EQ(orders_of([&] {
              cudaMemset(memory, 'x', 1);
              cudaStreamSynchronize(nullptr);
              char pageable = 'a';
              cudaMemcpy(memory, &pageable, 1, cudaMemcpyHostToDevice);
              pageable = 'b';  // staged
              read(0);
              cudaStreamSynchronize(streams_[0]);
              cudaStreamSynchronize(nullptr);
              read(0);
              cudaMemset(memory, 'c', 1);
              read(1);
              cudaStreamSynchronize(streams_[1]);
            }),
            (std::set<std::string>{"xaa"}));
  char back = ' ';
  EXPECT_EQ(cudaMemcpy(&back, memory, 1, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, 'c');
  void* pinned = nullptr;
  cudaHostAlloc(&pinned, 1, cudaHostAllocDefault);
  *static_cast<char*>(pinned) = 'p';
  EXPECT_EQ(cudaMemcpy(memory, pinned, 1, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(*on_device, 'p');
  cudaFreeHost(pinned);
  cudaFree(memory);
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

// Two ranks on one thread.
class EmulatedNccl : public EmulatedGpu {
 protected:
  void SetUp() override {
    EmulatedGpu::SetUp();
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    for (int rank = 0; rank < 2; ++rank) {  // each with a GPU, as NCCL demands
      EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
      EXPECT_EQ(ncclCommInitRankConfig(&ranks_[rank], 2, id, rank, &config_), ncclInProgress);
    }
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    for (ncclComm_t rank : ranks_) EXPECT_EQ(end_of(rank), ncclSuccess);
  }
  void TearDown() override {
    for (ncclComm_t rank : ranks_) ncclCommAbort(rank);
    EmulatedGpu::TearDown();
  }

  static ncclConfig_t non_blocking() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }
  // The result of the communicator's last call.
  static ncclResult_t end_of(ncclComm_t communicator) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) EXPECT_EQ(ncclCommGetAsyncError(communicator, &state), ncclSuccess);
    return state;
  }
  // One call of each rank, which returns `begun` while it is in progress.
  void both(const std::function<ncclResult_t(int)>& call, ncclResult_t begun = ncclInProgress) {
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(call(rank), begun);
    for (ncclComm_t rank : ranks_) EXPECT_EQ(end_of(rank), ncclSuccess);
  }

  ncclConfig_t config_ = non_blocking();
  ncclComm_t ranks_[2] = {};
  std::vector<float> in_[2] = {{1, 2, 3, 4}, {10, 20, 30, 40}},
                     out_[2] = {std::vector<float>(8), std::vector<float>(8)};
};

TEST_F(EmulatedNccl, MovesOnceAllHaveCome) {
  both([&](int r) { return ncclAllGather(in_[r].data(), out_[r].data(), 4, ncclFloat32, ranks_[r], streams_[r]); });
  EXPECT_EQ(out_[0][0], 0) << "nobody has waited yet";
  both([&](int r) {
    return ncclAllReduce(in_[r].data(), in_[r].data(), 4, ncclFloat32, ncclSum, ranks_[r], streams_[r]);
  });
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(out_[0], (std::vector<float>{1, 2, 3, 4, 10, 20, 30, 40}));
  EXPECT_EQ(out_[1], out_[0]);
  EXPECT_EQ(in_[0], (std::vector<float>{11, 22, 33, 44}));
  EXPECT_EQ(in_[1], in_[0]);
  both([&](int r) {
    return ncclReduceScatter(out_[r].data(), in_[r].data(), 4, ncclFloat32, ncclSum, ranks_[r], streams_[r]);
  });
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(in_[0], (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(in_[1], (std::vector<float>{20, 40, 60, 80}));
}

// Rank r gives rank p elements 2p and 2p + 1, one message each, and both are one operation.
TEST_F(EmulatedNccl, AGroupExchangesItsMessages) {
  both([&](int r) {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int part = 0; part < 2; ++part) {
      for (int peer = 0; peer < 2; ++peer) {
        float* const taken = out_[r].data() + 4 * part + peer;
        EXPECT_EQ(ncclSend(in_[r].data() + 2 * peer + part, 1, ncclFloat32, peer, ranks_[r], streams_[r]), ncclSuccess);
        EXPECT_EQ(ncclRecv(taken, 1, ncclFloat32, peer, ranks_[r], streams_[r]), ncclSuccess);
      }
    }
    return ncclGroupEnd();
  });
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(out_[0], (std::vector<float>{1, 10, 0, 0, 2, 20, 0, 0}));
  EXPECT_EQ(out_[1], (std::vector<float>{3, 30, 0, 0, 4, 40, 0, 0}));
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclSend(in_[0].data(), 1, ncclFloat32, 2, ranks_[0], streams_[0]), ncclInvalidArgument) << "no rank 2";
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

// A first collective connects the ranks, so its call isn't over before all have come.
TEST_F(EmulatedNccl, ACallInProgressTakesNoOther) {
  const auto reduce = [&](int r) {
    return ncclAllReduce(in_[r].data(), in_[r].data(), 4, ncclFloat32, ncclSum, ranks_[r], streams_[r]);
  };
  EXPECT_EQ(reduce(0), ncclInProgress);
  EXPECT_EQ(reduce(0), ncclInvalidArgument);
  EXPECT_TRUE(idle(streams_[0])) << "launched before the peer has come";
  EXPECT_EQ(reduce(1), ncclInProgress);
  for (ncclComm_t rank : ranks_) EXPECT_EQ(end_of(rank), ncclSuccess);
  EXPECT_FALSE(idle(streams_[0])) << "a thread of NCCL has launched it";
}

// The address of a split's child belongs to NCCL until the split is over, or its parent aborted.
TEST_F(EmulatedNccl, AnAbortedSplitWritesItsChild) {
  ncclComm_t child = nullptr;
  EXPECT_EQ(ncclCommSplit(ranks_[0], 0, 0, &child, &config_), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(ranks_[0]), ncclSuccess);
  EXPECT_NE(child, nullptr);
  EXPECT_EQ(end_of(child), ncclInternalError);
  EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
  ranks_[0] = nullptr;
}

TEST_F(EmulatedNccl, AChildWithANewOwnerIsFound) {
  ncclComm_t child = nullptr;
  EXPECT_EQ(ncclCommSplit(ranks_[0], 0, 0, &child, &config_), ncclSuccess);
  const ncclComm_t other = ranks_[1];
  child = other;
  EXPECT_EQ(ncclCommAbort(ranks_[0]), ncclUnhandledCudaError);
  EXPECT_EQ(ncclCommAbort(std::exchange(child, nullptr)), ncclUnhandledCudaError);
  EXPECT_EQ(misuses(), 1U);
  ranks_[0] = nullptr;
}

// Each rank aborts its two communicators. If a peer is lost on both, aborting the first would wait for the second.
TEST_F(EmulatedNccl, OneAbortWaitsForTheOthers) {
  for (const bool grouped : {true, false}) {
    ncclComm_t children[2][2] = {};
    for (auto& of_split : children) {
      both([&](int r) { return ncclCommSplit(ranks_[r], 0, r, &of_split[r], &config_); }, ncclSuccess);
      for (int r = 0; r < 2; ++r) {  // connects them
        EXPECT_EQ(ncclAllReduce(in_[r].data(), in_[r].data(), 4, ncclFloat32, ncclSum, of_split[r], streams_[r]),
                  ncclInProgress);
      }
      for (ncclComm_t child : of_split) EXPECT_EQ(end_of(child), ncclSuccess);
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (int i = 0; i < 2; ++i) {
      ncclAllReduce(in_[i].data(), in_[i].data(), 4, ncclFloat32, ncclSum, children[i][0], streams_[i]);
      EXPECT_EQ(end_of(children[i][0]), ncclSuccess);
    }
    if (grouped) ncclGroupStart();
    EXPECT_EQ(ncclCommAbort(children[0][0]), grouped ? ncclSuccess : ncclUnhandledCudaError);
    ncclCommAbort(children[1][0]);
    EXPECT_EQ(ncclGroupEnd(), grouped ? ncclSuccess : ncclInvalidUsage);
    EXPECT_EQ(cudaStreamSynchronize(streams_[1]), grouped ? cudaSuccess : cudaErrorLaunchTimeout);
    forget_error();
    for (auto& of_split : children) ncclCommAbort(of_split[1]);
  }
}

TEST_F(EmulatedNccl, RanksMustAgree) {
  both([&](int r) {
    const std::size_t count = r == 0 ? 4 : 3;
    return ncclAllReduce(in_[r].data(), in_[r].data(), count, ncclFloat32, ncclSum, ranks_[r], streams_[r]);
  });
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(in_[0][0], 1);
}

TEST_F(EmulatedNccl, AFailedGpuLeavesTheOthers) {
  fail(1, cudaErrorIllegalAddress, "on purpose");
  say(0, 'a');
  EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  EXPECT_EQ(said_, "a");
  void* memory = nullptr;
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

}  // namespace
}  // namespace weft::emulator
