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
  std::vector<std::string> addresses;  // of the devices: "0000:1b:00.0", as sysfs names them
  std::string unusable;                // a library that doesn't load, its search path and the error; empty: all load
  std::string missing;                 // why there is no device: "no CUDA driver"; empty: there is one
};

DeviceReport report_devices();

/// Throws UserError naming the missing device or library, and the way to run without it.
void expect_cuda_device();

/// The default of CudaSettings::attention_workspace. Twice as much as one sequence of 8192 tokens takes with 32 heads.
inline constexpr std::int64_t kAttentionWorkspace = std::int64_t{10} << 30;

/// Forms of kernels that no GPU has timed yet, so that nobody gets them who doesn't ask.
struct GpuKernels {
  bool early_start = false;     // elementwise kernels begin while the kernel before them ends; the same bits
  bool clustered_loss = false;  // a row of cross-entropy over a cluster of blocks; the same bits
  bool masked_mma = false;      // windows and documents in bf16 on tensor cores, with other roundings
  bool grouped_mma = false;     // products of experts in bf16 on tensor cores, with other roundings

  bool operator==(const GpuKernels&) const = default;
};

/// The engines of cuDNN that may compute attention's gradient: those that repeat their bits, or all.
enum class AttentionGradient : std::uint8_t { deterministic, fastest };

/// The choices among the libraries' kernels. They change bits, so they are the same on all ranks.
struct CudaSettings {
  /// Algorithms of matrix products and engines of attention; what it lacks, or all if it is null, uses the library's
  /// default one.
  std::shared_ptr<const GemmTuning> tuning = nullptr;
  /// Most bytes of workspace of a library's kernel for attention; Weft's own kernel takes the place of a larger one.
  std::int64_t attention_workspace = kAttentionWorkspace;
  /// Products of fp32 round their factors to TF32, which tensor cores multiply.
  bool tf32 = false;
  GpuKernels kernels = {};
  AttentionGradient attention_gradient = AttentionGradient::deterministic;
};

/// The choices among NCCL's ways. Protocol and number of channels decide where a ring begins to add, and so the bits.
struct NcclSettings {
  /// Of messages around the ring. NCCL's own choice takes LL for small ones, and LL128 where it deems the links safe.
  enum class Protocol : std::uint8_t { simple, ll, automatic };
  Protocol protocol = Protocol::simple;
  std::int64_t channels = 0;     // of a communicator, each a block of threads; 0: as many as NCCL wants
  bool grouped_gathers = false;  // gathers that stand next to one another run as one
  bool supervised = false;       // calls end before they return, under a supervisor's eyes
  bool registered = false;       // state and scratch lie in memory of NCCL's, known to every communicator
  friend bool operator==(const NcclSettings&, const NcclSettings&) = default;
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
                                                     Device& device, const TransportLimits& limits = {},
                                                     const NcclSettings& settings = {});

}  // namespace weft::execute
