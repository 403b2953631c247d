// Causal bf16 attention by cuDNN's fused kernels: one compiled plan for each layout and direction. Both directions are
// reproducible bit for bit, unless other engines are asked for. Our own kernels are the fallback and the reference.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/cudnn_descriptor.h"

namespace weft::cuda {

/// Query head h reads key/value head h / (heads / kv_heads); scores are scaled by 1/√head_dim. Strides are row strides
/// in elements. q, out, dout and dq are windows of [batch·seq, heads·head_dim]; k, v, dk and dv of [batch·seq,
/// kv_heads·head_dim]. A window of a wider matrix (Q|K|V) has that matrix's stride. The forward pass ignores the
/// gradients' strides. Rows must begin at multiples of 16 bytes.
struct AttentionLayout {
  std::int64_t batch, seq, heads, kv_heads, head_dim;
  std::int64_t q_stride, k_stride, v_stride, out_stride;
  std::int64_t dout_stride = 0, dq_stride = 0, dk_stride = 0, dv_stride = 0;

  auto operator<=>(const AttentionLayout&) const = default;
};

/// Device memory, 16-byte aligned (`workspace`: 256). The forward pass reads q, k and v and writes out and log_sum_exp.
/// The backward pass reads these five and dout, and writes dq, dk and dv. log_sum_exp: f32 [batch·heads·seq], log Σ exp
/// of the scaled scores, as in AttentionForward.
struct AttentionPointers {
  std::byte* workspace = nullptr;
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  float* log_sum_exp = nullptr;
  const void* dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

/// Which of cuDNN's engines may run attention.
struct AttentionEngines {
  std::int64_t most_workspace = std::numeric_limits<std::int64_t>::max();  // of the engine's own, in bytes
  bool any_bits = false;                                                   // those that aren't deterministic, too
  std::string name = {};                                                   // only this one; empty: all
};

class CudnnAttention {
 public:
  /// The plan bound to a set of buffers: run() allocates nothing. It must not outlive its CudnnAttention.
  class Bound {
   public:
    void run(cudaStream_t stream) const;

   private:
    friend class CudnnAttention;
    Bound(const CudnnAttention& attention, CudnnDescriptor pack) : attention_(&attention), pack_(std::move(pack)) {}
    const CudnnAttention* attention_;
    CudnnDescriptor pack_;
  };

  /// The first of `engines`, cuDNN's best guess first, that compiles for the layout on the handle's device. Null if
  /// there is none; `why`, if given, then gets the reason. Takes about a second of CPU time. The handle must outlive
  /// the result. Either direction may run by our own kernels instead: log_sum_exp is the same.
  static std::unique_ptr<CudnnAttention> make(CudnnHandle& handle, const AttentionLayout& layout, bool backward,
                                              const AttentionEngines& engines, std::string* why = nullptr);

  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  /// For the backward pass, the workspace begins with Σ dout·out of every row (f32 [batch·heads·seq]); cuDNN's own
  /// workspace follows, which in its deterministic engines holds the gradient of all scores
  /// (runtime/execute/device/device_memory.h).
  std::int64_t workspace_bytes() const { return delta_bytes_ + plan_bytes_; }

  /// Throws std::logic_error for a buffer that isn't aligned as AttentionPointers requires.
  Bound bind(const AttentionPointers& pointers) const;

  /// bind() and run() once, for tests.
  void run(cudaStream_t stream, const AttentionPointers& pointers) const { bind(pointers).run(stream); }

  /// One for each of `engines` that compiles, cuDNN's best guess first: to measure them.
  static std::vector<std::unique_ptr<CudnnAttention>> by_every_engine(CudnnHandle& handle,
                                                                      const AttentionLayout& layout, bool backward,
                                                                      const AttentionEngines& engines);
  bool deterministic() const { return engine_.deterministic; }
  const std::string& engine() const { return engine_.name; }

 private:
  /// Up to `most` of them. `why`: gets the last reason for which an engine isn't among them.
  static std::vector<std::unique_ptr<CudnnAttention>> find(CudnnHandle& handle, const AttentionLayout& layout,
                                                           bool backward, const AttentionEngines& engines,
                                                           std::size_t most, std::string& why);

  CudnnAttention(CudnnHandle& handle, const AttentionLayout& layout, bool backward, CudnnGraph graph,
                 CudnnEngine engine, CudnnDescriptor plan);

  CudnnHandle* handle_;
  bool backward_;
  // The values of the graph's scalars; cuDNN keeps pointers to them.
  float scale_, minus_infinity_, one_ = 1.0F;
  std::int64_t delta_bytes_, plan_bytes_;
  // A plan refers to its graph and engine.
  CudnnGraph graph_;
  CudnnEngine engine_;
  CudnnDescriptor plan_;
};

/// The engines that cuDNN would offer on a device that isn't present, for tests without a GPU.
struct EngineCount {
  std::size_t engines = 0, deterministic = 0;
  std::size_t operations = 0;        // of the graph
  std::int64_t workspace_bytes = 0;  // of the first deterministic engine
  std::set<std::string> names = {};
};

/// `device_properties_json`: h100_properties(), or a text with the same fields. Throws CudnnError if cuDNN refuses the
/// graph itself. An engine counts only if cuDNN can load libcuda.so.1 and libnvrtc. Without a driver, first load the
/// toolkit's lib64/stubs/libcuda.so, whose internal name is libcuda.so.1, by dlopen(…, RTLD_NOW | RTLD_GLOBAL).
EngineCount cudnn_engines(const AttentionLayout& layout, bool backward, std::string_view device_properties_json);

/// The description of an H100 SXM in the format of cuDNN 9.
std::string_view h100_properties();

}  // namespace weft::cuda
