// The devices of this machine, whether this program was built with CUDA or not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/grid.h"

namespace weft::comm {
class World;
}

namespace weft::execute {

class Device;           // runtime/execute/device/device.h
class GemmTuning;       // runtime/execute/tuning/gemm_tuning.h
class DeviceTransport;  // runtime/execute/device/transport.h

/// The GPU part of the report of `weft doctor`.
struct DeviceReport {
  bool built = false;                  // with CUDA
  std::vector<std::string> libraries;  // "CUDA 13.0", "cuBLASLt 13.1.0", …
  std::vector<std::string> devices;    // "NVIDIA H100 80GB HBM3, 79.1 GiB, 132 multiprocessors"
  std::string unusable;                // a library that doesn't load, its search path and the error; empty: all load
  std::string missing;                 // why there is no device: "no CUDA driver"; empty: there is one
};

DeviceReport report_devices();

/// Throws UserError naming the missing device or library, and the way to run without it.
void expect_cuda_device();

/// The default of CudaSettings::attention_workspace. Twice as much as one sequence of 8192 tokens takes with 32 heads.
inline constexpr std::int64_t kAttentionWorkspace = std::int64_t{10} << 30;

/// The choices among the libraries' kernels. They change bits, so they are the same on all ranks.
struct CudaSettings {
  /// Algorithms of matrix products; products that it lacks, or all if it is null, use the library's default one.
  std::shared_ptr<const GemmTuning> tuning = nullptr;
  /// Most bytes of workspace of a library's kernel for attention; Weft's own kernel takes the place of a larger one.
  std::int64_t attention_workspace = kAttentionWorkspace;
  /// Products of fp32 round their factors to TF32, which tensor cores multiply.
  bool tf32 = false;
};

/// How long a transport waits for the other ranks and for its device, in seconds.
struct TransportLimits {
  double peers_come = 120;  // to a start, a split, a first collective
  double peers_leave = 10;  // at the end of a run that went well
  double release = 30;      // of the device's collectives, after a failure; then the process ends
};

/// The same, and RuntimeFault when the device can't be used.
std::unique_ptr<Device> make_cuda_device(int ordinal, CudaSettings settings = {});

/// Device::identity() without opening the device; 0: there is no such device.
std::uint64_t device_identity(int ordinal);

/// The collectives of a rank that has this GPU for itself. Collective over the world, which must outlive the transport,
/// as must the device. Throws RuntimeFault naming NCCL's reason, UserError in a program without CUDA.
std::unique_ptr<DeviceTransport> make_nccl_transport(comm::World& world, std::optional<graph::Grid> grid,
                                                     Device& device, const TransportLimits& limits = {});

}  // namespace weft::execute
