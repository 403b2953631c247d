#include "runtime/execute/cuda/cuda_device.h"

#include <cudaTypedefs.h>
#include <cudnn.h>
#include <fmt/format.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "base/error.h"
#include "base/hash.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/experts/experts.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {
namespace {

using cuda::check;

std::string_view text_of(cuda::Fault fault) {
  constexpr std::array<std::string_view, 5> kTexts = {
      "none", "a token is outside of the vocabulary", "a position is outside of the context",
      "a target is outside of the vocabulary", "a rank can't give its experts' ranks as many rows"};
  const auto index = static_cast<std::size_t>(fault);
  return index < kTexts.size() ? kTexts[index] : "an unknown fault";
}

// Must run before CUDA reads the environment, at a process's first query for devices. A stream that waits for the host
// blocks all streams that share its hardware queue. By default there are 8 queues, and a rank may have more streams.
void ask_for_queues() {
  static std::once_flag once;
  std::call_once(once, [] { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0); });
}

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

// Only the driver has this function. The driver's library isn't linked, so that the program also starts without a
// driver.
PFN_cuStreamWaitValue32_v11070 stream_wait_value() {
  static const auto function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    check(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &found, 11070, cudaEnableDefault, &status),
          "cudaGetDriverEntryPointByVersion");
    if (found == nullptr) throw RuntimeFault("the CUDA driver has no cuStreamWaitValue32");
    return reinterpret_cast<PFN_cuStreamWaitValue32_v11070>(found);
  }();
  return function;
}

class FiniteCheckOf final : public CudaWork {
 public:
  FiniteCheckOf(const cpu::Matrix& matrix, const std::int32_t* rows, std::uint64_t* first)
      : matrix_(matrix), rows_(rows), first_(first) {}
  void run(cudaStream_t stream, cuda::Fault* fault) const override {
    cuda::find_non_finite({stream, nullptr, fault}, matrix_, rows_, first_);
  }

 private:
  cpu::Matrix matrix_;
  const std::int32_t* rows_;
  std::uint64_t* first_;
};

// CUDA encodes 12.9 as 12090.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

CudaDevice::CudaDevice(int ordinal, CudaSettings settings) : ordinal_(ordinal) {
  use();
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  name_ = properties.name;
  check(cudaHostAlloc(reinterpret_cast<void**>(&fault_), sizeof(cuda::Fault), cudaHostAllocMapped), "cudaHostAlloc");
  *fault_ = cuda::Fault::none;
  libraries_ = std::make_unique<CudaLibraries>(std::move(settings));
}

CudaDevice::~CudaDevice() {
  // Errors are ignored here: the process or the run is ending.
  cudaSetDevice(ordinal_);
  cudaDeviceSynchronize();
  libraries_.reset();
  for (std::size_t i = 0; i < graphs_.size(); ++i) destroy(DeviceGraph(i));
  for (const Event& event : events_) cudaEventDestroy(event.native);
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  for (void* memory : pinned_memory_) cudaFreeHost(memory);
  cudaFreeHost(fault_);
}

// Each thread has its own current device, and any rank's thread may call this.
void CudaDevice::use() const {
  check(cudaSetDevice(ordinal_), "cudaSetDevice");
}

std::uint64_t CudaDevice::identity() const {
  return device_identity(ordinal_);
}

DeviceMemory CudaDevice::memory() const {
  use();
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

std::byte* CudaDevice::allocate(std::int64_t bytes) {
  use();
  void* allocated = nullptr;
  if (cudaMalloc(&allocated, static_cast<std::size_t>(bytes)) != cudaSuccess) {
    cudaGetLastError();  // clears the error, which is reported here
    const auto [free, total] = memory();
    throw RuntimeFault(
        fmt::format("{} has no {:.2f} GiB left: {:.2f} of {:.2f} GiB are free; a smaller micro-batch or --recompute "
                    "block needs less",
                    name_, gib(bytes), gib(free), gib(total)));
  }
  allocated_ += bytes;
  return device_memory_.emplace_back(static_cast<std::byte*>(allocated)).get();
}

std::byte* CudaDevice::allocate_pinned(std::int64_t bytes) {
  use();
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocDefault), "cudaHostAlloc");
  pinned_memory_.push_back(memory);
  return static_cast<std::byte*>(memory);
}

DeviceStream CudaDevice::add_stream(std::string name, StreamPriority priority) {
  use();
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  check(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority == StreamPriority::high ? greatest : least),
      "cudaStreamCreateWithPriority");
  nvtxNameCudaStreamA(stream, name.c_str());
  streams_.push_back(stream);
  return DeviceStream(streams_.size() - 1);
}

DeviceEvent CudaDevice::add_event(bool timed) {
  use();
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), "cudaEventCreate");
  events_.push_back({event, timed});
  return DeviceEvent(events_.size() - 1);
}

void CudaDevice::record(DeviceEvent event, DeviceStream stream) {
  const auto [recorded, timed] = events_[event.index()];
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (timed) check(cudaStreamIsCapturing(native(stream), &capture), "cudaStreamIsCapturing");
  const bool in_graph = capture != cudaStreamCaptureStatusNone;
  check(cudaEventRecordWithFlags(recorded, native(stream), in_graph ? cudaEventRecordExternal : cudaEventRecordDefault),
        "cudaEventRecord");
}

void CudaDevice::wait(DeviceStream stream, DeviceEvent event) {
  check(cudaStreamWaitEvent(native(stream), events_[event.index()].native, 0), "cudaStreamWaitEvent");
}

void CudaDevice::wait_value(DeviceStream stream, const std::atomic<std::uint32_t>* flag, std::uint32_t value) {
  // Pinned memory has the same address on the device.
  const CUresult result =
      stream_wait_value()(native(stream), reinterpret_cast<CUdeviceptr>(flag), value, CU_STREAM_WAIT_VALUE_GEQ);
  if (result != CUDA_SUCCESS) {
    throw RuntimeFault(fmt::format("{}: cuStreamWaitValue32: error {}", name_, static_cast<int>(result)));
  }
}

void CudaDevice::copy(DeviceStream stream, void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, native(stream)),
        "cudaMemcpyAsync");
}

void CudaDevice::sum(DeviceStream stream, std::span<const void* const> sources, void* out, std::int64_t count,
                     DType dtype) {
  cuda::sum_in_rank_order({native(stream), nullptr, fault_}, sources, out, count, dtype);
}

void CudaDevice::move_rows(DeviceStream stream, const kernels::RowMove& move, std::span<void* const> others) {
  cuda::move_rows({native(stream), nullptr, fault_}, move, others);
}

std::int64_t CudaDevice::scratch_bytes(const graph::Graph& graph, const graph::Task& task) {
  use();
  std::vector<cpu::Matrix> arguments;
  for (const graph::Access& access : task.accesses) {
    graph::View view = access.view;
    view.offset = 0;
    arguments.push_back(matrix_of(graph, view, nullptr));
  }
  return cuda_scratch_bytes(task.operation, arguments, *libraries_);
}

std::unique_ptr<DeviceTask> CudaDevice::prepare(const graph::Task& task, std::vector<cpu::Matrix> arguments,
                                                std::byte* scratch) {
  use();
  return prepare_cuda_task(task.operation, arguments, scratch, *libraries_);
}

std::unique_ptr<DeviceTask> CudaDevice::prepare_finite_check(const cpu::Matrix& matrix, const std::int32_t* rows,
                                                             std::uint64_t* first) {
  return std::make_unique<FiniteCheckOf>(matrix, rows, first);
}

void CudaDevice::launch(DeviceStream stream, const DeviceTask& task) {
  static_cast<const CudaWork&>(task).run(native(stream), fault_);
}

std::unique_ptr<DeviceTask> CudaDevice::fuse(std::span<const DeviceTask* const> tasks) {
  use();
  std::vector<const CudaTask*> of_cuda;
  for (const DeviceTask* task : tasks) of_cuda.push_back(static_cast<const CudaTask*>(task));
  return fuse_cuda_tasks(of_cuda);
}

// Tables come from pageable memory: cudaMemcpy() returns once they are staged, and the rest happens on the default
// stream, for which streams that don't block it don't wait.
void CudaDevice::settle() {
  use();
  check(cudaStreamSynchronize(nullptr), "tables on their way to the device");
}

void CudaDevice::synchronize(DeviceStream stream) {
  use();
  check(cudaStreamSynchronize(native(stream)), "a step on the device");
  expect_no_fault();
}

void CudaDevice::synchronize(DeviceEvent event) {
  use();
  check(cudaEventSynchronize(events_[event.index()].native), "a step on the device");
  expect_no_fault();
}

void CudaDevice::expect_no_fault() const {
  const cuda::Fault fault = *static_cast<volatile cuda::Fault*>(fault_);
  if (fault != cuda::Fault::none) throw RuntimeFault(fmt::format("{}: {}", name_, text_of(fault)));
}

bool CudaDevice::passed(DeviceEvent event) {
  use();
  const cudaError_t status = cudaEventQuery(events_[event.index()].native);
  if (status == cudaErrorNotReady) return false;
  check(status, "a step on the device");
  return true;
}

std::int64_t CudaDevice::elapsed_ns(DeviceEvent from, DeviceEvent to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, events_[from.index()].native, events_[to.index()].native),
        "cudaEventElapsedTime");
  return static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
}

void CudaDevice::begin_capture(DeviceStream origin) {
  use();
  check(cudaStreamBeginCapture(native(origin), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

DeviceGraph CudaDevice::end_capture(DeviceStream origin) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(native(origin), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiateWithFlags(&executable, graph, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(graph);
  check(made, "cudaGraphInstantiate");
  graphs_.push_back(executable);
  return DeviceGraph(graphs_.size() - 1);
}

void CudaDevice::abandon_capture(DeviceStream origin) noexcept {
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(native(origin), &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
}

void CudaDevice::launch(DeviceStream stream, DeviceGraph graph) {
  check(cudaGraphLaunch(graphs_[graph.index()], native(stream)), "cudaGraphLaunch");
}

void CudaDevice::destroy(DeviceGraph graph) {
  if (cudaGraphExec_t& executable = graphs_[graph.index()]; executable != nullptr) cudaGraphExecDestroy(executable);
  graphs_[graph.index()] = nullptr;
}

void CudaDevice::push_range(const std::string& name) {
  nvtxRangePushA(name.c_str());
}

void CudaDevice::pop_range() {
  nvtxRangePop();
}

DeviceReport report_devices() {
  ask_for_queues();
  DeviceReport report;
  report.built = true;
  int runtime = 0, driver = 0, nccl = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  ncclGetVersion(&nccl);
  const auto add = [&](std::string_view name, std::size_t version) {
    report.libraries.push_back(fmt::format("{} {}.{}.{}", name, version / 10000, version / 100 % 100, version % 100));
  };
  report.libraries = {fmt::format("CUDA {}", version_text(runtime))};
  try {
    add("cuBLASLt", cuda::CublasLt::version());
  } catch (const std::exception& error) {
    report.unusable = error.what();
  }
  add("cuDNN", cudnnGetVersion());
  add("NCCL", static_cast<std::size_t>(nccl));
  if (driver == 0) {
    report.missing = "no CUDA driver on this machine";
    return report;
  }
  report.libraries.push_back(fmt::format("driver for CUDA {}", version_text(driver)));
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (status != cudaSuccess || count == 0) {
    report.missing = status != cudaSuccess ? cudaGetErrorString(status) : "no device";
    return report;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    report.devices.push_back(fmt::format("{}, {:.1f} GiB, {} multiprocessors, compute capability {}.{}",
                                         properties.name, gib(static_cast<std::int64_t>(properties.totalGlobalMem)),
                                         properties.multiProcessorCount, properties.major, properties.minor));
    report.addresses.push_back(
        fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID));
  }
  return report;
}

std::uint64_t device_identity(int ordinal) {
  ask_for_queues();
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return Fingerprint().add(std::string_view(properties.uuid.bytes, sizeof properties.uuid.bytes)).value();
}

void expect_cuda_device() {
  const DeviceReport report = report_devices();
  if (!report.missing.empty()) {
    throw UserError("device cuda: " + report.missing, "an NVIDIA GPU and its driver",
                    "use --device cpu; `weft doctor` tells what was found");
  }
  cuda::CublasLt::version();  // throws where the library can't be used
}

std::unique_ptr<Device> make_cuda_device(int ordinal, CudaSettings settings) {
  expect_cuda_device();
  return std::make_unique<CudaDevice>(ordinal, std::move(settings));
}

}  // namespace weft::execute
