// See gpu_pairs.h. Each product runs by the fastest of cuBLASLt's algorithms for it.
#include "bench/gpu_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "bench/gpu_timing.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cudnn_attention.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/loss/cross_entropy.h"
#include "runtime/execute/cuda/cuda_tasks.h"

namespace weft::bench {
namespace {

using cuda::Matrix;

void print(const std::string& name, double value, const char* unit) {
  fmt::print("{}\t{:.5g}\t{}\n", name, value, unit);
  std::fflush(stdout);
}

std::vector<float> values_of(const Matrix& matrix) {
  const auto count = static_cast<std::size_t>(matrix.rows * matrix.cols);
  std::vector<std::byte> bytes(count * size_of(matrix.dtype));
  cuda::check(cudaMemcpy(bytes.data(), matrix.data, bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = matrix.dtype == DType::f32 ? reinterpret_cast<const float*>(bytes.data())[i]
                                           : static_cast<float>(reinterpret_cast<const bf16*>(bytes.data())[i]);
  }
  return values;
}

/// The same numbers in another matrix of its shape and dtype.
void copy_numbers(const Matrix& to, const Matrix& from) {
  cuda::check(cudaMemcpy(to.data, from.data, static_cast<std::size_t>(to.rows * to.cols) * size_of(to.dtype),
                         cudaMemcpyDeviceToDevice),
              "cudaMemcpy");
}

/// Fills the matrix with NaNs.
void poison(const Matrix& matrix) {
  cuda::check(
      cudaMemset(matrix.data, 0xff, static_cast<std::size_t>(matrix.rows * matrix.cols) * size_of(matrix.dtype)),
      "cudaMemset");
}

/// ‖a − b‖ / ‖b‖; infinite if a has a NaN.
double difference(const Matrix& a, const Matrix& b) {
  const std::vector<float> actual = values_of(a), expected = values_of(b);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(actual[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::isnan(difference) ? HUGE_VAL : std::sqrt(difference / norm);
}

// Roundings of bf16 are far below, other values far above.
constexpr double kMostDifference = 0.02;

class Pairs {
 public:
  explicit Pairs(bool quick) : quick_(quick), timer_(quick) {}

  const std::vector<std::string>& differences() const { return differences_; }

  /// A layer of width `h` over `t` tokens.
  void of_layer(std::int64_t t, std::int64_t h) {
    weight_gradient(t, 3 * h, h, false);
    weight_gradient(t, 3 * h, h, true);
    up(t, h);
    down_gradient(t, h);
    added_residual(t, h, h);
    added_residual(t, h, 4 * h);
    by_tf32(t, h);
  }

  /// The loss of `rows` tokens and its gradient: a row by a block, or by a cluster of blocks.
  void loss(std::int64_t rows, std::int64_t vocab) {
    const std::string name = fmt::format("cross-entropy {}x{}", rows, vocab);
    const Matrix logits = bf(rows, vocab), others = bf(rows, vocab), targets = pool_.tokens(rows, vocab);
    const Matrix losses = wide(1, rows), other_losses = wide(1, rows), scale = wide(1, 1);
    copy_numbers(others, logits);
    const execute::CudaLibraries libraries({.kernels = {.clustered_loss = true}});
    const cuda::Launch clustered = libraries.launch();
    cuda::Launch plain = clustered;
    plain.clustered_loss = false;
    beside(
        name, "by blocks", [&] { cuda::cross_entropy(plain, vocab, logits, targets, losses, &scale); }, "by clusters",
        [&] { cuda::cross_entropy(clustered, vocab, others, targets, other_losses, &scale); },
        {{others, logits}, {other_losses, losses}});
  }

  /// Products of experts' rows, of the last expert three times as many as of the first, and the gradients of their
  /// matrices.
  void grouped_products(std::int64_t rows, std::int64_t experts, std::int64_t hidden, std::int64_t ffn) {
    const std::string name = fmt::format("{} experts, {} rows, {}x{}", experts, rows, ffn, hidden);
    std::vector<std::int32_t> starts;
    for (std::int64_t e = 0; e <= experts; ++e) {
      starts.push_back(static_cast<std::int32_t>(rows * e * (e + experts) / (2 * experts * experts)));
    }
    const Matrix offsets = pool_.tokens(experts + 1, rows);
    cuda::check(cudaMemcpy(offsets.data, starts.data(), starts.size() * 4, cudaMemcpyDefault), "cudaMemcpy");
    const Matrix x = bf(rows, hidden), w = bf(experts * ffn, hidden), y = bf(rows, ffn), y2 = bf(rows, ffn),
                 dx = bf(rows, hidden), dx2 = bf(rows, hidden), dw = wide(experts * ffn, hidden),
                 dw2 = wide(experts * ffn, hidden);
    const cuda::Launch plain = with_scratch(0);
    cuda::Launch mma = plain;
    mma.grouped_mma = true;
    const auto pair = [&](const std::string& what, const std::function<void(const cuda::Launch&, bool)>& run,
                          const Results& results) {
      return beside(
          name + what, "in fp32", [&] { run(plain, false); }, "on tensor cores", [&] { run(mma, true); }, results,
          false);
    };
    const double forward = pair(" forward",
                                [&](const cuda::Launch& launch, bool second) {
                                  cuda::grouped_gemm(launch, true, x, w, offsets, second ? y2 : y, rows);
                                },
                                {{y2, y}});
    pair(" backward",
         [&](const cuda::Launch& launch, bool second) {
           cuda::grouped_gemm(launch, false, y, w, offsets, second ? dx2 : dx, rows);
         },
         {{dx2, dx}});
    pair(" gradient",
         [&](const cuda::Launch& launch, bool second) {
           cuda::grouped_gemm_gradient(launch, y, x, offsets, second ? dw2 : dw, false);
         },
         {{dw2, dw}});
    const Matrix one{w.data, ffn, hidden, hidden, w.dtype};
    const auto dense = fastest(plain, key_of(x, one, y2, false, true), x, one, y2, {});
    print(name + " forward on tensor cores, of a dense product's rate",
          100 * timer_([&] { dense->run(plain); }) / forward, "%");
    pool_.clear();
  }

  /// A chain of short kernels, each of which reads what the last one wrote; `captured`: as a graph.
  void chain(std::int64_t t, std::int64_t h, bool captured) {
    const std::string name = fmt::format("12 additions of {}x{}{}", t, h, captured ? " in a graph" : "");
    const Matrix a = bf(t, h), b = bf(t, h), c = bf(t, h), other_b = bf(t, h), other_c = bf(t, h);
    copy_numbers(other_b, b);
    const execute::CudaLibraries libraries({.kernels = {.early_start = true}});
    cuda::check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), "cudaStreamCreateWithPriority");
    const auto additions = [&](bool early, const Matrix& first, const Matrix& second) -> Work {
      const auto run = [&libraries, early, a, first, second](cudaStream_t stream) {
        cuda::Launch launch = libraries.launch();
        launch.early = launch.early && early, launch.stream = stream;
        for (int i = 0; i < 12; i += 2) {
          cuda::add(launch, a, first, second);
          cuda::add(launch, a, second, first);
        }
      };
      if (!captured) return [run] { run(nullptr); };
      const cudaGraphExec_t graph = graph_of(run);
      return [graph] { cuda::check(cudaGraphLaunch(graph, nullptr), "cudaGraphLaunch"); };
    };
    beside(name, "in order", additions(false, b, c), "early", additions(true, other_b, other_c),
           {{other_b, b}, {other_c, c}});
    for (cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
    graphs_.clear();
    cudaStreamDestroy(stream_);
  }

  /// Attention within documents of a quarter of the sequence, or in a window as long.
  void masked_attention(const cuda::AttentionShape& shape, bool documents) {
    const std::string name =
        fmt::format("attention b{} t{} h{} d{} {} {}", shape.batch, shape.seq, shape.heads, shape.head_dim,
                    documents ? "in documents of" : "in a window of", shape.seq / 4);
    const std::int64_t rows = shape.batch * shape.seq, q = shape.heads * shape.head_dim;
    std::vector<std::int32_t> starts;
    for (std::int64_t row = 0; row < rows; ++row) {
      starts.push_back(static_cast<std::int32_t>(row % shape.seq / (shape.seq / 4) * (shape.seq / 4)));
    }
    std::byte* const on_device = pool_.allocate(starts.size() * 4);
    cuda::check(cudaMemcpy(on_device, starts.data(), starts.size() * 4, cudaMemcpyDefault), "cudaMemcpy");
    cuda::AttentionShape masked = shape;
    if (!documents) masked.window = shape.seq / 4;
    const auto tensors = [&] {
      cuda::AttentionTensors made{bf(rows, q), bf(rows, q), bf(rows, q), bf(rows, q), wide(1, shape.heads * rows)};
      if (documents) made.document_starts = reinterpret_cast<const std::int32_t*>(on_device);
      return made;
    };
    const cuda::AttentionTensors plain = tensors(), on_cores = tensors();
    const cuda::AttentionGradients gradients{bf(rows, q), bf(rows, q), bf(rows, q), bf(rows, q)},
        others{gradients.dout, bf(rows, q), bf(rows, q), bf(rows, q)};
    copy_numbers(on_cores.q, plain.q), copy_numbers(on_cores.k, plain.k), copy_numbers(on_cores.v, plain.v);
    const cuda::Launch tiled = with_scratch(cuda::attention_backward_scratch_bytes(shape));
    cuda::Launch mma = tiled;
    mma.masked_mma = true;
    const double forward = beside(
        name + " forward", "in fp32", [&] { cuda::attention_forward(tiled, masked, plain); }, "on tensor cores",
        [&] { cuda::attention_forward(mma, masked, on_cores); },
        {{on_cores.out, plain.out}, {on_cores.log_sum_exp, plain.log_sum_exp}}, false);
    const double backward = beside(
        name + " backward", "in fp32", [&] { cuda::attention_backward(tiled, masked, plain, gradients); },
        "on tensor cores", [&] { cuda::attention_backward(mma, masked, on_cores, others); },
        {{others.dq, gradients.dq}, {others.dk, gradients.dk}, {others.dv, gradients.dv}}, false);
    cuda::AttentionTensors whole = on_cores;
    whole.document_starts = nullptr;
    const double without = timer_([&] {
      cuda::attention_forward(mma, shape, whole);
      cuda::attention_backward(mma, shape, whole, others);
    });
    print(name + ", on tensor cores over the same without", (forward + backward) / without, "times");
    pool_.clear();
  }

  void attention(const cuda::AttentionShape& shape) {
    const std::int64_t rows = shape.batch * shape.seq, q = shape.heads * shape.head_dim;
    const std::int64_t kv = shape.kv_heads * shape.head_dim;
    const auto matrix = [&](std::int64_t cols) { return bf(rows, cols); };
    const auto statistics = [&] { return wide(1, shape.batch * shape.heads * shape.seq); };
    const cuda::AttentionTensors own{matrix(q), matrix(kv), matrix(kv), matrix(q), statistics()};
    const cuda::AttentionGradients own_gradients{matrix(q), matrix(q), matrix(kv), matrix(kv)};
    const cuda::Launch launch = with_scratch(cuda::attention_backward_scratch_bytes(shape));
    const cuda::AttentionLayout layout{
        shape.batch, shape.seq, shape.heads, shape.kv_heads, shape.head_dim, q, kv, kv, q, q, q, kv, kv};
    const std::string name =
        fmt::format("attention b{} t{} h{} d{}", shape.batch, shape.seq, shape.heads, shape.head_dim);
    // Two products forward and five backward, over the causal half.
    const double product = static_cast<double>(shape.batch * shape.heads * shape.seq * shape.seq * shape.head_dim);
    cuda::AttentionPointers pointers{.q = own.q.data, .k = own.k.data, .v = own.v.data};

    const double forward = timer_([&] { cuda::attention_forward(launch, shape, own); });
    print(name + " forward, own", 2 * product / forward * 1e-9, "TFLOP/s");
    const Matrix out = matrix(q), log_sum_exp = statistics();
    pointers.out = out.data;
    pointers.log_sum_exp = static_cast<float*>(log_sum_exp.data);
    by_engines(name + " forward", layout, false, 2 * product, pointers,
               {{out, own.out}, {log_sum_exp, own.log_sum_exp}});

    const double backward = timer_([&] { cuda::attention_backward(launch, shape, own, own_gradients); });
    print(name + " backward, own", 5 * product / backward * 1e-9, "TFLOP/s");
    const auto& [dout, own_dq, own_dk, own_dv] = own_gradients;
    const Matrix dq = matrix(q), dk = matrix(kv), dv = matrix(kv);
    pointers.out = own.out.data;
    pointers.log_sum_exp = static_cast<float*>(own.log_sum_exp.data);
    pointers.dout = dout.data;
    pointers.dq = dq.data, pointers.dk = dk.data, pointers.dv = dv.data;
    by_engines(name + " backward", layout, true, 5 * product, pointers, {{dq, own_dq}, {dk, own_dk}, {dv, own_dv}});
    pool_.clear();
  }

 private:
  using Work = std::function<void()>;
  using Results = std::vector<std::pair<Matrix, Matrix>>;  // what one way wrote, and what our own kernels wrote

  cuda::Launch with_scratch(std::int64_t bytes) {
    return {nullptr, pool_.allocate(static_cast<std::size_t>(std::max(bytes, cuda::kGemmWorkspace))), nullptr};
  }
  Matrix bf(std::int64_t rows, std::int64_t cols) { return pool_.matrix(DType::bf16, rows, cols); }
  Matrix wide(std::int64_t rows, std::int64_t cols) { return pool_.matrix(DType::f32, rows, cols); }

  bool expect_same(const std::string& name, const Results& results) {
    double found = 0;
    for (const auto& [actual, expected] : results) found = std::max(found, difference(actual, expected));
    if (found <= kMostDifference) return true;
    differences_.push_back(fmt::format("{}: {:.3g}", name, found));
    return false;
  }

  static cuda::GemmKey key_of(const Matrix& a, const Matrix& b, const Matrix& c, bool trans_a, bool trans_b) {
    cuda::GemmKey key{.m = c.rows, .n = c.cols, .k = trans_a ? a.rows : a.cols, .trans_a = trans_a, .trans_b = trans_b};
    key.inputs = a.dtype, key.output = c.dtype;
    key.strides = {a.row_stride, b.row_stride, c.row_stride};
    return key;
  }

  /// By the fastest algorithm; nothing if the library has none with these side matrices.
  std::optional<cuda::PreparedGemm> fastest(const cuda::Launch& launch, const cuda::GemmKey& key, const Matrix& a,
                                            const Matrix& b, const Matrix& c, const cuda::GemmSideMatrices& side) {
    const bool plain = side.second == nullptr && side.addend == nullptr && side.bias_gradient == nullptr;
    const auto make = [&](const cuda::GemmAlgorithm* algorithm) -> std::optional<cuda::PreparedGemm> {
      if (plain) return cuda::PreparedGemm(library_, key, a, b, c, side.bias, algorithm);
      return cuda::PreparedGemm::with_epilogue(library_, key, a, b, c, side, algorithm);
    };
    std::optional<cuda::PreparedGemm> best = make(nullptr);
    if (!best) return best;
    double least = 0;
    for (const cuda::GemmAlgorithm& algorithm : best->candidates(quick_ ? 2 : 8)) {
      std::optional<cuda::PreparedGemm> candidate = make(&algorithm);
      try {
        const double ms = timer_([&] { candidate->run(launch); });
        if (least == 0 || ms < least) least = ms, best = std::move(candidate);
      } catch (const RuntimeFault&) {
        continue;  // the heuristic may propose algorithms that the library then refuses
      }
    }
    return best;
  }

  double time(const std::string& name, const Work& work) {
    const double ms = timer_(work);
    print(name, ms, "ms");
    return ms;
  }
  /// Two ways to the same results: values after one run of each, then times. Returns the second's.
  double beside(const std::string& name, const std::string& first, const Work& plain, const std::string& second,
                const Work& other, const Results& results, bool clear = true) {
    plain(), other();
    cuda::check(cudaDeviceSynchronize(), "kernels");
    expect_same(name, results);
    const double slow = time(name + " " + first, plain), fast = time(name + " " + second, other);
    print(fmt::format("{}, {} over {}", name, first, second), slow / fast, "times");
    if (clear) pool_.clear();
    return fast;
  }
  cudaGraphExec_t graph_of(const std::function<void(cudaStream_t)>& run) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cuda::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    run(stream_);
    cuda::check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    cuda::check(cudaGraphInstantiateWithFlags(&executable, graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
    return graphs_.emplace_back(executable);
  }
  /// Work in kernels after a product against the same within it, if the library has such a product.
  void compare(const std::string& name, const cuda::Launch& launch, const Work& kernels,
               const std::optional<cuda::PreparedGemm>& within, const Results& results) {
    const double slow = time(name + " by kernels", kernels);
    if (!within) return fmt::print("{} within the product: the library has no such product\n", name);
    const double fast = time(name + " within the product", [&] { within->run(launch); });
    print(name + ", by kernels over within", slow / fast, "times");
    expect_same(name, results);
  }

  /// A layer's weight gradient with its bias gradient, as fuse-bias-gradient has them; `added` to those of earlier
  /// micro-batches.
  void weight_gradient(std::int64_t t, std::int64_t out, std::int64_t in, bool added) {
    const std::string name = fmt::format("weight and bias gradient {}x{}x{}{}", out, in, t, added ? ", added" : "");
    const Matrix dy = bf(t, out), x = bf(t, in), dw = wide(out, in), db = wide(1, out), dw2 = wide(out, in),
                 db2 = wide(1, out);
    cuda::GemmKey key = key_of(dy, x, dw, true, false);
    key.accumulate = added;
    cuda::GemmKey with_bias = key;
    with_bias.epilogue = Epilogue::bias_gradient;
    const cuda::Launch launch = with_scratch(cuda::gemm_scratch_bytes(with_bias, cuda::GemmLayout::own));
    const auto product = fastest(launch, key, dy, x, dw, {.addend = added ? &dw : nullptr});
    const cuda::GemmWithEpilogue fused = fastest_with_bias(launch, with_bias, dy, x, dw2, db2);
    copy_numbers(dw, dw2), copy_numbers(db, db2);
    const Work by_kernels = [&] {
      product->run(launch);
      cuda::bias_gradient(launch, dy, db, added);
    };
    const Work within = [&] { fused.run(launch); };
    by_kernels(), within();
    expect_same(name, {{dw2, dw}, {db2, db}});
    const double slow = time(name + " by kernels", by_kernels);
    if (fused.fused()) {
      print(name + ", by kernels over within", slow / time(name + " within the product", within), "times");
    } else {
      fmt::print("{} within the product: the library has no such product\n", name);
    }
    pool_.clear();
  }
  cuda::GemmWithEpilogue fastest_with_bias(const cuda::Launch& launch, const cuda::GemmKey& key, const Matrix& a,
                                           const Matrix& b, const Matrix& c, const Matrix& sums) {
    const auto make = [&](const cuda::GemmAlgorithm* algorithm) {
      return cuda::GemmWithEpilogue(library_, key, a, b, c, nullptr, &sums, algorithm);
    };
    cuda::GemmWithEpilogue best = make(nullptr);
    double least = 0;
    for (const cuda::GemmAlgorithm& algorithm : best.candidates(quick_ ? 2 : 8)) {
      cuda::GemmWithEpilogue candidate = make(&algorithm);
      try {
        const double ms = timer_([&] { candidate.run(launch); });
        if (least == 0 || ms < least) least = ms, best = std::move(candidate);
      } catch (const RuntimeFault&) {
        continue;
      }
    }
    return best;
  }

  /// The MLP's first product with GELU.
  void up(std::int64_t t, std::int64_t h) {
    const std::string name = fmt::format("up and GELU {}x{}x{}", t, 4 * h, h);
    const Matrix x = bf(t, h), w = bf(4 * h, h), bias = bf(1, 4 * h);
    const Matrix sums = bf(t, 4 * h), y = bf(t, 4 * h), sums2 = bf(t, 4 * h), y2 = bf(t, 4 * h);
    const cuda::Launch launch = with_scratch(0);
    cuda::GemmKey key = key_of(x, w, sums, false, true);
    key.has_bias = true;
    const auto product = fastest(launch, key, x, w, sums, {.bias = &bias});
    key.epilogue = Epilogue::gelu;
    const auto fused = fastest(launch, key, x, w, y2, {.bias = &bias, .second = &sums2});
    const Work by_kernels = [&] {
      product->run(launch);
      cuda::gelu_forward(launch, sums, y);
    };
    compare(name, launch, by_kernels, fused, {{y2, y}, {sums2, sums}});
    pool_.clear();
  }

  /// The input gradient of the MLP's second product, through GELU, and the first product's bias gradient. cuBLASLt
  /// writes that one in bf16.
  void down_gradient(std::int64_t t, std::int64_t h) {
    const std::string name = fmt::format("GELU's gradient {}x{}x{}", t, 4 * h, h);
    const Matrix dy = bf(t, h), w = bf(h, 4 * h), x = bf(t, 4 * h);
    const Matrix dx = bf(t, 4 * h), db = wide(1, 4 * h), dx2 = bf(t, 4 * h), dx3 = bf(t, 4 * h), db3 = bf(1, 4 * h);
    const cuda::Launch launch = with_scratch(cuda::bias_gradient_scratch_bytes(t, 4 * h));
    cuda::GemmKey key = key_of(dy, w, dx, false, false);
    const auto product = fastest(launch, key, dy, w, dx, {});
    key.epilogue = Epilogue::gelu_gradient;
    const auto with_gelu = fastest(launch, key, dy, w, dx2, {.second = &x});
    const auto with_both = fastest(launch, key, dy, w, dx3, {.second = &x, .bias_gradient = &db3});
    const Work gelu = [&] {
      product->run(launch);
      cuda::gelu_backward(launch, x, dx, dx);
    };
    const Work gelu_and_bias = [&] {
      gelu();
      cuda::bias_gradient(launch, dx, db, false);
    };
    compare(name, launch, gelu, with_gelu, {{dx2, dx}});
    compare(name + " and bias gradient", launch, gelu_and_bias, with_both, {{dx3, dx}, {db3, db}});
    pool_.clear();
  }

  /// A product whose result is added to the residual stream: by a kernel, or by β = 1 with C ≠ D.
  void added_residual(std::int64_t t, std::int64_t out, std::int64_t in) {
    const std::string name = fmt::format("residual added to {}x{}x{}", t, out, in);
    const Matrix x = bf(t, in), w = bf(out, in), bias = bf(1, out), residual = bf(t, out);
    const Matrix y = bf(t, out), sum = bf(t, out), sum2 = bf(t, out);
    const cuda::Launch launch = with_scratch(0);
    cuda::GemmKey key = key_of(x, w, y, false, true);
    key.has_bias = true;
    const auto product = fastest(launch, key, x, w, y, {.bias = &bias});
    key.accumulate = true;
    const auto fused = fastest(launch, key, x, w, sum2, {.bias = &bias, .addend = &residual});
    const Work by_kernels = [&] {
      product->run(launch);
      cuda::add(launch, y, residual, sum);
    };
    compare(name, launch, by_kernels, fused, {{sum2, sum}});
    pool_.clear();
  }

  /// A product of fp32 numbers, and the same of their first digits.
  void by_tf32(std::int64_t t, std::int64_t h) {
    const std::string name = fmt::format("product {}x{}x{} of fp32", t, 4 * h, h);
    const Matrix x = wide(t, h), w = wide(4 * h, h), y = wide(t, 4 * h), y2 = wide(t, 4 * h);
    const cuda::Launch launch = with_scratch(0);
    cuda::GemmKey key = key_of(x, w, y, false, true);
    const auto exact = fastest(launch, key, x, w, y, {});
    key.tf32 = true;
    const auto rounded = fastest(launch, key, x, w, y2, {});
    const double slow = time(name, [&] { exact->run(launch); });
    const double fast = time(name + " by TF32", [&] { rounded->run(launch); });
    print(name + ", fp32 over TF32", slow / fast, "times");
    expect_same(name, {{y2, y}});
    pool_.clear();
  }

  /// Every engine that compiles.
  void by_engines(const std::string& name, const cuda::AttentionLayout& layout, bool backward, double flops,
                  cuda::AttentionPointers pointers, const Results& results) {
    const auto engines = cuda::CudnnAttention::by_every_engine(cudnn_, layout, backward, {.any_bits = true});
    print(name + ", engines", static_cast<double>(engines.size()), "engines");
    std::optional<double> first, fastest_deterministic, fastest;  // milliseconds; `first` is the one that tasks take
    for (std::size_t i = 0; i < engines.size(); ++i) {
      const cuda::CudnnAttention& engine = *engines[i];
      const auto bytes = static_cast<std::size_t>(engine.workspace_bytes());
      const std::string engine_name = fmt::format("{}, {} ({}, {:.1f} MiB)", name, engine.engine(),
                                                  engine.deterministic() ? "deterministic" : "not deterministic",
                                                  static_cast<double>(bytes) / (1 << 20));
      for (const auto& [actual, expected] : results) poison(actual);
      GpuPool workspace;
      pointers.workspace = workspace.allocate(bytes);
      const auto bound = engine.bind(pointers);
      const double ms = timer_([&] { bound.run(nullptr); });
      print(engine_name, flops / ms * 1e-9, "TFLOP/s");
      if (!expect_same(engine_name, results)) continue;
      if (engine.deterministic()) {
        if (!first) first = ms;
        fastest_deterministic = std::min(ms, fastest_deterministic.value_or(ms));
      }
      fastest = std::min(ms, fastest.value_or(ms));
    }
    if (!first) return;
    print(name + ", first over fastest deterministic engine", *first / *fastest_deterministic, "times");
    print(name + ", first deterministic over fastest engine", *first / *fastest, "times");
  }

  bool quick_;
  GpuPool pool_;
  GpuTimer timer_;
  cuda::CublasLt library_;
  cuda::CudnnHandle cudnn_;
  cudaStream_t stream_ = nullptr;  // of captures
  std::vector<cudaGraphExec_t> graphs_;
  std::vector<std::string> differences_;
};

}  // namespace

void print_pairs(bool quick) {
  Pairs pairs(quick);
  if (quick) {
    pairs.of_layer(64, 64);
    pairs.loss(4, 4224);
    pairs.grouped_products(70, 2, 64, 40);
    for (const bool captured : {false, true}) pairs.chain(16, 64, captured);
    for (const bool documents : {false, true}) pairs.masked_attention({1, 64, 1, 1, 64}, documents);
    pairs.attention({1, 64, 2, 2, 64});
  } else {
    for (const std::int64_t hidden : {768, 1280, 1600}) pairs.of_layer(8192, hidden);
    pairs.loss(8192, 50304);
    pairs.grouped_products(16384, 8, 2048, 2816);
    pairs.grouped_products(4096, 32, 2048, 1536);
    for (const bool captured : {false, true}) pairs.chain(8192, 768, captured);
    for (const bool documents : {false, true}) pairs.masked_attention({2, 4096, 16, 16, 64}, documents);
    pairs.attention({8, 1024, 20, 20, 64});
    pairs.attention({2, 4096, 16, 16, 128});
  }
  if (!pairs.differences().empty()) {
    throw RuntimeFault(fmt::format("other values than by kernels: {}", fmt::join(pairs.differences(), "; ")));
  }
}

}  // namespace weft::bench
