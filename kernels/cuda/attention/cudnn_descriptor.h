// cuDNN's backend API with owners and exceptions: handles, descriptors, and graphs of operations on 4-D tensors, which
// cuDNN compiles to one or a few kernels. "Graph API" in cuDNN's documentation explains the operations.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace weft::cuda {

/// The failure of a call to cuDNN.
class CudnnError : public RuntimeFault {
 public:
  CudnnError(cudnnStatus_t status, std::string_view what);

  /// Whether the call was valid but this cuDNN, device or driver doesn't support it.
  bool unsupported() const;

 private:
  cudnnStatus_t status_;
};

/// Throws CudnnError naming `what` unless `status` is success.
void check_cudnn(cudnnStatus_t status, std::string_view what);

/// cuDNN on the device that was current at construction. For one thread only; work goes to the stream set last.
class CudnnHandle {
 public:
  CudnnHandle();
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  cudnnHandle_t get() const { return handle_; }
  void use(cudaStream_t stream);

 private:
  cudnnHandle_t handle_ = nullptr;
  std::optional<cudaStream_t> stream_;
};

/// The type of an attribute that is one Value; nothing for other attributes.
template <class Value>
inline constexpr std::nullopt_t kAttributeType = std::nullopt;
template <>
inline constexpr auto kAttributeType<std::int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto kAttributeType<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto kAttributeType<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto kAttributeType<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
template <>
inline constexpr auto kAttributeType<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto kAttributeType<cudnnHandle_t> = CUDNN_TYPE_HANDLE;

/// Owns a backend descriptor: first its attributes are set, then it is finalized; after that it is only read.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values);
  template <class Value>
  requires(!std::is_same_v<decltype(kAttributeType<Value>), const std::nullopt_t>) void set(
      cudnnBackendAttributeName_t name, const Value& value) {
    set(name, kAttributeType<Value>, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    set(name, CUDNN_TYPE_INT64, std::ssize(values), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  void finalize(std::string_view what);

  /// Returns the number of the attribute's values, and writes at most `most` of them to `values`.
  std::int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                   void* values) const;

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

/// The device that a plan is for: the handle's or, for tests without a GPU, one described in JSON. The JSON has the
/// fields that cuDNN itself writes (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION); the error for a missing field names it.
class CudnnTarget {
 public:
  explicit CudnnTarget(const CudnnHandle& handle) : handle_(handle.get()) {}
  explicit CudnnTarget(std::string_view device_properties_json);

  cudnnHandle_t handle() const { return handle_; }
  const CudnnDescriptor& properties() const { return *properties_; }  // only if handle() is null

 private:
  cudnnHandle_t handle_ = nullptr;
  std::optional<CudnnDescriptor> properties_;
};

/// A graph under construction. Tensors and operations live as long as the graph; references to tensors stay valid.
/// Operations compute in fp32, comparisons in bool and indices in int32.
class CudnnGraph {
 public:
  using Dims = std::array<std::int64_t, 4>;

  struct Tensor {
    CudnnDescriptor descriptor;
    std::int64_t uid;
    Dims dims, strides;
  };

  static Dims packed(const Dims& dims);

  /// Memory that the caller passes at each run under the id `uid`, 16-byte aligned. Ids are below kFirstInner.
  const Tensor& memory(std::int64_t uid, cudnnDataType_t type, const Dims& dims, const Dims& strides);
  /// One fp32 number that the caller passes at each run, by a pointer to host memory.
  const Tensor& scalar(std::int64_t uid);
  /// A value inside the graph, which need not be written to memory.
  const Tensor& inner(cudnnDataType_t type, const Dims& dims, const Dims& strides);
  const Tensor& inner(cudnnDataType_t type, const Dims& dims) { return inner(type, dims, packed(dims)); }

  /// y = f(x) or f(x, b), element by element; b is broadcast along its dimensions of size 1.
  const Tensor& pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& y);
  const Tensor& pointwise(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b, const Tensor& y);
  /// The index of each element along `axis`.
  const Tensor& index(const Tensor& x, std::int64_t axis, const Tensor& y);
  /// y = mask ? x : b.
  const Tensor& select(const Tensor& mask, const Tensor& x, const Tensor& b, const Tensor& y);
  /// Reduces over the dimensions whose size is 1 in y but not in x, or over groups if y's size divides x's.
  const Tensor& reduce(cudnnReduceTensorOp_t op, const Tensor& x, const Tensor& y);
  /// The last two dimensions are matrices. If b has fewer heads than a, each head of b serves a group.
  const Tensor& matmul(const Tensor& a, const Tensor& b, const Tensor& c);
  /// The same elements with other dimensions and strides: a transposition.
  const Tensor& reshape(const Tensor& x, const Tensor& y);

  /// Ends construction.
  void finalize(const CudnnTarget& target);
  const CudnnDescriptor& descriptor() const { return *graph_; }
  std::size_t operations() const { return operations_.size(); }

  static constexpr std::int64_t kFirstInner = 1000;

 private:
  struct Pointwise {
    cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    std::optional<std::int64_t> axis;
  };
  const Tensor& add(std::int64_t uid, cudnnDataType_t type, const Dims& dims, const Dims& strides, bool is_virtual,
                    bool by_value);
  const Tensor& add_pointwise(cudnnPointwiseMode_t mode, const Pointwise& options, const Tensor& x, const Tensor* b,
                              const Tensor* mask, const Tensor& y);

  std::list<Tensor> tensors_;
  std::list<CudnnDescriptor> settings_;  // the kind of each pointwise operation, reduction or product
  std::vector<CudnnDescriptor> operations_;
  std::optional<CudnnDescriptor> graph_;
  std::int64_t next_inner_ = kFirstInner;
};

/// One of cuDNN's ways to run a graph.
struct CudnnEngine {
  CudnnDescriptor config;
  bool deterministic;  // the same inputs give the same bits
  std::string name;    // "eng5_k10=3": its number and its knobs, as NVIDIA's own tools write them
};

/// The engines that cuDNN's heuristic proposes for a finalized graph, best guess first, then its fallback engines.
/// Empty if the graph isn't supported.
std::vector<CudnnEngine> propose_engines(const CudnnGraph& graph, const CudnnTarget& target);

/// Compiles the graph for an engine, in about a second. Throws CudnnError; often this only means that a proposed engine
/// doesn't fit after all.
CudnnDescriptor make_cudnn_plan(const CudnnEngine& engine, const CudnnTarget& target);

/// Bytes of device memory that a run of the plan, or of a plan for the engine, needs.
std::int64_t workspace_bytes_of(const CudnnDescriptor& plan);
std::int64_t workspace_bytes_of(const CudnnEngine& engine);

}  // namespace weft::cuda
