// The operation graphs that cuDNN's flash-attention engines recognise, and their plans; see cudnn_attention.h. The
// engines match a graph as a pattern: its operations, their order, and the types inside.
#include "kernels/cuda/attention/cudnn_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace weft::cuda {
namespace {

using Dims = CudnnGraph::Dims;
using Tensor = CudnnGraph::Tensor;

// Ids of the arguments that the caller gives at each run.
enum Id : std::int64_t { kQ = 1, kK, kV, kOut, kLogSumExp, kDout, kDq, kDk, kDv, kDelta, kScale, kMinusInfinity, kOne };

// [batch, heads, seq, head_dim] in rows of `stride` elements.
Dims matrix_dims(const AttentionLayout& layout, std::int64_t heads) {
  return {layout.batch, heads, layout.seq, layout.head_dim};
}

Dims matrix_strides(const AttentionLayout& layout, std::int64_t stride) {
  return {layout.seq * stride, layout.head_dim, stride, 1};
}

Dims score_dims(const AttentionLayout& layout) {
  return {layout.batch, layout.heads, layout.seq, layout.seq};
}

Dims row_dims(const AttentionLayout& layout) {
  return {layout.batch, layout.heads, layout.seq, 1};
}

// The same elements with rows and columns exchanged.
Dims transposed(const Dims& dims) {
  return {dims[0], dims[1], dims[3], dims[2]};
}

const Tensor& matrix(CudnnGraph& graph, const AttentionLayout& layout, Id id, std::int64_t heads, std::int64_t stride) {
  return graph.memory(id, CUDNN_DATA_BFLOAT16, matrix_dims(layout, heads), matrix_strides(layout, stride));
}

const Tensor& transposed_matrix(CudnnGraph& graph, const AttentionLayout& layout, Id id, std::int64_t heads,
                                std::int64_t stride) {
  return graph.memory(id, CUDNN_DATA_BFLOAT16, transposed(matrix_dims(layout, heads)),
                      transposed(matrix_strides(layout, stride)));
}

const Tensor& rows_in_memory(CudnnGraph& graph, const AttentionLayout& layout, Id id) {
  const Dims dims = row_dims(layout);
  return graph.memory(id, CUDNN_DATA_FLOAT, dims, CudnnGraph::packed(dims));
}

// Replaces the scores of keys after the query by −∞.
const Tensor& causal(CudnnGraph& graph, const AttentionLayout& layout, const Tensor& scores) {
  const Dims dims = score_dims(layout);
  const Tensor& row = graph.index(scores, 2, graph.inner(CUDNN_DATA_INT32, dims));
  const Tensor& column = graph.index(scores, 3, graph.inner(CUDNN_DATA_INT32, dims));
  const Tensor& mask = graph.pointwise(CUDNN_POINTWISE_CMP_GE, row, column, graph.inner(CUDNN_DATA_BOOLEAN, dims));
  return graph.select(mask, scores, graph.scalar(kMinusInfinity), graph.inner(CUDNN_DATA_FLOAT, dims));
}

CudnnGraph forward_graph(const AttentionLayout& layout) {
  CudnnGraph graph;
  const Dims scores_shape = score_dims(layout), rows_shape = row_dims(layout);
  const auto scores = [&]() -> const Tensor& { return graph.inner(CUDNN_DATA_FLOAT, scores_shape); };
  const auto rows = [&]() -> const Tensor& { return graph.inner(CUDNN_DATA_FLOAT, rows_shape); };
  const Tensor& q = matrix(graph, layout, kQ, layout.heads, layout.q_stride);
  const Tensor& kt = transposed_matrix(graph, layout, kK, layout.kv_heads, layout.k_stride);
  const Tensor& v = matrix(graph, layout, kV, layout.kv_heads, layout.v_stride);

  const Tensor& scaled =
      graph.pointwise(CUDNN_POINTWISE_MUL, graph.matmul(q, kt, scores()), graph.scalar(kScale), scores());
  const Tensor& masked = causal(graph, layout, scaled);
  const Tensor& largest = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, masked, rows());
  const Tensor& less = graph.pointwise(CUDNN_POINTWISE_SUB, masked, largest, scores());
  const Tensor& exponentials = graph.pointwise(CUDNN_POINTWISE_EXP, less, scores());
  const Tensor& sum = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, rows());
  const Tensor& log_sum = graph.pointwise(CUDNN_POINTWISE_LOG, sum, rows());
  graph.pointwise(CUDNN_POINTWISE_ADD, largest, log_sum, rows_in_memory(graph, layout, kLogSumExp));
  const Tensor& p =
      graph.pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, graph.inner(CUDNN_DATA_BFLOAT16, scores_shape));
  graph.matmul(p, v, matrix(graph, layout, kOut, layout.heads, layout.out_stride));
  return graph;
}

// Writes aᵀ·b, where a holds scores, to a matrix of the keys' shape. If several query heads share a key/value head,
// each query head first has its own product, and the products are added.
void multiply_to_keys(CudnnGraph& graph, const AttentionLayout& layout, const Tensor& a, const Tensor& b, Id id,
                      std::int64_t stride) {
  // The reshape transposes only by strides, and rounds to bf16, as the products require.
  const Dims shape = score_dims(layout);
  const Tensor& at =
      graph.reshape(a, graph.inner(CUDNN_DATA_BFLOAT16, transposed(shape), transposed(CudnnGraph::packed(shape))));
  const Tensor& result = matrix(graph, layout, id, layout.kv_heads, stride);
  if (layout.heads == layout.kv_heads) {
    graph.matmul(at, b, result);
    return;
  }
  const Tensor& each = graph.matmul(at, b, graph.inner(CUDNN_DATA_BFLOAT16, matrix_dims(layout, layout.heads)));
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, each, result);
}

CudnnGraph backward_graph(const AttentionLayout& layout) {
  CudnnGraph graph;
  const Dims scores_shape = score_dims(layout), rows_shape = row_dims(layout);
  const auto scores = [&]() -> const Tensor& { return graph.inner(CUDNN_DATA_FLOAT, scores_shape); };
  const auto rows = [&]() -> const Tensor& { return graph.inner(CUDNN_DATA_FLOAT, rows_shape); };
  const Tensor& q = matrix(graph, layout, kQ, layout.heads, layout.q_stride);
  const Tensor& kt = transposed_matrix(graph, layout, kK, layout.kv_heads, layout.k_stride);
  const Tensor& vt = transposed_matrix(graph, layout, kV, layout.kv_heads, layout.v_stride);
  const Tensor& out = matrix(graph, layout, kOut, layout.heads, layout.out_stride);
  const Tensor& dout = matrix(graph, layout, kDout, layout.heads, layout.dout_stride);
  const Tensor& log_sum_exp = rows_in_memory(graph, layout, kLogSumExp);
  const Tensor& scale = graph.scalar(kScale);

  // delta = Σ dout·out of every row. The pattern requires a factor here, which is meant for dropout.
  const Tensor& products =
      graph.pointwise(CUDNN_POINTWISE_MUL, dout, out, graph.inner(CUDNN_DATA_FLOAT, matrix_dims(layout, layout.heads)));
  const Tensor& sums = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, rows());
  const Tensor& delta =
      graph.pointwise(CUDNN_POINTWISE_MUL, sums, graph.scalar(kOne), rows_in_memory(graph, layout, kDelta));

  // The probabilities, recomputed, and dV = Pᵀ·dout.
  const Tensor& scaled = graph.pointwise(CUDNN_POINTWISE_MUL, graph.matmul(q, kt, scores()), scale, scores());
  const Tensor& less = graph.pointwise(CUDNN_POINTWISE_SUB, scaled, log_sum_exp, scores());
  const Tensor& p = graph.pointwise(CUDNN_POINTWISE_EXP, causal(graph, layout, less), scores());
  multiply_to_keys(graph, layout, p, dout, kDv, layout.dv_stride);

  // dS = P·(dout·Vᵀ − delta)·scale, and dK = dSᵀ·Q.
  const Tensor& dp = graph.matmul(dout, vt, scores());
  const Tensor& centered = graph.pointwise(CUDNN_POINTWISE_SUB, dp, delta, scores());
  const Tensor& weighted = graph.pointwise(CUDNN_POINTWISE_MUL, centered, p, scores());
  const Tensor& ds =
      graph.pointwise(CUDNN_POINTWISE_MUL, weighted, scale, graph.inner(CUDNN_DATA_BFLOAT16, scores_shape));
  multiply_to_keys(graph, layout, ds, q, kDk, layout.dk_stride);

  // dQ = dS·K, where K is the transpose of Kᵀ.
  const Tensor& k = graph.reshape(kt, graph.inner(CUDNN_DATA_BFLOAT16, transposed(kt.dims), transposed(kt.strides)));
  graph.matmul(ds, k, matrix(graph, layout, kDq, layout.heads, layout.dq_stride));
  return graph;
}

CudnnGraph make_graph(const AttentionLayout& layout, bool backward) {
  return backward ? backward_graph(layout) : forward_graph(layout);
}

// Why an engine isn't one of those; "" if it is.
std::string refused(const CudnnEngine& engine, const AttentionEngines& engines) {
  if (!engines.name.empty() && engine.name != engines.name) return "no engine is " + engines.name;
  if (!engine.deterministic && !engines.any_bits) return "an engine is not deterministic";
  if (const std::int64_t bytes = workspace_bytes_of(engine); bytes > engines.most_workspace) {
    return fmt::format("an engine takes {} bytes of workspace, and may take {}", bytes, engines.most_workspace);
  }
  return "";
}

constexpr std::int64_t kWorkspaceAlignment = 256;

// Alignment in bytes that the graphs promise for every address (CudnnGraph::memory).
constexpr std::int64_t kAlignment = 16;

bool is_aligned(const AttentionLayout& layout) {
  const auto strides = {layout.q_stride,    layout.k_stride,  layout.v_stride,  layout.out_stride,
                        layout.dout_stride, layout.dq_stride, layout.dk_stride, layout.dv_stride};
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) {
    return stride * static_cast<std::int64_t>(size_of(DType::bf16)) % kAlignment == 0;
  });
}

}  // namespace

CudnnAttention::CudnnAttention(CudnnHandle& handle, const AttentionLayout& layout, bool backward, CudnnGraph graph,
                               CudnnEngine engine, CudnnDescriptor plan)
    : handle_(&handle),
      backward_(backward),
      scale_(1.0F / std::sqrt(static_cast<float>(layout.head_dim))),
      minus_infinity_(-std::numeric_limits<float>::infinity()),
      delta_bytes_(0),
      plan_bytes_(workspace_bytes_of(plan)),
      graph_(std::move(graph)),
      engine_(std::move(engine)),
      plan_(std::move(plan)) {
  if (!backward) return;
  const std::int64_t bytes = layout.batch * layout.heads * layout.seq * static_cast<std::int64_t>(sizeof(float));
  delta_bytes_ = (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

std::unique_ptr<CudnnAttention> CudnnAttention::make(CudnnHandle& handle, const AttentionLayout& layout, bool backward,
                                                     const AttentionEngines& engines, std::string* why) {
  std::string reason = "no engine supports the graph";
  std::vector<std::unique_ptr<CudnnAttention>> found = find(handle, layout, backward, engines, 1, reason);
  if (!found.empty()) return std::move(found.front());
  if (why != nullptr) *why = reason;
  return nullptr;
}

std::vector<std::unique_ptr<CudnnAttention>> CudnnAttention::by_every_engine(CudnnHandle& handle,
                                                                             const AttentionLayout& layout,
                                                                             bool backward,
                                                                             const AttentionEngines& engines) {
  std::string reason;
  return find(handle, layout, backward, engines, std::numeric_limits<std::size_t>::max(), reason);
}

std::vector<std::unique_ptr<CudnnAttention>> CudnnAttention::find(CudnnHandle& handle, const AttentionLayout& layout,
                                                                  bool backward, const AttentionEngines& engines,
                                                                  std::size_t most, std::string& why) {
  std::vector<std::unique_ptr<CudnnAttention>> found;
  if (!is_aligned(layout)) {
    why = "rows don't begin at multiples of 16 bytes";
    return found;
  }
  try {
    const CudnnTarget target(handle);
    for (std::size_t next = 0; found.size() < most;) {
      CudnnGraph graph = make_graph(layout, backward);  // an engine refers to its graph
      graph.finalize(target);
      std::vector<CudnnEngine> proposed = propose_engines(graph, target);
      bool taken = false;
      while (next < proposed.size()) {
        CudnnEngine& engine = proposed[next++];
        if (std::string reason = refused(engine, engines); !reason.empty()) {
          why = std::move(reason);
          continue;
        }
        std::optional<CudnnDescriptor> plan;
        try {
          plan.emplace(make_cudnn_plan(engine, target));
        } catch (const CudnnError& error) {
          why = error.what();  // a proposal may not fit after all
          continue;
        }
        found.emplace_back(
            new CudnnAttention(handle, layout, backward, std::move(graph), std::move(engine), std::move(*plan)));
        taken = true;
        break;
      }
      if (!taken) return found;
    }
  } catch (const CudnnError& error) {
    if (!error.unsupported()) throw;
    why = error.what();
  }
  return found;
}

CudnnAttention::Bound CudnnAttention::bind(const AttentionPointers& pointers) const {
  std::vector<std::int64_t> ids;
  std::vector<const void*> values;
  const auto give_host = [&](Id id, const float* value) {
    ids.push_back(id);
    values.push_back(value);
  };
  const auto give = [&](Id id, const void* value) {
    if (reinterpret_cast<std::uintptr_t>(value) % kAlignment != 0) {
      throw std::logic_error("cuda::CudnnAttention: a buffer isn't 16-byte aligned");
    }
    ids.push_back(id);
    values.push_back(value);
  };
  give(kQ, pointers.q);
  give(kK, pointers.k);
  give(kV, pointers.v);
  give(kOut, pointers.out);
  give(kLogSumExp, pointers.log_sum_exp);
  give_host(kScale, &scale_);
  give_host(kMinusInfinity, &minus_infinity_);
  if (backward_) {
    give(kDout, pointers.dout);
    give(kDq, pointers.dq);
    give(kDk, pointers.dk);
    give(kDv, pointers.dv);
    give(kDelta, pointers.workspace);
    give_host(kOne, &one_);
  }
  void* workspace = plan_bytes_ > 0 ? pointers.workspace + delta_bytes_ : nullptr;

  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::ssize(values), values.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  pack.finalize("binding attention to its buffers");
  return {*this, std::move(pack)};
}

void CudnnAttention::Bound::run(cudaStream_t stream) const {
  attention_->handle_->use(stream);
  check_cudnn(cudnnBackendExecute(attention_->handle_->get(), attention_->plan_.get(), pack_.get()),
              attention_->backward_ ? "attention_backward" : "attention_forward");
}

EngineCount cudnn_engines(const AttentionLayout& layout, bool backward, std::string_view device_properties_json) {
  const CudnnTarget target(device_properties_json);
  CudnnGraph graph = make_graph(layout, backward);
  graph.finalize(target);
  EngineCount count{.operations = graph.operations()};
  for (const CudnnEngine& engine : propose_engines(graph, target)) {
    ++count.engines;
    count.names.insert(engine.name);
    if (engine.deterministic && ++count.deterministic == 1) count.workspace_bytes = workspace_bytes_of(engine);
  }
  return count;
}

std::string_view h100_properties() {
  return R"({"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,"deviceId":0,)"
         R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
         R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
         R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
         R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
         R"("supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,)"
         R"("deviceName":"NVIDIA H100 80GB HBM3","totalGlobalMem":85000000000})";
}

}  // namespace weft::cuda
