// The functions of cuDNN that Weft calls. Its engines are descriptions without a kernel: our own attention runs.
#include "tests/gpu/emulator/cudnn.h"

#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

struct cudnnContext {};

namespace weft::emulator {
namespace {

// The backward graph has at least this number of operations, the forward graph fewer (cudnn_engines_test.cpp).
constexpr std::int64_t kBackwardOperations = 21;

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool backward = false;  // of a graph and its heuristic
  bool fallback = false;  // of a heuristic
  CudnnEngine engine = {};
};

struct Engines {
  std::mutex mutex;
  std::vector<CudnnEngine> offered;
};

Engines& engines() {
  static Engines all;
  return all;
}

Descriptor& of(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<Descriptor*>(descriptor);
}

std::vector<CudnnEngine> proposals(const Descriptor& heuristic) {
  const std::lock_guard lock(engines().mutex);
  return heuristic.backward && !heuristic.fallback ? engines().offered : std::vector<CudnnEngine>();
}

}  // namespace

void set_attention_engines(std::vector<CudnnEngine> offered) {
  const std::lock_guard lock(engines().mutex);
  engines().offered = std::move(offered);
}

}  // namespace weft::emulator

using weft::emulator::CudnnEngine;
using weft::emulator::Descriptor;
using weft::emulator::of;

extern "C" {

std::size_t cudnnGetVersion() {
  return CUDNN_VERSION;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "not supported by the emulated cuDNN";
}
void cudnnGetLastErrorString(char* text, std::size_t size) {
  if (size > 0) *text = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t /*handle*/, cudaStream_t /*stream*/) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Descriptor{type};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t /*type*/, int64_t count, const void* values) {
  const auto named = [&]() -> const Descriptor& { return of(*static_cast<const cudnnBackendDescriptor_t*>(values)); };
  Descriptor& to = of(descriptor);
  if (name == CUDNN_ATTR_OPERATIONGRAPH_OPS) to.backward = count >= weft::emulator::kBackwardOperations;
  if (name == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) to.backward = named().backward;
  if (name == CUDNN_ATTR_ENGINEHEUR_MODE) {
    to.fallback = *static_cast<const cudnnBackendHeurMode_t*>(values) == CUDNN_HEUR_MODE_FALLBACK;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) to.engine = named().engine;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t /*type*/, int64_t most, int64_t* count,
                                       void* values) {
  const Descriptor& from = of(descriptor);
  *count = 1;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const std::vector<CudnnEngine> proposed = weft::emulator::proposals(from);
      *count = static_cast<int64_t>(proposed.size());
      for (std::int64_t i = 0; i < std::min(most, *count); ++i) {
        of(static_cast<cudnnBackendDescriptor_t*>(values)[i]).engine = proposed[static_cast<std::size_t>(i)];
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      of(*static_cast<cudnnBackendDescriptor_t*>(values)).engine = from.engine;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = from.engine.deterministic ? 0 : 1;
      if (*count > 0) *static_cast<cudnnBackendNumericalNote_t*>(values) = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *static_cast<int64_t*>(values) = from.engine.workspace_bytes;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t /*descriptor*/) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t /*handle*/, cudnnBackendDescriptor_t /*plan*/,
                                  cudnnBackendDescriptor_t /*pack*/) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // extern "C"
