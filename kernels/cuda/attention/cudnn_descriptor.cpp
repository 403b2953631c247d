// Owners and graphs for cuDNN's backend API; see cudnn_descriptor.h.
#include "kernels/cuda/attention/cudnn_descriptor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace weft::cuda {
namespace {

std::string message_of(cudnnStatus_t status, std::string_view what) {
  std::array<char, 1024> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  text.back() = '\0';
  std::string message = fmt::format("cuDNN: {}: {}", what, cudnnGetErrorString(status));
  if (text.front() != '\0') message += fmt::format(" ({})", text.data());
  return message;
}

std::vector<CudnnDescriptor> proposals(const CudnnGraph& graph, const CudnnTarget& target,
                                       cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor());
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.handle() == nullptr) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.properties());
  std::vector<CudnnDescriptor> configs;
  try {
    heuristic.finalize("choosing engines");
  } catch (const CudnnError& error) {
    if (error.unsupported()) return configs;
    throw;
  }

  const auto count = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    raw.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  if (raw.empty()) return configs;
  // The count above is an upper bound; fewer values may be returned.
  const auto written =
      heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(raw), raw.data());
  configs.erase(configs.begin() + std::min(written, std::ssize(configs)), configs.end());
  return configs;
}

CudnnDescriptor engine_of(const CudnnDescriptor& config) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  return engine;
}

bool is_deterministic(const CudnnDescriptor& engine) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const auto count =
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, std::ssize(notes), notes.data());
  const auto end = notes.begin() + std::min(count, std::ssize(notes));
  return std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == end;
}

std::string name_of(const CudnnDescriptor& config, const CudnnDescriptor& engine) {
  std::int64_t number = 0;
  engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
  std::vector<CudnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    raw.push_back(choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).get());
  }
  const auto count =
      config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(raw), raw.data());
  choices.erase(choices.begin() + std::min(count, std::ssize(choices)), choices.end());
  std::map<int, std::int64_t> knobs;
  for (const CudnnDescriptor& choice : choices) {
    cudnnBackendKnobType_t kind{};
    std::int64_t value = 0;
    choice.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &kind);
    choice.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
    knobs[static_cast<int>(kind)] = value;
  }
  std::string name = fmt::format("eng{}", number);
  for (const auto& [kind, value] : knobs) name += fmt::format("_k{}={}", kind, value);
  return name;
}

}  // namespace

CudnnError::CudnnError(cudnnStatus_t status, std::string_view what)
    : RuntimeFault(message_of(status, what)), status_(status) {}

bool CudnnError::unsupported() const {
  return CUDNN_STATUS_CATEGORY(static_cast<int>(status_)) == static_cast<int>(CUDNN_STATUS_NOT_SUPPORTED);
}

void check_cudnn(cudnnStatus_t status, std::string_view what) {
  if (status != CUDNN_STATUS_SUCCESS) throw CudnnError(status, what);
}

CudnnHandle::CudnnHandle() {
  check_cudnn(cudnnCreate(&handle_), "cudnnCreate");
}

CudnnHandle::~CudnnHandle() {
  cudnnDestroy(handle_);
}

void CudnnHandle::use(cudaStream_t stream) {
  if (stream_ == stream) return;
  check_cudnn(cudnnSetStream(handle_, stream), "cudnnSetStream");
  stream_ = stream;
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  check_cudnn(cudnnBackendCreateDescriptor(type, &descriptor_),
              fmt::format("creating a descriptor of type {}", static_cast<int>(type)));
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) cudnnBackendDestroyDescriptor(descriptor_);
}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                          const void* values) {
  check_cudnn(cudnnBackendSetAttribute(descriptor_, name, type, count, values),
              fmt::format("setting attribute {}", static_cast<int>(name)));
}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  cudnnBackendDescriptor_t raw = value.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
}

void CudnnDescriptor::finalize(std::string_view what) {
  check_cudnn(cudnnBackendFinalize(descriptor_), what);
}

std::int64_t CudnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                                  void* values) const {
  std::int64_t count = 0;
  check_cudnn(cudnnBackendGetAttribute(descriptor_, name, type, most, &count, values),
              fmt::format("reading attribute {}", static_cast<int>(name)));
  return count;
}

CudnnTarget::CudnnTarget(std::string_view device_properties_json) {
  properties_.emplace(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::ssize(device_properties_json),
                   device_properties_json.data());
  properties_->finalize("reading a description of a device");
}

CudnnGraph::Dims CudnnGraph::packed(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

const CudnnGraph::Tensor& CudnnGraph::add(std::int64_t uid, cudnnDataType_t type, const Dims& dims, const Dims& strides,
                                          bool is_virtual, bool by_value) {
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value);
  tensor.finalize(fmt::format("describing tensor {}", uid));
  return tensors_.emplace_back(Tensor{std::move(tensor), uid, dims, strides});
}

const CudnnGraph::Tensor& CudnnGraph::memory(std::int64_t uid, cudnnDataType_t type, const Dims& dims,
                                             const Dims& strides) {
  return add(uid, type, dims, strides, false, false);
}

const CudnnGraph::Tensor& CudnnGraph::scalar(std::int64_t uid) {
  return add(uid, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

const CudnnGraph::Tensor& CudnnGraph::inner(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
  return add(next_inner_++, type, dims, strides, true, false);
}

const CudnnGraph::Tensor& CudnnGraph::add_pointwise(cudnnPointwiseMode_t mode, const Pointwise& options,
                                                    const Tensor& x, const Tensor* b, const Tensor* mask,
                                                    const Tensor& y) {
  CudnnDescriptor& setting = settings_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  setting.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  setting.set(CUDNN_ATTR_POINTWISE_MATH_PREC, options.precision);
  if (options.axis) setting.set(CUDNN_ATTR_POINTWISE_AXIS, *options.axis);
  setting.finalize(fmt::format("describing pointwise mode {}", static_cast<int>(mode)));

  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, setting);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
  if (mask != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask->descriptor);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
  operation.finalize(fmt::format("making a pointwise operation of mode {}", static_cast<int>(mode)));
  return y;
}

const CudnnGraph::Tensor& CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y) {
  return add_pointwise(mode, {}, x, nullptr, nullptr, y);
}

const CudnnGraph::Tensor& CudnnGraph::pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b,
                                                const Tensor& y) {
  const bool compares = mode >= CUDNN_POINTWISE_CMP_EQ && mode <= CUDNN_POINTWISE_CMP_LE;
  return add_pointwise(mode, {.precision = compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT, .axis = {}}, x, &b,
                       nullptr, y);
}

const CudnnGraph::Tensor& CudnnGraph::index(const Tensor& x, std::int64_t axis, const Tensor& y) {
  return add_pointwise(CUDNN_POINTWISE_GEN_INDEX, {.precision = CUDNN_DATA_INT32, .axis = axis}, x, nullptr, nullptr,
                       y);
}

const CudnnGraph::Tensor& CudnnGraph::select(const Tensor& mask, const Tensor& x, const Tensor& b, const Tensor& y) {
  return add_pointwise(CUDNN_POINTWISE_BINARY_SELECT, {}, x, &b, &mask, y);
}

const CudnnGraph::Tensor& CudnnGraph::reduce(cudnnReduceTensorOp_t op, const Tensor& x, const Tensor& y) {
  CudnnDescriptor& setting = settings_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  setting.set(CUDNN_ATTR_REDUCTION_OPERATOR, op);
  setting.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  setting.finalize("describing a reduction");

  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, setting);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
  operation.finalize("making a reduction");
  return y;
}

const CudnnGraph::Tensor& CudnnGraph::matmul(const Tensor& a, const Tensor& b, const Tensor& c) {
  CudnnDescriptor& setting = settings_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  setting.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  setting.finalize("describing a product");

  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, setting);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
  operation.finalize("making a product");
  return c;
}

const CudnnGraph::Tensor& CudnnGraph::reshape(const Tensor& x, const Tensor& y) {
  CudnnDescriptor& operation = operations_.emplace_back(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
  operation.finalize("making a reshape");
  return y;
}

void CudnnGraph::finalize(const CudnnTarget& target) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const CudnnDescriptor& operation : operations_) raw.push_back(operation.get());
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle() != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(raw), raw.data());
  graph.finalize("making a graph of operations");
  graph_ = std::move(graph);
}

std::vector<CudnnEngine> propose_engines(const CudnnGraph& graph, const CudnnTarget& target) {
  std::vector<CudnnEngine> engines;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (CudnnDescriptor& config : proposals(graph, target, mode)) {
      const CudnnDescriptor engine = engine_of(config);
      std::string name = name_of(config, engine);
      engines.push_back({std::move(config), is_deterministic(engine), std::move(name)});
    }
  }
  return engines;
}

CudnnDescriptor make_cudnn_plan(const CudnnEngine& engine, const CudnnTarget& target) {
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.handle() != nullptr) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle());
  } else {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target.properties());
  }
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
  plan.finalize("compiling a plan");
  return plan;
}

std::int64_t workspace_bytes_of(const CudnnDescriptor& plan) {
  std::int64_t bytes = 0;
  plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  return bytes;
}

std::int64_t workspace_bytes_of(const CudnnEngine& engine) {
  std::int64_t bytes = 0;
  engine.config.get(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  return bytes;
}

}  // namespace weft::cuda
