// Emulated GPUs of a process: streams whose work runs when somebody waits for it. A seed picks the order among all
// orders that streams, events and graphs allow. CUDA's functions (cuda_runtime.cpp) and the libraries' functions
// (cublas_lt.cpp, nccl.cpp) are built on it.
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

// CUDA's handles are pointers to these types.
struct CUstream_st;
struct CUevent_st;

namespace weft::emulator {

inline constexpr int kDevices = 8;
inline constexpr std::size_t kMemoryBytes = std::size_t{4} << 30;  // on each device
inline constexpr int kSharedBytes = 227 * 1024;                    // in each block
inline constexpr int kCapability = 9;
inline constexpr int kCacheBytes = 128 * 1024;  // small, since tests fill it

/// The calling thread's device, set by cudaSetDevice().
int& current_device();

/// Sets the seed of all orders; call it before the first work.
void set_seed(std::uint64_t seed);

/// A node of a graph, or an entry of a stream's queue.
struct Node {
  std::string name;
  std::function<void()> work;
  std::function<bool()> ready = {};     // null: always
  std::vector<std::size_t> after = {};  // in a graph: earlier nodes in the list
  bool late = false;                    // runs when nothing else can
  bool kernel = false;
  std::function<void(const std::function<void()>& earlier)> early_work = {};  // of a kernel that may begin early
};

/// Adds work to a stream (null: the current device's default stream), or to the graph that is captured from it. If the
/// work throws, every later call returns that error.
cudaError_t enqueue(cudaStream_t stream, Node work);
cudaError_t enqueue(cudaStream_t stream, std::string name, std::function<void()> work);
/// Adds work that only its own stream is ordered after: it runs as late as possible.
cudaError_t enqueue_late(cudaStream_t stream, std::string name, std::function<void()> work);
/// Adds work that begins once `ready` returns true; `ready` is called while the work is at the head of its stream.
cudaError_t enqueue_when(cudaStream_t stream, std::string name, std::function<bool()> ready,
                         std::function<void()> work);
/// Whether a kernel may begin before the kernel before it has ended (programmatic dependent launch).
enum class KernelStart : std::uint8_t { in_order, early };
cudaError_t enqueue_kernel(cudaStream_t stream, const char* name, dim3 blocks, dim3 threads, std::size_t shared_bytes,
                           std::function<void()> body, KernelStart how = KernelStart::in_order, unsigned cluster = 1);

/// Runs one piece of work of any stream; returns false if none can run.
bool run_one();

/// Runs work until `over` returns true. If no work could continue for minutes, returns cudaErrorLaunchTimeout and
/// reports the head of every stream.
cudaError_t run_until(const std::function<bool()>& over);

/// The first error of a device, or success. A device with an error does nothing any more, and every later call on it
/// answers with the error. Without a device: the calling thread's.
cudaError_t state(int device);
cudaError_t state();
std::string state_text();
/// Records an error of a device, unless it has one already, and drops the device's work.
void fail(int device, cudaError_t error, const std::string& text);
/// The same for a use that would go wrong on a GPU without a word; a test must find none.
void misuse(int device, const std::string& text);
std::size_t misuses();
/// Clears all errors and all enqueued work, for tests that caused an error on purpose.
void forget_error();

/// Guards everything here and the shared state of the libraries: any thread may call CUDA's functions.
std::recursive_mutex& mutex();

/// The content of a capture.
struct Recording {
  cudaStream_t origin = nullptr;
  std::vector<Node> nodes;
  std::vector<cudaStream_t> members;
  bool spoiled = false;  // by a call that no capture allows
};

cudaStream_t make_stream(int device, std::string name);
void destroy_stream(cudaStream_t stream);
/// The stream; for null, the current device's default stream.
cudaStream_t stream_of(cudaStream_t stream);
bool idle(cudaStream_t stream);
bool idle_device(int device);

cudaError_t begin_capture(cudaStream_t stream);
/// Fails if the capture was spoiled, or if a stream that joined it isn't joined to its origin again.
cudaError_t end_capture(cudaStream_t origin, std::shared_ptr<const Recording>& recording);
/// Whether the host may wait for the stream or query its progress. It may not for a captured stream or an event
/// recorded by a capture, which represent nothing that runs; asking then spoils the capture.
cudaError_t may_ask(cudaStream_t stream);
cudaError_t may_ask(cudaEvent_t event);
/// Whether this thread is capturing a stream. If so, functions that affect the whole device are refused.
bool thread_captures();
/// Whether work for the stream becomes part of a graph, whichever thread enqueues it.
bool captured(cudaStream_t stream);
cudaError_t enqueue_graph(cudaStream_t stream, std::shared_ptr<const Recording> graph);

cudaEvent_t make_event(bool timed);
void destroy_event(cudaEvent_t event);
cudaError_t record(cudaEvent_t event, cudaStream_t stream);
/// Within a capture: each run of the graph records the event.
cudaError_t record_in_graph(cudaEvent_t event, cudaStream_t stream);
cudaError_t wait(cudaStream_t stream, cudaEvent_t event);
bool passed(cudaEvent_t event);
/// Null unless the event is timed and has passed.
const std::chrono::steady_clock::time_point* time_of(cudaEvent_t event);

}  // namespace weft::emulator
