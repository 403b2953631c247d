// The kernels and their arguments; see kernel_cases.h.
#include "bench/kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/attention_decode.h"
#include "kernels/cpu/attention/rope.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/activation.h"
#include "kernels/cpu/elementwise/columns.h"
#include "kernels/cpu/elementwise/dropout.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/embedding.h"
#include "kernels/cpu/elementwise/optimizer.h"
#include "kernels/cpu/elementwise/reduce.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/gemm/transpose.h"
#include "kernels/cpu/loss/cross_entropy.h"
#include "kernels/cpu/loss/vocab_parallel.h"
#include "kernels/cpu/norm/head_norm.h"
#include "kernels/cpu/norm/norm.h"
#include "kernels/cpu/norm/norm_parts.h"

namespace weft::cpu {
namespace {

std::int64_t bytes_of(const Matrix& matrix) {
  return count(matrix) * static_cast<std::int64_t>(size_of(matrix.dtype));
}

// Makes the cases of one dtype. The body of a case holds views into the pool, which is cleared before each case.
class Cases {
 public:
  using Visit = std::function<void(const KernelCase&)>;

  Cases(CasePool& pool, std::string filter, Visit visit)
      : pool_(pool), filter_(std::move(filter)), visit_(std::move(visit)) {}

  void all(DType dtype) {
    dtype_ = dtype;
    elementwise();
    copies();
    norms();
    head_norms();
    norms_of_parts();
    losses();
    losses_of_parts();
    small();
    embeddings();
    optimizer();
    attention();
  }

 private:
  using Make = std::function<KernelCase()>;

  // Builds and visits one case if its name passes the filter.
  void add_case(const std::string& kernel, const std::string& shape, const Make& make) {
    const std::string name = fmt::format("{} {} {}", kernel, to_string(dtype_), shape);
    if (name.find(filter_) == std::string::npos) return;
    pool_.release(0);
    KernelCase made = make();
    made.name = name;
    visit_(made);
  }

  // Rows of GPT-2's width: enough for 64 MB or more in each fp32 tensor, and as many as in a batch of 4 × 256 tokens.
  void shapes(const std::string& kernel, std::int64_t cols,
              const std::function<KernelCase(std::int64_t rows, std::int64_t cols)>& make) {
    for (std::int64_t rows :
         {ceil_div(std::int64_t{1} << (dtype_ == DType::f32 ? 24 : 25), cols), std::int64_t{1024}}) {
      add_case(kernel, fmt::format("{}x{}", rows, cols), [&] { return make(rows, cols); });
    }
  }

  Matrix tensor(std::int64_t rows, std::int64_t cols) { return pool_.floats(dtype_, rows, cols); }
  Matrix single(std::int64_t rows, std::int64_t cols, bool positive = false) {
    return pool_.floats(DType::f32, rows, cols, positive);
  }

  void elementwise() {
    shapes("add", 768, [this](auto rows, auto cols) {
      const Matrix a = tensor(rows, cols), b = tensor(rows, cols), out = tensor(rows, cols);
      return KernelCase{
          {}, {2 * bytes_of(a), bytes_of(out), bytes_of(out)}, {}, [=](Workers& w) { add(w, a, b, out); }};
    });
    shapes("add_in_place", 768, [this](auto rows, auto cols) {
      const Matrix a = tensor(rows, cols), b = tensor(rows, cols);
      return KernelCase{{}, {2 * bytes_of(a), bytes_of(a)}, {}, [=](Workers& w) { add(w, a, b, a); }};
    });
    shapes("scale", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), out = tensor(rows, cols);
      return KernelCase{{}, {bytes_of(x), bytes_of(out), bytes_of(out)}, {}, [=](Workers& w) { scale(w, x, 2, out); }};
    });
    shapes("bias_gradient", 3072, [this](auto rows, auto cols) {
      const Matrix dy = tensor(rows, cols), db = single(1, cols);
      return KernelCase{{}, {bytes_of(dy), 0}, bias_gradient_scratch(rows, cols), [=](Workers& w) {
                          bias_gradient(w, dy, db, true);
                        }};
    });
    shapes("gelu_forward", 3072, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), y = tensor(rows, cols);
      return KernelCase{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) { gelu_forward(w, x, y); }};
    });
    shapes("gelu_backward", 3072, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), dy = tensor(rows, cols);
      return KernelCase{{}, {2 * bytes_of(x), bytes_of(x)}, {}, [=](Workers& w) { gelu_backward(w, x, dy, dy); }};
    });
    shapes("swiglu_forward", 2048, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, 2 * cols), y = tensor(rows, cols);
      return KernelCase{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) { swiglu_forward(w, x, y); }};
    });
    shapes("swiglu_backward", 2048, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, 2 * cols), dy = tensor(rows, cols), dx = tensor(rows, 2 * cols);
      return KernelCase{{}, {bytes_of(x) + bytes_of(dy), bytes_of(dx), bytes_of(dx)}, {}, [=](Workers& w) {
                          swiglu_backward(w, x, dy, dx);
                        }};
    });
    for (bool with_residual : {false, true}) {
      shapes(with_residual ? "dropout_residual" : "dropout", 768, [this, with_residual](auto rows, auto cols) {
        const Matrix x = tensor(rows, cols), y = tensor(rows, cols);
        const Matrix residual = with_residual ? tensor(rows, cols) : x;
        return KernelCase{{}, {(with_residual ? 2 : 1) * bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) {
                            dropout(w, {1, 2, 3, 0, 0.1F}, x, with_residual ? &residual : nullptr, y);
                          }};
      });
    }
    shapes("rope", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols);
      const std::vector<float> frequencies = rope_frequencies(64, 10000.0F, {});
      return KernelCase{{}, {bytes_of(x), bytes_of(x)}, rope_scratch(64), [=](Workers& w) {
                          rope(w, frequencies, cols / 64, 1024, 0, false, x);
                        }};
    });
    shapes("rank_sum_of_2", 768, [this](auto rows, auto cols) {
      const Matrix a = tensor(rows, cols), b = tensor(rows, cols), out = tensor(rows, cols);
      return KernelCase{{}, {2 * bytes_of(a), bytes_of(out), bytes_of(out)}, {}, [=, dtype = dtype_](Workers& w) {
                          // Communicators divide messages themselves: here into one slice for each thread.
                          const std::int64_t slice = round_up(ceil_div(count(a), w.threads()), 64);
                          const auto bytes = static_cast<std::int64_t>(size_of(dtype));
                          w.run(w.threads(), [&](std::int64_t i) {
                            const std::int64_t begin = i * slice, n = std::min(slice, count(a) - begin);
                            const void* sources[] = {static_cast<std::byte*>(a.data) + begin * bytes,
                                                     static_cast<std::byte*>(b.data) + begin * bytes};
                            sum_in_rank_order(sources, static_cast<std::byte*>(out.data) + begin * bytes, n, dtype);
                          });
                        }};
    });
  }

  // Kernels that grids add: windows of columns, the bias of one rank, a reordered matrix, and packed weights.
  void copies() {
    shapes("cast", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols);
      const Matrix y = pool_.floats(dtype_ == DType::f32 ? DType::bf16 : DType::f32, rows, cols);
      return KernelCase{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) { cast(w, x, y); }};
    });
    shapes("add_bias", 3072, [this](auto rows, auto cols) {
      const Matrix y = tensor(rows, cols), bias = tensor(1, cols);
      return KernelCase{{}, {bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) { add_bias(w, y, bias); }};
    });
    shapes("take_columns", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, 2 * cols), out = tensor(rows, cols);
      return KernelCase{
          {}, {bytes_of(out), bytes_of(out), bytes_of(out)}, {}, [=](Workers& w) { take_columns(w, x, 1, out); }};
    });
    shapes("put_columns", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), out = tensor(rows, 2 * cols);
      return KernelCase{
          {}, {bytes_of(x), bytes_of(out), bytes_of(out)}, {}, [=](Workers& w) { put_columns(w, x, 1, out); }};
    });
    shapes("transpose", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), y = tensor(cols, rows);
      return KernelCase{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) { transpose(w, x, y); }};
    });
    for (bool transposed : {false, true}) {
      shapes(transposed ? "pack_weight_t" : "pack_weight", 768, [this, transposed](auto rows, auto cols) {
        const GemmShape shape{1, transposed ? rows : cols, transposed ? cols : rows, false, transposed};
        const PackedUnit unit = packed_unit(dtype_);
        const Matrix b = tensor(rows, cols), packed = pool_.floats(packed_b_dtype(unit), 1, packed_b_elements(shape));
        return KernelCase{{}, {bytes_of(b), bytes_of(packed), bytes_of(packed)}, {}, [=](Workers& w) {
                            pack_gemm_b(w, shape, b, static_cast<std::byte*>(packed.data), unit);
                          }};
      });
    }
    shapes("cache_store", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), cache = tensor(rows, cols);
      return KernelCase{{}, {bytes_of(x), bytes_of(cache), bytes_of(cache)}, {}, [=](Workers& w) {
                          cache_store(w, 1, rows, rows, x, cache);
                        }};
    });
  }

  void norms() {
    shapes("layer_norm_forward", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), y = tensor(rows, cols), weight = tensor(1, cols), bias = tensor(1, cols);
      const Matrix mean = single(1, rows), rstd = single(1, rows);
      return KernelCase{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) {
                          norm_forward(w, 1e-5F, {x, weight, &mean, rstd}, &bias, y);
                        }};
    });
    shapes("layer_norm_backward", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), dy = tensor(rows, cols), dx = tensor(rows, cols), weight = tensor(1, cols);
      const Matrix mean = single(1, rows), rstd = single(1, rows, true), dw = single(1, cols), db = single(1, cols);
      return KernelCase{{}, {3 * bytes_of(x), bytes_of(x)}, norm_backward_scratch(true, rows, cols), [=](Workers& w) {
                          norm_backward(w, {x, weight, &mean, rstd}, dy, {dx, dw, &db, &dx, true});
                        }};
    });
    shapes("rms_norm_forward", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), y = tensor(rows, cols), weight = tensor(1, cols), rstd = single(1, rows);
      return KernelCase{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) {
                          norm_forward(w, 1e-5F, {x, weight, nullptr, rstd}, nullptr, y);
                        }};
    });
    shapes("rms_norm_backward", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), dy = tensor(rows, cols), dx = tensor(rows, cols), weight = tensor(1, cols);
      const Matrix rstd = single(1, rows, true), dw = single(1, cols);
      return KernelCase{{}, {3 * bytes_of(x), bytes_of(x)}, norm_backward_scratch(false, rows, cols), [=](Workers& w) {
                          norm_backward(w, {x, weight, nullptr, rstd}, dy, {dx, dw, nullptr, &dx, true});
                        }};
    });
  }

  // Queries of twelve heads.
  void head_norms() {
    constexpr std::int64_t kHeads = 12, kDim = 64;
    shapes("head_norm_forward", kHeads * kDim, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), weight = tensor(1, kDim), y = tensor(rows, cols);
      const Matrix rstd = single(1, rows * kHeads);
      return KernelCase{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) {
                          head_norm_forward(w, 1e-5F, kHeads, x, weight, y, rstd);
                        }};
    });
    shapes("head_norm_backward", kHeads * kDim, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), weight = tensor(1, kDim), dy = tensor(rows, cols), dx = tensor(rows, cols);
      const Matrix rstd = single(1, rows * kHeads, true), dw = single(1, kDim);
      return KernelCase{{}, {2 * bytes_of(x), bytes_of(x)}, head_norm_backward_scratch(rows, kDim), [=](Workers& w) {
                          head_norm_backward(w, kHeads, x, weight, rstd, dy, {dx, dw, true});
                        }};
    });
  }

  // Norms of half rows.
  void norms_of_parts() {
    for (bool centered : {true, false}) {
      const std::string norm = centered ? "layer_norm" : "rms_norm";
      const std::int64_t numbers = centered ? 2 : 1;
      struct Tensors {
        Matrix x, weight, mean, rstd, statistics;
        NormTensors norm(bool with_mean) const { return {x, weight, with_mean ? &mean : nullptr, rstd}; }
      };
      const auto tensors = [this, numbers](std::int64_t rows, std::int64_t cols) {
        return Tensors{tensor(rows, cols), tensor(1, cols), single(1, rows), single(1, rows, true),
                       single(2 * rows, numbers, true)};
      };
      shapes(norm + "_statistics", 384, [=](auto rows, auto cols) {
        const Tensors t = tensors(rows, cols);
        return KernelCase{
            {}, {bytes_of(t.x), 0}, {}, [=](Workers& w) { norm_statistics(w, centered, t.x, t.statistics); }};
      });
      shapes(norm + "_forward_of_parts", 384, [=, this](auto rows, auto cols) {
        const Tensors t = tensors(rows, cols);
        const Matrix y = tensor(rows, cols), bias = tensor(1, cols);
        return KernelCase{{}, {bytes_of(t.x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) {
                            norm_forward_of_parts(w, 2, 1e-5F, t.norm(centered), centered ? &bias : nullptr,
                                                  t.statistics, y);
                          }};
      });
      shapes(norm + "_backward_sums", 384, [=, this](auto rows, auto cols) {
        const Tensors t = tensors(rows, cols);
        const Matrix dy = tensor(rows, cols);
        return KernelCase{{}, {2 * bytes_of(dy), 0}, {}, [=](Workers& w) {
                            norm_backward_sums(w, t.norm(centered), dy, t.statistics);
                          }};
      });
      shapes(norm + "_backward_of_parts", 384, [=, this](auto rows, auto cols) {
        const Tensors t = tensors(rows, cols);
        const Matrix dy = tensor(rows, cols), dx = tensor(rows, cols), dw = single(1, cols), db = single(1, cols);
        return KernelCase{
            {}, {3 * bytes_of(dy), bytes_of(dx)}, norm_backward_scratch(centered, rows, cols), [=](Workers& w) {
              norm_backward_of_parts(w, 2, t.norm(centered), dy, t.statistics,
                                     {dx, dw, centered ? &db : nullptr, &dx, true});
            }};
      });
    }
  }

  void losses() {
    // A row of logits stays in the cache between passes: it is read and written once.
    for (bool gradient : {true, false}) {
      add_case(gradient ? "cross_entropy" : "cross_entropy_loss", "1024x50257", [this, gradient] {
        const Matrix logits = tensor(1024, 50257), targets = pool_.integers(1024, 50257), losses = single(1, 1024);
        const Matrix scale = single(1, 1);
        return KernelCase{
            {},
            {bytes_of(logits), gradient ? bytes_of(logits) : 0},
            cross_entropy_scratch(50257, dtype_, gradient),
            [=](Workers& w) { cross_entropy(w, 50257, logits, targets, losses, gradient ? &scale : nullptr); }};
      });
    }
  }

  // Losses of half a vocabulary.
  void losses_of_parts() {
    constexpr std::int64_t kRows = 2048, kCols = 25152, kVocab = 50257;
    const std::string shape = fmt::format("{}x{}", kRows, kCols);
    struct Tensors {
      Matrix logits, targets, losses, scale, statistics;
    };
    const auto tensors = [this] {
      return Tensors{tensor(kRows, kCols), pool_.integers(kRows, kVocab), single(1, kRows), single(1, 1),
                     single(2 * kRows, 3, true)};
    };
    add_case("vocab_statistics", shape, [&] {
      const Tensors t = tensors();
      return KernelCase{{}, {bytes_of(t.logits), 0}, {}, [=](Workers& w) {
                          vocab_statistics(w, {0, kVocab}, t.logits, t.targets, t.statistics);
                        }};
    });
    add_case("vocab_cross_entropy", shape, [&] {
      const Tensors t = tensors();
      return KernelCase{{}, {bytes_of(t.logits), bytes_of(t.logits)}, {}, [=](Workers& w) {
                          vocab_cross_entropy(w, {0, kVocab}, 2, t.logits, t.targets, t.statistics, t.losses, &t.scale);
                        }};
    });
  }

  // Kernels so small that one thread runs them.
  void small() {
    if (dtype_ == DType::f32) {
      add_case("loss_sum", "1024", [this] {
        const Matrix losses = single(1, 1024), targets = pool_.integers(1024, 50257), sums = single(1, 2);
        return KernelCase{{}, {bytes_of(losses) + bytes_of(targets), 0}, {}, [=](Workers& w) {
                            loss_sum(w, losses, targets, sums, false, true);
                          }};
      });
      add_case("clip_factor", "148", [this] {
        const Matrix partials = single(1, 148, true), norm_and_factor = single(1, 2);
        return KernelCase{
            {}, {bytes_of(partials), 0}, {}, [=](Workers& w) { clip_factor(w, partials, 1.0F, norm_and_factor); }};
      });
    }
    add_case("select_row", "16x50257", [this] {
      const Matrix x = tensor(16, 50257), out = single(1, 50257);
      return KernelCase{
          {}, {bytes_of(x) / x.rows, bytes_of(out), bytes_of(out)}, {}, [=](Workers& w) { select_row(w, x, 15, out); }};
    });
  }

  void embeddings() {
    shapes("embedding_forward", 768, [this](auto rows, auto cols) {
      const Matrix wte = tensor(50257, cols), wpe = tensor(1024, cols), out = tensor(rows, cols);
      const Matrix tokens = pool_.integers(rows, 50257);
      const std::int64_t looked_up = std::min<std::int64_t>(rows, 50257) * bytes_of(out) / rows;
      return KernelCase{{}, {looked_up, bytes_of(out), bytes_of(out)}, {}, [=](Workers& w) {
                          embedding_forward(w, tokens, wte, &wpe, 1024, 0, out);
                        }};
    });
    shapes("embedding_backward", 768, [this](auto rows, auto cols) {
      const Matrix dwte = single(50257, cols), dout = tensor(rows, cols), tokens = pool_.integers(rows, 50257);
      const std::int64_t touched = std::min<std::int64_t>(rows, 50257) * bytes_of(dwte) / dwte.rows;
      return KernelCase{{}, {bytes_of(dout) + touched, touched}, {}, [=](Workers& w) {
                          embedding_backward(w, tokens, dout, dwte, true);
                        }};
    });
    shapes("position_backward", 768, [this](auto rows, auto cols) {
      const Matrix dwpe = single(1024, cols), dout = tensor(rows, cols);
      return KernelCase{{}, {bytes_of(dout) + bytes_of(dwpe), bytes_of(dwpe)}, {}, [=](Workers& w) {
                          position_backward(w, dout, 1024, dwpe, true);
                        }};
    });
  }

  void optimizer() {
    for (bool with_master : {false, true}) {
      if (with_master && dtype_ == DType::f32) continue;
      shapes(with_master ? "adamw_master" : "adamw", 768, [this, with_master](auto rows, auto cols) {
        const Matrix p = tensor(rows, cols), g = single(rows, cols), m = single(rows, cols),
                     v = single(rows, cols, true);
        const Matrix master = with_master ? single(rows, cols) : m;
        const Matrix scalars = single(1, 4, true), clip = single(1, 2, true);
        const std::int64_t exact = with_master ? bytes_of(master) : 0;
        const std::int64_t read = bytes_of(g) + bytes_of(m) + bytes_of(v) + (with_master ? exact : bytes_of(p));
        const std::int64_t written = bytes_of(m) + bytes_of(v) + exact + bytes_of(p);
        return KernelCase{
            {}, {read, written, with_master ? bytes_of(p) : 0}, {}, [=](Workers& w) {
              adamw(w, {0.9F, 0.95F, 1e-8F, 0.1F}, {scalars, clip}, p, g, m, v, with_master ? &master : nullptr);
            }};
      });
    }
    if (dtype_ == DType::bf16) return;
    shapes("sum_squares", 768, [this](auto rows, auto cols) {
      const Matrix x = single(rows, cols), partial = single(1, 1);
      return KernelCase{{}, {bytes_of(x), 0}, sum_squares_scratch(x), [=](Workers& w) { sum_squares(w, x, partial); }};
    });
  }

  void attention() {
    for (const AttentionShape& shape : {AttentionShape{4, 256, 12, 12, 64}, AttentionShape{1, 1024, 12, 12, 64},
                                        AttentionShape{4, 256, 12, 4, 64}, AttentionShape{1, 512, 8, 8, 128}}) {
      const std::string name =
          fmt::format("{}x{}x{}/{}x{}", shape.batch, shape.seq, shape.heads, shape.kv_heads, shape.head_dim);
      // Two products forward, five backward, each over the keys up to the diagonal.
      const std::int64_t product = 2 * shape.batch * shape.heads * shape.head_dim * (shape.seq * (shape.seq + 1) / 2);
      const auto arguments = [this, shape] {
        const std::int64_t rows = shape.batch * shape.seq, q = shape.heads * shape.head_dim;
        const std::int64_t kv = shape.kv_heads * shape.head_dim;
        return AttentionTensors{tensor(rows, q), tensor(rows, kv), tensor(rows, kv), tensor(rows, q),
                                single(1, shape.batch * shape.heads * shape.seq)};
      };
      add_case("attention_forward", name, [&] {
        const AttentionTensors t = arguments();
        return KernelCase{{},
                          {2 * bytes_of(t.k) + bytes_of(t.q), bytes_of(t.out), bytes_of(t.out), 2 * product},
                          attention_forward_scratch(shape, dtype_),
                          [=](Workers& w) { attention_forward(w, shape, t); }};
      });
      add_case("attention_backward", name, [&] {
        const AttentionTensors t = arguments();
        const Matrix dout = tensor(t.q.rows, t.q.cols), dq = tensor(t.q.rows, t.q.cols);
        const Matrix dk = tensor(t.k.rows, t.k.cols), dv = tensor(t.k.rows, t.k.cols);
        const std::int64_t grads = bytes_of(dq) + bytes_of(dk) + bytes_of(dv);
        Workers once(1);
        once.reserve(attention_forward_scratch(shape, dtype_));
        attention_forward(once, shape, t);
        return KernelCase{{},
                          {2 * bytes_of(t.k) + 3 * bytes_of(t.q), grads, grads, 5 * product},
                          attention_backward_scratch(shape, dtype_),
                          [=](Workers& w) {
                            attention_backward(w, shape, t, {dout, dq, dk, dv});
                          }};
      });
    }
    for (std::int64_t batch : {1, 8}) {
      const DecodeShape shape{batch, 12, 12, 64, 1024};
      add_case("attention_decode", fmt::format("{}x1024x12/12x64", batch), [&] {
        const Matrix q = tensor(batch, 768), k = tensor(batch, 768), v = tensor(batch, 768), out = tensor(batch, 768);
        const Matrix k_cache = tensor(batch * 1024, 768), v_cache = tensor(batch * 1024, 768);
        return KernelCase{{}, {2 * bytes_of(k_cache), 0}, attention_decode_scratch(shape), [=](Workers& w) {
                            attention_decode(w, shape, 1023, {q, k, v, k_cache, v_cache, out});
                          }};
      });
    }
  }

  CasePool& pool_;
  std::string filter_;
  Visit visit_;
  DType dtype_ = DType::f32;
};

}  // namespace

std::byte* CasePool::take(std::int64_t bytes) {
  std::byte* part = memory_.data() + used_;
  // The offset keeps rows of two arguments out of the same cache sets.
  used_ += static_cast<std::size_t>(round_up(bytes, 4096) + 2112);
  if (used_ > static_cast<std::size_t>(memory_.size())) throw std::bad_alloc();
  return part;
}

Matrix CasePool::floats(DType dtype, std::int64_t rows, std::int64_t cols, bool positive) {
  const Matrix matrix{take(rows * cols * static_cast<std::int64_t>(size_of(dtype))), rows, cols, cols, dtype};
  std::uint32_t state = 12345;
  constexpr std::int64_t kPeriod = 1 << 16;
  std::vector<float> pattern(kPeriod);
  for (float& value : pattern) {
    state = state * 1664525U + 1013904223U;
    value = (static_cast<float>(state >> 8) * 0x1p-24F - (positive ? 0.0F : 0.5F)) * (positive ? 3.0F : 6.0F);
  }
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    if (dtype == DType::f32) matrix.f32()[i] = pattern[static_cast<std::size_t>(i % kPeriod)];
    if (dtype == DType::bf16) matrix.b16()[i] = bf16(pattern[static_cast<std::size_t>(i % kPeriod)]);
  }
  return matrix;
}

Matrix CasePool::integers(std::int64_t count, std::int64_t below) {
  const Matrix matrix{take(count * 4), 1, count, count, DType::i32};
  for (std::int64_t i = 0; i < count; ++i) {
    matrix.i32()[i] = static_cast<std::int32_t>((i * 2654435761 + i / 7) % below);
  }
  return matrix;
}

void visit_kernel_cases(CasePool& pool, DType dtype, const std::string& filter,
                        const std::function<void(const KernelCase&)>& visit) {
  Cases(pool, filter, visit).all(dtype);
}

}  // namespace weft::cpu
