// The kernels and their arguments; see kernel_cases.h.
#include "bench/kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/operation.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/reduce.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/gemm/transpose.h"
#include "runtime/execute/cpu/cpu_kernels.h"

namespace weft::cpu {
namespace {

constexpr std::int64_t kVocab = 50257, kContext = 1024;

std::int64_t bytes_of(const Matrix& matrix) {
  return count(matrix) * static_cast<std::int64_t>(size_of(matrix.dtype));
}

using Arguments = std::map<std::string_view, Matrix>;  // by their names in the operation's schema

/// What an operation's schema doesn't tell of a case.
struct Special {
  std::map<std::string_view, std::string_view> in_place = {};  // arguments that lie in the memory of another one
  std::map<std::string_view, DType> dtypes = {};               // other than the case's
  std::array<std::int64_t, 3> integers = {};                   // the values of an i64 argument
  bool flops = false;                                          // they may limit it
  std::function<void(const Arguments&)> prepare = {};          // makes values that the kernel's time depends on
  /// Of a kernel that touches only a part of an argument.
  std::function<KernelCost(const Arguments&)> cost = {};
};

/// Each byte that is read, and each that is written, in memory that isn't read too by allocating it in the cache.
template <class Op>
KernelCost cost_of(const Op& operation, const Arguments& arguments) {
  KernelCost cost;
  std::map<const void*, bool> is_read;
  const auto modes = [&](const auto& visit) {
    for (const graph::ArgumentSchema& each : operation.arguments()) {
      if (!each.present) continue;
      const auto mode = each.write_only_too ? graph::AccessMode::write : each.mode;
      visit(arguments.at(each.name), mode != graph::AccessMode::write, mode != graph::AccessMode::read);
    }
  };
  modes([&](const Matrix& matrix, bool reads, bool) {
    if (reads && !std::exchange(is_read[matrix.data], true)) cost.read += bytes_of(matrix);
  });
  modes([&](const Matrix& matrix, bool, bool writes) {
    if (!writes) return;
    cost.written += bytes_of(matrix);
    if (!is_read[matrix.data]) cost.allocated += bytes_of(matrix);
  });
  return cost;
}

// Makes the cases of one dtype. The arguments of a case are in the pool, which is cleared before each case.
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
    norms_of_parts();
    losses();
    small();
    embeddings();
    optimizer();
    attention();
  }

 private:
  bool wanted(const std::string& name) const { return name.find(filter_) != std::string::npos; }
  std::string name_of(const std::string& kernel, const std::string& shape) const {
    return fmt::format("{} {} {}", kernel, to_string(dtype_), shape);
  }

  /// Makes and visits the case of an operation, with arguments as its schema has them, if its name passes the filter.
  template <class Op>
  void add_case(const std::string& kernel, const std::string& shape, const Op& operation, const Special& special = {}) {
    KernelCase made{.name = name_of(kernel, shape), .cost = {}, .scratch = {}, .run = {}};
    if (!wanted(made.name)) return;
    pool_.release(0);
    Arguments by_name;
    std::vector<Matrix> arguments;
    for (const graph::ArgumentSchema& each : operation.arguments()) {
      if (!each.present) continue;
      const auto other = special.in_place.find(each.name);
      arguments.push_back(other == special.in_place.end() ? argument(each, special) : by_name.at(other->second));
      by_name.emplace(each.name, arguments.back());
    }
    if (special.prepare) special.prepare(by_name);
    made.cost = special.cost ? special.cost(by_name) : cost_of(operation, by_name);
    const auto element = static_cast<double>(size_of(dtype_));
    if (special.flops) made.cost.flops = static_cast<std::int64_t>(operation.work(element).flops);
    const auto task = std::make_shared<const execute::PreparedTask>(operation, arguments);
    made.scratch = task->scratch();
    made.run = [task](Workers& workers) { task->run(workers); };
    visit_(made);
  }

  Matrix argument(const graph::ArgumentSchema& schema, const Special& special) {
    using Form = graph::ArgumentShape::Form;
    std::int64_t rows = schema.shape.rows, cols = schema.shape.cols;
    if (schema.shape.form == Form::any_rows) rows = kContext;
    if (schema.shape.form == Form::any_shape) rows = cols / cols_, cols = cols_;
    const bool fixed = schema.elements.rule == graph::ArgumentElements::Rule::one_dtype;
    const auto other = special.dtypes.find(schema.name);
    const DType dtype = other != special.dtypes.end() ? other->second : fixed ? schema.elements.dtype : dtype_;
    if (dtype == DType::i32) return pool_.integers(rows * cols, kVocab);
    if (dtype != DType::i64) return pool_.floats(dtype, rows, cols, fixed);
    const Matrix matrix{pool_.take(rows * cols * 8), rows, cols, cols, dtype};
    std::copy_n(special.integers.begin(), rows * cols, matrix.i64());
    return matrix;
  }

  // Rows of GPT-2's width: enough for 64 MB or more in each fp32 tensor, and as many as in a batch of 4 × 256 tokens.
  std::array<std::int64_t, 2> rows_of(std::int64_t cols) const {
    return {ceil_div(std::int64_t{1} << (dtype_ == DType::f32 ? 24 : 25), cols), 1024};
  }
  void shapes(const std::string& kernel, std::int64_t cols, const auto& operation_of, const Special& special = {}) {
    cols_ = cols;
    for (const std::int64_t rows : rows_of(cols))
      add_case(kernel, fmt::format("{}x{}", rows, cols), operation_of(rows, cols), special);
  }
  /// The same of kernels without an operation, or of which this machine alone knows the arguments.
  void plain_shapes(const std::string& kernel, std::int64_t cols,
                    const std::function<KernelCase(std::int64_t rows, std::int64_t cols)>& make) {
    for (const std::int64_t rows : rows_of(cols)) {
      const std::string name = name_of(kernel, fmt::format("{}x{}", rows, cols));
      if (!wanted(name)) continue;
      pool_.release(0);
      KernelCase made = make(rows, cols);
      made.name = name;
      visit_(made);
    }
  }
  Matrix tensor(std::int64_t rows, std::int64_t cols) { return pool_.floats(dtype_, rows, cols); }

  void elementwise() {
    const auto sum = [](auto rows, auto cols) { return graph::Add{rows * cols}; };
    shapes("add", 768, sum);
    shapes("add_in_place", 768, sum, {.in_place = {{"out", "a"}}});
    shapes("scale", 768, [](auto rows, auto cols) { return graph::Scale{rows * cols, 2}; });
    shapes("bias_gradient", 3072, [](auto rows, auto cols) { return graph::BiasGradient{rows, cols, true}; });
    shapes("gelu_forward", 3072, [](auto rows, auto cols) { return graph::GeluForward{rows * cols}; });
    shapes("gelu_backward", 3072, [](auto rows, auto cols) { return graph::GeluBackward{rows * cols}; },
           {.in_place = {{"dx", "dy"}}});
    shapes("swiglu_forward", 2048, [](auto rows, auto cols) { return graph::SwiGluForward{rows, cols}; });
    shapes("swiglu_backward", 2048, [](auto rows, auto cols) { return graph::SwiGluBackward{rows, cols}; });
    for (bool residual : {false, true}) {
      shapes(residual ? "dropout_residual" : "dropout", 768,
             [residual](auto rows, auto cols) { return graph::Dropout{rows, cols, 0, 0.1F, 3, residual}; },
             {.integers = {1, 2, 0}});
    }
    shapes("rope", 768, [](auto rows, auto cols) { return graph::Rope{rows, cols / 64, 64, 1024}; });
    // Of two ranks' messages. Communicators divide these themselves: here into one slice for each thread.
    plain_shapes("rank_sum_of_2", 768, [this](auto rows, auto cols) {
      const Matrix a = tensor(rows, cols), b = tensor(rows, cols), out = tensor(rows, cols);
      return KernelCase{{}, {2 * bytes_of(a), bytes_of(out), bytes_of(out)}, {}, [=, dtype = dtype_](Workers& w) {
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
    shapes("cast", 768, [](auto rows, auto cols) { return graph::Cast{rows * cols}; },
           {.dtypes = {{"out", dtype_ == DType::f32 ? DType::bf16 : DType::f32}}});
    shapes("add_bias", 3072, [](auto rows, auto cols) { return graph::AddBias{rows, cols}; });
    const auto all_of = [](const char* read, const char* written) {
      return [read, written](const Arguments& of) {
        const std::int64_t bytes = bytes_of(of.at(written));
        return KernelCost{bytes_of(of.at(read)), bytes, bytes};
      };
    };
    shapes("take_columns", 768,
           [](auto rows, auto cols) {
             return graph::TakeColumns{rows, cols, 2, 1};
           },
           {.integers = {1}, .cost = all_of("out", "out")});
    shapes("put_columns", 768,
           [](auto rows, auto cols) {
             return graph::PutColumns{rows, cols, 2, 1};
           },
           {.integers = {1}});
    plain_shapes("transpose", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), y = tensor(cols, rows);
      return KernelCase{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) { transpose(w, x, y); }};
    });
    for (bool transposed : {false, true}) {
      plain_shapes(transposed ? "pack_weight_t" : "pack_weight", 768, [this, transposed](auto rows, auto cols) {
        const GemmShape shape{1, transposed ? rows : cols, transposed ? cols : rows, false, transposed};
        const PackedUnit unit = packed_unit(dtype_);
        const Matrix b = tensor(rows, cols), packed = pool_.floats(packed_b_dtype(unit), 1, packed_b_elements(shape));
        return KernelCase{{}, {bytes_of(b), bytes_of(packed), bytes_of(packed)}, {}, [=](Workers& w) {
                            pack_gemm_b(w, shape, b, static_cast<std::byte*>(packed.data), unit);
                          }};
      });
    }
    shapes("cache_store", 768,
           [](auto rows, auto cols) {
             return graph::CacheStore{1, rows, cols, rows};
           },
           {.cost = all_of("x", "cache")});
  }

  void norms() {
    const Special adds_residual{.in_place = {{"dresidual", "dx"}}};
    shapes("layer_norm_forward", 768, [](auto rows, auto cols) { return graph::LayerNormForward{rows, cols, 1e-5F}; });
    shapes(
        "layer_norm_backward", 768,
        [](auto rows, auto cols) {
          return graph::LayerNormBackward{rows, cols, true, true};
        },
        adds_residual);
    shapes("rms_norm_forward", 768, [](auto rows, auto cols) { return graph::RmsNormForward{rows, cols, 1e-5F}; });
    shapes(
        "rms_norm_backward", 768,
        [](auto rows, auto cols) {
          return graph::RmsNormBackward{rows, cols, true, true};
        },
        adds_residual);
    // Queries of twelve heads.
    shapes("head_norm_forward", 768, [](auto rows, auto cols) {
      return graph::HeadNormForward{rows, cols / 64, 64, 1e-5F};
    });
    shapes("head_norm_backward", 768, [](auto rows, auto cols) {
      return graph::HeadNormBackward{rows, cols / 64, 64, true};
    });
  }

  // Norms of half rows.
  void norms_of_parts() {
    for (bool centered : {true, false}) {
      const std::string norm = centered ? "layer_norm" : "rms_norm";
      shapes(norm + "_statistics", 384, [=](auto rows, auto cols) {
        return graph::NormStatistics{rows, cols, centered};
      });
      shapes(norm + "_forward_of_parts", 384, [=](auto rows, auto cols) {
        return graph::NormForwardOfParts{rows, cols, 2, 1e-5F, centered};
      });
      shapes(norm + "_backward_sums", 384, [=](auto rows, auto cols) {
        return graph::NormBackwardSums{rows, cols, centered};
      });
      shapes(norm + "_backward_of_parts", 384,
             [=](auto rows, auto cols) { return graph::NormBackwardOfParts{rows, cols, 2, centered, true, true}; },
             {.in_place = {{"dresidual", "dx"}}});
    }
  }

  void losses() {
    // A row of logits stays in the cache between passes: it is read and written once.
    for (bool gradient : {true, false}) {
      add_case(gradient ? "cross_entropy" : "cross_entropy_loss", "1024x50257",
               graph::CrossEntropy{1024, kVocab, kVocab, gradient});
    }
    // Of half a vocabulary.
    constexpr std::int64_t kRows = 2048, kCols = 25152;
    const std::string shape = fmt::format("{}x{}", kRows, kCols);
    add_case("vocab_statistics", shape, graph::VocabStatistics{kRows, kCols, kVocab});
    add_case("vocab_cross_entropy", shape, graph::VocabCrossEntropy{kRows, kCols, kVocab, 2, true});
  }

  // Kernels so small that one thread runs them.
  void small() {
    if (dtype_ == DType::f32) {
      add_case("loss_sum", "1024", graph::LossSum{1024});
      add_case("clip_factor", "148", graph::ClipFactor{148, 1.0F});
    }
    add_case("select_row", "16x50257", graph::SelectRow{16, kVocab},
             {.dtypes = {{"out", DType::f32}}, .integers = {15}, .cost = [](const Arguments& of) {
                const Matrix &x = of.at("x"), &out = of.at("out");
                return KernelCost{bytes_of(x) / x.rows, bytes_of(out), bytes_of(out)};
              }});
  }

  void embeddings() {
    // The rows of a table that the tokens name, once each.
    const auto looked_up = [](const Arguments& of, const char* table) {
      const Matrix& rows = of.at(table);
      return std::min(count(of.at("tokens")), rows.rows) * bytes_of(rows) / rows.rows;
    };
    shapes("embedding_forward", 768,
           [](auto rows, auto cols) {
             return graph::EmbeddingForward{rows, cols, kVocab, kContext, true};
           },
           {.cost = [=](const Arguments& of) {
             const std::int64_t out = bytes_of(of.at("out"));
             return KernelCost{looked_up(of, "wte"), out, out};
           }});
    shapes("embedding_backward", 768,
           [](auto rows, auto cols) {
             return graph::EmbeddingBackward{rows, cols, kVocab, true};
           },
           {.cost = [=](const Arguments& of) {
             const std::int64_t touched = looked_up(of, "dwte");
             return KernelCost{bytes_of(of.at("dout")) + touched, touched};
           }});
    shapes("position_backward", 768, [](auto rows, auto cols) {
      return graph::PositionBackward{rows, cols, kContext, kContext, true};
    });
  }

  void optimizer() {
    for (bool with_master : {false, true}) {
      if (with_master && dtype_ == DType::f32) continue;
      shapes(with_master ? "adamw_master" : "adamw", 768, [with_master](auto rows, auto cols) {
        return graph::AdamW{rows * cols, 0.9F, 0.95F, 1e-8F, 0.1F, with_master};
      });
    }
    if (dtype_ == DType::bf16) return;
    shapes("sum_squares", 768, [](auto rows, auto cols) { return graph::SumSquares{rows * cols}; });
  }

  void attention() {
    for (const graph::AttentionForward& op :
         {graph::AttentionForward{4, 256, 12, 12, 64}, graph::AttentionForward{1, 1024, 12, 12, 64},
          graph::AttentionForward{4, 256, 12, 4, 64}, graph::AttentionForward{1, 512, 8, 8, 128}}) {
      const std::string shape = fmt::format("{}x{}x{}/{}x{}", op.batch, op.seq, op.heads, op.kv_heads, op.head_dim);
      add_case("attention_forward", shape, op, {.flops = true});
      const auto forward = [&](const Arguments& of) {
        const execute::PreparedTask task(op, {of.at("q"), of.at("k"), of.at("v"), of.at("out"), of.at("log_sum_exp")});
        Workers once(1);
        once.reserve(task.scratch());
        task.run(once);
      };
      add_case("attention_backward", shape,
               graph::AttentionBackward{op.batch, op.seq, op.heads, op.kv_heads, op.head_dim},
               {.flops = true, .prepare = forward});
    }
    for (std::int64_t batch : {1, 8}) {
      add_case("attention_decode", fmt::format("{}x1024x12/12x64", batch),
               graph::AttentionDecode{batch, 12, 12, 64, kContext},
               {.integers = {kContext - 1},
                .cost = [](const Arguments& of) { return KernelCost{2 * bytes_of(of.at("k_cache"))}; }});
    }
  }

  CasePool& pool_;
  std::string filter_;
  Visit visit_;
  DType dtype_ = DType::f32;
  std::int64_t cols_ = 0;  // of arguments of any shape
};

}  // namespace

void visit_kernel_cases(CasePool& pool, DType dtype, const std::string& filter,
                        const std::function<void(const KernelCase&)>& visit) {
  Cases(pool, filter, visit).all(dtype);
}

}  // namespace weft::cpu
