// A GPU: CUDA streams, events, graphs, and tasks of cuBLASLt, cuDNN and Weft's own kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/launch.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "runtime/execute/device/device.h"

namespace weft::execute {

/// Owns everything that it makes. Tasks that it prepared must not outlive it.
class CudaDevice : public Device {
 public:
  /// Throws RuntimeFault when the device can't be used.
  explicit CudaDevice(int ordinal, CudaSettings settings = {});
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::string name() const override { return name_; }
  std::uint64_t identity() const override;
  DeviceMemory memory() const override;
  std::byte* allocate(std::int64_t bytes) override;
  std::byte* allocate_pinned(std::int64_t bytes) override;
  DeviceStream add_stream(std::string name, StreamPriority priority) override;
  DeviceEvent add_event(bool timed) override;
  void record(DeviceEvent event, DeviceStream stream) override;
  void wait(DeviceStream stream, DeviceEvent event) override;
  void wait_value(DeviceStream stream, const std::atomic<std::uint32_t>* flag, std::uint32_t value) override;
  void copy(DeviceStream stream, void* to, const void* from, std::int64_t bytes) override;
  void sum(DeviceStream stream, std::span<const void* const> sources, void* out, std::int64_t count,
           DType dtype) override;
  void move_rows(DeviceStream stream, const kernels::RowMove& move, std::span<void* const> others) override;
  std::int64_t scratch_bytes(const graph::Graph& graph, const graph::Task& task) override;
  std::unique_ptr<DeviceTask> prepare(const graph::Task& task, std::vector<cpu::Matrix> arguments,
                                      std::byte* scratch) override;
  std::unique_ptr<DeviceTask> prepare_finite_check(const cpu::Matrix& matrix, const std::int32_t* rows,
                                                   std::uint64_t* first) override;
  void launch(DeviceStream stream, const DeviceTask& task) override;
  std::unique_ptr<DeviceTask> fuse(std::span<const DeviceTask* const> tasks) override;
  void settle() override;
  void synchronize(DeviceStream stream) override;
  void synchronize(DeviceEvent event) override;
  bool done(DeviceEvent event) override { return passed(event); }
  bool passed(DeviceEvent event) override;
  std::int64_t elapsed_ns(DeviceEvent from, DeviceEvent to) override;
  void begin_capture(DeviceStream origin) override;
  DeviceGraph end_capture(DeviceStream origin) override;
  void abandon_capture(DeviceStream origin) noexcept override;
  void launch(DeviceStream stream, DeviceGraph graph) override;
  void destroy(DeviceGraph graph) override;
  void push_range(const std::string& name) override;
  void pop_range() override;
  std::int64_t allocated_bytes() const override { return allocated_; }
  /// Memory of this device that a library has allocated for the same purpose.
  void count(std::int64_t bytes) { allocated_ += bytes; }

  /// Makes this device the calling thread's current one, as calls of CUDA's libraries need it.
  void use() const;
  /// For benchmarks and libraries' own calls.
  cudaStream_t native(DeviceStream stream) const { return streams_[stream.index()]; }
  CudaLibraries& libraries() { return *libraries_; }

 private:
  void expect_no_fault() const;

  int ordinal_;
  std::string name_;
  std::int64_t allocated_ = 0;
  std::vector<cuda::DeviceBuffer> device_memory_;
  std::vector<void*> pinned_memory_;
  std::vector<cudaStream_t> streams_;
  struct Event {
    cudaEvent_t native;
    bool timed;
  };
  std::vector<Event> events_;
  std::vector<cudaGraphExec_t> graphs_;
  cuda::Fault* fault_ = nullptr;  // mapped: kernels write, the host reads when a stream is done
  std::unique_ptr<CudaLibraries> libraries_;
};

}  // namespace weft::execute
