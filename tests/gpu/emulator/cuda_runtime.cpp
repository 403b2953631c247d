// The functions of CUDA's runtime and driver that Weft calls, for emulated GPUs. A program that defines them doesn't
// link CUDA's library for them.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/gpu/emulator/failures.h"
#include "tests/gpu/emulator/gpu.h"

struct CUgraph_st {
  std::shared_ptr<const weft::emulator::Recording> recording;
};
struct CUgraphExec_st {
  std::shared_ptr<const weft::emulator::Recording> recording;
};

namespace weft::emulator {
namespace {

constexpr std::size_t kAlignment = 512;  // cudaMalloc's

thread_local cudaError_t last_error = cudaSuccess;

struct Memory {
  std::map<const void*, std::pair<std::size_t, int>> device;  // bytes, and the owning device
  std::map<const void*, std::size_t> pinned;
  std::size_t used[kDevices] = {};

  bool on_device(const void* address) const {
    const auto next = device.upper_bound(address);
    return next != device.begin() && within(address, std::prev(next)->first, std::prev(next)->second.first);
  }
  bool pageable(const void* address) const {
    const auto next = pinned.upper_bound(address);
    return !on_device(address) &&
           (next == pinned.begin() || !within(address, std::prev(next)->first, std::prev(next)->second));
  }

 private:
  static bool within(const void* address, const void* begin, std::size_t bytes) {
    return static_cast<const std::byte*>(address) < static_cast<const std::byte*>(begin) + bytes;
  }
};
Memory& memory() {
  static Memory all;
  return all;
}

bool staged(const void* to, const void* from) {
  const std::lock_guard lock(mutex());
  return memory().on_device(to) && memory().pageable(from);
}

cudaError_t told(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Refuses unsafe functions during a capture by this thread, as CUDA does, and where the test made them fail.
cudaError_t outside_captures(const char* name) {
  if (const cudaError_t error = refusal(name); error != cudaSuccess) return error;
  return thread_captures() ? cudaErrorStreamCaptureUnsupported : state();
}

// The answer of a function with this body, unless the test made it fail; without an answer: success.
template <class Body>
cudaError_t call(const char* name, const Body& body) {
  if (const cudaError_t error = refusal(name); error != cudaSuccess) return told(error);
  if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
    return body(), cudaSuccess;
  } else {
    return told(body());
  }
}

// Allocates exactly the requested bytes, so that a sanitizer detects accesses beyond them.
void* aligned(std::size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, kAlignment, bytes) == 0 ? memory : nullptr;
}

CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_NOT_SUPPORTED;
  const auto* const flag = std::bit_cast<const std::atomic<std::uint32_t>*>(address);
  const cudaError_t error = enqueue_when(
      stream_of(stream), fmt::format("a wait for the value {}", value),
      [=] { return static_cast<std::int32_t>(flag->load() - value) >= 0; }, [] {});
  return error == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

}  // namespace
}  // namespace weft::emulator

using namespace weft::emulator;

extern "C" {

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
const char* cudaGetErrorString(cudaError_t error) {
  static thread_local std::string text;
  text = error == cudaSuccess ? "no error"
         : error == state()   ? state_text()
                              : fmt::format("error {} of the emulated GPU", static_cast<int>(error));
  return text.c_str();
}
const char* cudaGetErrorName(cudaError_t error) {
  static thread_local std::string text;
  text = fmt::format("emulated {}", static_cast<int>(error));
  return text.c_str();
}

cudaError_t cudaDriverGetVersion(int* version) {
  return call(__func__, [&] { *version = CUDART_VERSION; });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return call(__func__, [&] { *version = CUDART_VERSION; });
}
cudaError_t cudaGetDeviceCount(int* count) {
  return call(__func__, [&] { *count = kDevices; });
}
cudaError_t cudaGetDevice(int* device) {
  return call(__func__, [&] { *device = current_device(); });
}
cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  if (device < 0 || device >= kDevices) return told(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  if (device < 0 || device >= kDevices) return told(cudaErrorInvalidDevice);
  *properties = {};
  fmt::format_to_n(properties->name, sizeof properties->name - 1, "emulated GPU {}", device);
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  properties->totalGlobalMem = kMemoryBytes;
  properties->multiProcessorCount = 4;
  properties->pciBusID = 0x1b + device;
  properties->major = kCapability;
  properties->sharedMemPerBlockOptin = kSharedBytes;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  const std::map<cudaDeviceAttr, int> known = {{cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedBytes},
                                               {cudaDevAttrL2CacheSize, kCacheBytes},
                                               {cudaDevAttrComputeCapabilityMajor, kCapability}};
  const auto found = known.find(attribute);
  if (found == known.end()) return told(cudaErrorNotSupported);
  *value = found->second;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call(__func__, [&] { *least = 0, *greatest = -5; });
}
cudaError_t cudaFuncSetAttribute(const void* /*function*/, cudaFuncAttribute attribute, int value) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  const bool fits = attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value <= kSharedBytes;
  return told(fits ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = outside_captures(__func__); error != cudaSuccess) return told(error);
  return told(run_until([device = current_device()] { return idle_device(device); }));
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/, cudaDriverEntryPointQueryResult* status) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  const bool known = std::string(symbol) == "cuStreamWaitValue32";
  *function = known ? reinterpret_cast<void*>(&wait_value) : nullptr;
  if (status != nullptr) *status = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** to, std::size_t bytes) {
  if (const cudaError_t error = outside_captures(__func__); error != cudaSuccess) return told(error);
  const std::lock_guard lock(mutex());
  std::size_t& used = memory().used[current_device()];
  if (used + bytes > kMemoryBytes) return told(cudaErrorMemoryAllocation);
  *to = aligned(bytes);
  if (*to == nullptr) return told(cudaErrorMemoryAllocation);
  used += bytes;
  memory().device[*to] = {bytes, current_device()};
  return cudaSuccess;
}
cudaError_t cudaFree(void* from) {
  if (from == nullptr) return told(refusal(__func__));
  if (const cudaError_t error = outside_captures(__func__); error != cudaSuccess) return told(error);
  std::unique_lock lock(mutex());
  const auto found = memory().device.find(from);
  if (found == memory().device.end()) return told(cudaErrorInvalidValue);
  const auto [bytes, device] = found->second;
  memory().used[device] -= bytes;
  memory().device.erase(found);
  lock.unlock();
  const cudaError_t error = run_until([device = device] { return idle_device(device); });
  std::free(from);
  return told(error);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  const std::lock_guard lock(mutex());
  *total = kMemoryBytes;
  *free = kMemoryBytes - memory().used[current_device()];
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** to, std::size_t bytes, unsigned /*flags*/) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  *to = aligned(bytes);
  if (*to == nullptr) return told(cudaErrorMemoryAllocation);
  const std::lock_guard lock(mutex());
  memory().pinned[*to] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* from) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  const std::lock_guard lock(mutex());
  memory().pinned.erase(from);
  std::free(from);
  return cudaSuccess;
}
// Runs on the default stream, and the host waits for it. From pageable memory to a device, however, the host waits only
// until the bytes are staged; only the default stream is ordered after their arrival.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/) {
  if (const cudaError_t error = outside_captures(__func__); error != cudaSuccess) return told(error);
  const cudaStream_t stream = stream_of(nullptr);
  const bool late = staged(to, from);
  if (!late) enqueue(stream, "a copy", [=] { std::memmove(to, from, bytes); });
  if (const cudaError_t error = run_until([&] { return idle(stream); }); error != cudaSuccess || !late) {
    return told(error);
  }
  const auto* const begin = static_cast<const std::byte*>(from);
  return told(enqueue_late(stream, "a staged copy", [to, kept = std::vector<std::byte>(begin, begin + bytes)] {
    std::memcpy(to, kept.data(), kept.size());
  }));
}
// The host doesn't wait for a fill of device memory.
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (const cudaError_t error = outside_captures(__func__); error != cudaSuccess) return told(error);
  return told(enqueue_late(stream_of(nullptr), "a fill", [=] { std::memset(to, value, bytes); }));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  return told(enqueue_fallible(__func__, stream_of(stream), {"a copy", [=] { std::memmove(to, from, bytes); }}));
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  const auto fill = [=] {
    for (std::size_t row = 0; row < height; ++row) std::memset(static_cast<std::byte*>(to) + row * pitch, value, width);
  };
  return told(enqueue_fallible(__func__, stream_of(stream), {"a fill", fill}));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  if (flags != cudaStreamNonBlocking) return told(cudaErrorNotSupported);
  *stream = make_stream(current_device(), fmt::format("a stream of priority {}", priority));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  const cudaError_t error = run_until([&] { return idle(stream); });
  destroy_stream(stream);
  return told(error);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  const cudaStream_t of = stream_of(stream);
  if (const cudaError_t error = may_ask(of); error != cudaSuccess) return told(error);
  return told(run_until([&] { return idle(of); }));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  return call(__func__, [&] { return wait(stream_of(stream), event); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call(__func__, [&] { *event = make_event(true); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call(__func__, [&] { *event = make_event((flags & cudaEventDisableTiming) == 0); });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call(__func__, [&] { destroy_event(event); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call(__func__, [&] { return record(event, stream_of(stream)); });
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call(__func__, [&] {
    return flags == cudaEventRecordExternal ? record_in_graph(event, stream_of(stream))
                                            : record(event, stream_of(stream));
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  const std::lock_guard lock(mutex());
  if (const cudaError_t error = may_ask(event); error != cudaSuccess) return told(error);
  run_one();
  if (state() != cudaSuccess) return told(state());
  return passed(event) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  if (const cudaError_t error = may_ask(event); error != cudaSuccess) return told(error);
  return told(run_until([&] { return passed(event); }));
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  const std::lock_guard lock(mutex());
  const auto *begin = time_of(from), *end = time_of(to);
  if (begin == nullptr || end == nullptr) return told(cudaErrorInvalidResourceHandle);
  *milliseconds = std::chrono::duration<float, std::milli>(*end - *begin).count();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call(__func__, [&] {
    *status = captured(stream_of(stream)) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  });
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  return call(__func__, [&] { return stream == nullptr ? cudaErrorStreamCaptureUnsupported : begin_capture(stream); });
}
// Ends the capture also where it answers with an error.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const cudaError_t refused = refusal(__func__);
  std::shared_ptr<const Recording> recording;
  *graph = nullptr;
  const cudaError_t error = end_capture(stream, recording);
  if (refused != cudaSuccess || error != cudaSuccess) return told(refused != cudaSuccess ? refused : error);
  *graph = new CUgraph_st{std::move(recording)};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long /*flags*/) {
  if (const cudaError_t error = refusal(__func__); error != cudaSuccess) return told(error);
  if (graph == nullptr) return told(cudaErrorInvalidValue);
  *executable = new CUgraphExec_st{graph->recording};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call(__func__, [&] { delete graph; });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call(__func__, [&] { delete executable; });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call(__func__, [&] { return enqueue_graph(stream_of(stream), executable->recording); });
}

}  // extern "C"
