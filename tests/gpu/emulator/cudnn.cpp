// The functions of cuDNN that Weft calls.
#include "tests/gpu/emulator/cudnn.h"

#include <cudnn.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/emulator/cudnn_graph.h"
#include "tests/gpu/emulator/failures.h"
#include "tests/gpu/emulator/gpu.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace weft::emulator {
namespace {

// The backward graph has at least this number of operations, the forward graph fewer (cudnn_engines_test.cpp).
constexpr std::size_t kBackwardOperations = 21;
constexpr std::int64_t kPieces = CUDNN_KNOB_TYPE_KERNEL_CFG;  // the knob of an engine

struct Engines {
  std::mutex mutex;
  std::vector<CudnnEngine> backward, forward;
  std::int64_t runs = 0;  // of engines that aren't deterministic
};

Engines& engines() {
  static Engines all;
  return all;
}

// What a descriptor of cuDNN points to: other descriptors keep the node alive.
using Owner = std::shared_ptr<CudnnNode>;

Owner& owner_of(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<Owner*>(descriptor);
}
CudnnNode& node_of(cudnnBackendDescriptor_t descriptor) {
  return *owner_of(descriptor);
}

const CudnnNode& graph_of(const CudnnNode& heuristic) {
  return heuristic.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
}

std::vector<CudnnEngine> proposals(const CudnnNode& heuristic) {
  if (heuristic.number(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK) return {};
  const bool backward = graph_of(heuristic).parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).size() >= kBackwardOperations;
  const std::lock_guard lock(engines().mutex);
  return backward ? engines().backward : engines().forward;
}

std::int64_t pieces_of_run(const CudnnEngine& engine) {
  if (engine.deterministic) return engine.pieces;
  const std::lock_guard lock(engines().mutex);
  return engine.pieces + engines().runs++ % 3;
}

std::int64_t number_at(const void* values, std::int64_t index, std::size_t size) {
  std::int64_t number = 0;  // smaller types leave its higher bytes
  std::memcpy(&number, static_cast<const std::byte*>(values) + static_cast<std::size_t>(index) * size, size);
  return number;
}

std::size_t size_of_value(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
      return sizeof(std::int64_t);
    default:
      return sizeof(int);  // enumerations
  }
}

// Writes one number of the attribute's type.
cudnnStatus_t give(void* values, std::int64_t number, std::size_t size, std::int64_t most, std::int64_t* count) {
  *count = 1;
  if (most > 0) std::memcpy(values, &number, size);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

void set_attention_engines(std::vector<CudnnEngine> backward, std::vector<CudnnEngine> forward) {
  const std::lock_guard lock(engines().mutex);
  engines().backward = std::move(backward);
  engines().forward = std::move(forward);
}

void offer_usual_attention_engines() {
  const CudnnEngine first{.workspace_bytes = 4096}, second{.pieces = 2, .number = 2},
      shifting{.deterministic = false, .pieces = 3, .number = 3};
  set_attention_engines({shifting, first, second}, {first, second});
}

}  // namespace weft::emulator

using weft::emulator::CudnnEngine;
using weft::emulator::CudnnNode;
using weft::emulator::node_of;
using weft::emulator::Owner;
using weft::emulator::owner_of;

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
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Owner(std::make_shared<CudnnNode>(CudnnNode{type}));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &owner_of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  CudnnNode& to = node_of(descriptor);
  for (std::int64_t i = 0; i < count; ++i) {
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      to.parts[name].push_back(owner_of(static_cast<const cudnnBackendDescriptor_t*>(values)[i]));
    } else {
      to.numbers[name].push_back(weft::emulator::number_at(values, i, weft::emulator::size_of_value(type)));
    }
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t* count, void* values) {
  const CudnnNode& from = node_of(descriptor);
  const CudnnEngine& engine = name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE
                                  ? from.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine
                                  : from.engine;
  const auto number = [&](std::int64_t value) {
    return weft::emulator::give(values, value, weft::emulator::size_of_value(type), most, count);
  };
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const std::vector<CudnnEngine> proposed = weft::emulator::proposals(from);
      *count = static_cast<int64_t>(proposed.size());
      for (std::int64_t i = 0; i < std::min(most, *count); ++i) {
        CudnnNode& config = node_of(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
        config.engine = proposed[static_cast<std::size_t>(i)];
        config.parts[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = from.parts.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      *count = 1;
      node_of(*static_cast<cudnnBackendDescriptor_t*>(values)).engine = engine;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      if (!engine.deterministic) return number(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
      *count = 0;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return number(engine.number);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      return number(weft::emulator::kPieces);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      return number(engine.pieces);
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return number(engine.workspace_bytes);
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t /*descriptor*/) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const auto config = node_of(plan).parts.at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).at(0);
  const auto work = [config, arguments = std::shared_ptr<const CudnnNode>(owner_of(pack))] {
    const CudnnEngine& engine = config->engine;
    std::this_thread::sleep_for(engine.takes);
    auto* const workspace = std::bit_cast<void*>(arguments->number(CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
    // Its contents afterwards are undefined.
    if (engine.workspace_bytes > 0) std::memset(workspace, 0xff, static_cast<std::size_t>(engine.workspace_bytes));
    weft::emulator::compute_graph(config->part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH), *arguments,
                                  weft::emulator::pieces_of_run(engine));
  };
  const cudaError_t error = weft::emulator::enqueue_fallible(
      "cudnnBackendExecute", handle->stream, {.name = "attention by cuDNN", .work = work, .kernel = true});
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
