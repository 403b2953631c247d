// GPUs that a process has in its imagination: streams whose work runs when somebody waits for any of it, in an order
// that a seed picks among what streams, events and graphs allow. CUDA's functions (cuda_runtime.cpp) and the libraries'
// (cublas_lt.cpp, nccl.cpp) stand on it.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

// CUDA's handles are pointers to these.
struct CUstream_st;
struct CUevent_st;

namespace weft::emulator {

inline constexpr int kDevices = 8;
inline constexpr std::size_t kMemoryBytes = std::size_t{4} << 30;  // of a device
inline constexpr int kSharedBytes = 227 * 1024;                    // of a block

/// cudaSetDevice()'s, of the calling thread.
int& current_device();

/// Another order of everything; before the first work.
void set_seed(std::uint64_t seed);

/// Work on a stream (null: the current device's default one), or of the graph that is captured from it. What it throws
/// is the answer of every later call.
cudaError_t enqueue(cudaStream_t stream, std::string name, std::function<void()> work);
/// Work that nobody but its stream is ordered behind: it runs as late as it may.
cudaError_t enqueue_late(cudaStream_t stream, std::string name, std::function<void()> work);
/// Work that begins once `ready` says so; it is asked as long as nothing on the stream stands before it.
cudaError_t enqueue_when(cudaStream_t stream, std::string name, std::function<bool()> ready,
                         std::function<void()> work);
cudaError_t enqueue_kernel(cudaStream_t stream, const char* name, dim3 blocks, dim3 threads, std::size_t shared_bytes,
                           std::function<void()> body);

/// Runs one piece of work of any stream, if any could go on.
bool run_one();

/// Runs until `over`; cudaErrorLaunchTimeout, with what every stream stands at, when nothing has gone on for minutes.
cudaError_t run_until(const std::function<bool()>& over);

/// The first error, or success. Its text says what happened.
cudaError_t state();
std::string state_text();
/// Makes it the first error, unless there is one.
void fail(cudaError_t error, const std::string& text);
/// And all that was enqueued: for tests that made an error on purpose.
void forget_error();

/// Guards everything here, and what work of the libraries shares: functions of CUDA may be called by any thread.
std::recursive_mutex& mutex();

/// A graph's node, or an entry of a stream's queue.
struct Node {
  std::string name;
  std::function<bool()> ready;  // null: always
  std::function<void()> work;
  std::vector<std::size_t> after = {};  // in a graph: nodes before it in the list
  bool late = false;                    // goes on when nothing else can
};

/// What a capture recorded.
struct Recording {
  cudaStream_t origin = nullptr;
  std::vector<Node> nodes;
  std::vector<cudaStream_t> members;
  bool spoiled = false;  // by something that no capture allows
};

cudaStream_t make_stream(int device, std::string name);
void destroy_stream(cudaStream_t stream);
/// The stream, or if it is null the current device's default one.
cudaStream_t stream_of(cudaStream_t stream);
bool idle(cudaStream_t stream);
bool idle_device(int device);

cudaError_t begin_capture(cudaStream_t stream);
/// Fails where the capture was spoiled, and unless every stream that joined it is joined to its origin again.
cudaError_t end_capture(cudaStream_t origin, std::shared_ptr<const Recording>& recording);
/// Whether the host may wait for the stream, or ask how far it is: neither a captured stream nor an event that a
/// capture recorded stands for anything that runs, and who asks spoils the capture.
cudaError_t may_ask(cudaStream_t stream);
cudaError_t may_ask(cudaEvent_t event);
/// Does a stream of this thread's capture? Then functions that touch the whole device are refused.
bool thread_captures();
cudaError_t enqueue_graph(cudaStream_t stream, std::shared_ptr<const Recording> graph);

cudaEvent_t make_event(bool timed);
void destroy_event(cudaEvent_t event);
cudaError_t record(cudaEvent_t event, cudaStream_t stream);
cudaError_t wait(cudaStream_t stream, cudaEvent_t event);
bool passed(cudaEvent_t event);
/// Null unless the event is timed and has passed.
const std::chrono::steady_clock::time_point* time_of(cudaEvent_t event);

}  // namespace weft::emulator
