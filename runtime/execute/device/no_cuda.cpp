// The devices of a program that was built without CUDA: none.
#include "base/error.h"
#include "runtime/execute/device/device.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/device/transport.h"
#include "runtime/execute/tuning/gemm_trials.h"

namespace weft::execute {
namespace {

[[noreturn]] void refuse() {
  throw UserError("device cuda: this program was built without CUDA", "a build that found a CUDA toolkit",
                  "install one and build again (cmake -DGPU=ON says what it misses), or use --device cpu");
}

}  // namespace

DeviceReport report_devices() {
  DeviceReport report;
  report.missing = "built without CUDA: no CUDA toolkit was found";
  return report;
}

void expect_cuda_device() {
  refuse();
}

std::unique_ptr<Device> make_cuda_device(int /*ordinal*/, CudaSettings /*settings*/) {
  refuse();
}

TuningMachine device_tuning_machine() {
  return {"no GPU", "cuBLASLt, which this program was built without", "cuDNN, which this program was built without"};
}

TryGemm device_gemm_trials(const GemmTrialOptions& /*options*/) {
  refuse();
}

TryAttention device_attention_trials(const GemmTrialOptions& /*options*/, std::int64_t /*most_workspace*/) {
  refuse();
}

std::uint64_t device_identity(int /*ordinal*/) {
  return 0;
}

std::unique_ptr<DeviceTransport> make_nccl_transport(comm::World& /*world*/, std::optional<graph::Grid> /*grid*/,
                                                     Device& /*device*/, const TransportLimits& /*limits*/,
                                                     const NcclSettings& /*settings*/) {
  refuse();
}

}  // namespace weft::execute
