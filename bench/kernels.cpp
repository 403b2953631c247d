// Compares the CPU kernels with the machine's limits, over sizes beyond the cache and inside it.
//
// Each line compares a kernel's time with its floor: the larger of the time to move its bytes and the time to do its
// floating-point operations. Both rates are measured alternately with the kernel, on the same threads: a triad a = b +
// s·c over as many bytes as the kernel touches, and independent chains of fused multiply-adds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/median.h"
#include "bench/cpu_limits.h"
#include "bench/program.h"
#include "graph/operation.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/reduce.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "runtime/execute/cpu/cpu_kernels.h"

namespace weft::cpu {
namespace {

constexpr std::string_view kColumns =
    "columns:\n"
    "  r+w MB    bytes that the kernel must read and write once, in 10^6 bytes\n"
    "  alloc     bytes that the cache reads in addition, for stores to memory that isn't read (write-allocate)\n"
    "  GB/s      r+w over the kernel's time; `triad` counts in the same way: two reads and a write\n"
    "  % triad   GB/s over triad\n"
    "  % bus     GB/s over triad, both with write-allocate, so that kernels with few stores gain nothing\n"
    "  GFLOP/s   floating-point operations over time, and the `peak` of fused multiply-adds, where it counts\n"
    "  % floor   the floor's time (the larger of bus and peak) over the kernel's time\n";

struct Options {
  std::string filter;
  std::vector<std::string> dtypes = {"f32", "bf16"};
  std::vector<int> threads = {1, 2};
  int repetitions = 9;
  bool json = false;
};

// --- the kernels and their arguments

/// Bytes moved and operations computed by one run of a kernel. Each byte counts once, even if the kernel reads it
/// again; `allocated` are bytes of stores to memory that it doesn't read.
struct KernelCost {
  std::int64_t read = 0, written = 0, allocated = 0, flops = 0;
};

struct KernelCase {
  std::string name;  // "gelu_backward bf16 1024x3072"
  KernelCost cost;
  Scratch scratch;
  std::function<void(Workers&)> run;
};

constexpr std::int64_t kVocab = 50257, kContext = 1024;

std::int64_t bytes_of(const Matrix& matrix) {
  return count(matrix) * static_cast<std::int64_t>(size_of(matrix.dtype));
}

using Arguments = std::map<std::string_view, Matrix>;  // by their names in the operation's schema

/// The properties of a case that its operation's schema doesn't give.
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

/// Every kernel of one dtype with arguments larger than the cache and with arguments inside it, and the bytes and
/// operations that it needs. The arguments of a case are in the pool, which is cleared before each case.
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
    shapes("geglu_forward", 2048, [](auto rows, auto cols) { return graph::GeGluForward{rows, cols}; });
    shapes("geglu_backward", 2048, [](auto rows, auto cols) { return graph::GeGluBackward{rows, cols}; });
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
             return graph::PutColumns{{rows, cols, 2, 1}};
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

// --- the machine's own rates

struct Triad {
  float *a, *b, *c;
  std::int64_t count;

  void run(Workers& workers) const {
    workers.run(ceil_div(count, kChunkElements), [&](std::int64_t chunk) {
      const std::int64_t begin = chunk * kChunkElements, end = std::min(count, begin + kChunkElements);
      for (std::int64_t i = begin; i < end; i += kLanes) store(a + i, load(b + i) + 3.0F * load(c + i));
    });
  }
};

/// The mean time of `runs` runs.
double seconds(std::int64_t runs, const std::function<void()>& work) {
  const bench::Stopwatch watch;
  for (std::int64_t i = 0; i < runs; ++i) work();
  return watch.seconds() / static_cast<double>(runs);
}

// --- measuring

// A run takes a few milliseconds: a shorter kernel is repeated within a run.
std::int64_t inner_runs(double estimate) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(2e-3 / std::max(estimate, 1e-7)), 1, 1000);
}

void measure(const KernelCase& one, int threads, const Options& options, CasePool& pool) {
  Workers workers(threads);
  workers.reserve(one.scratch);
  const std::size_t used = pool.used();
  const std::int64_t moved = one.cost.read + one.cost.written;
  const std::int64_t elements = round_up(std::max<std::int64_t>(moved / 12, 1024), kLanes);
  const auto zeros = [&] {
    return static_cast<float*>(std::memset(pool.take(elements * 4), 0, static_cast<std::size_t>(elements) * 4));
  };
  const Triad triad{zeros(), zeros(), zeros(), elements};
  pool.release(used);

  const auto kernel = [&] { one.run(workers); };
  const auto stream = [&] { triad.run(workers); };
  kernel(), stream();
  const std::int64_t kernel_runs = inner_runs(seconds(1, kernel)), triad_runs = inner_runs(seconds(1, stream));
  std::vector<double> kernel_times, triad_times, peak_rates;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    // Once untimed: the triad's data has pushed the kernel's data out of the cache, and vice versa.
    if (kernel_runs > 1) kernel();
    kernel_times.push_back(seconds(kernel_runs, kernel));
    if (triad_runs > 1) stream();
    triad_times.push_back(seconds(triad_runs, stream));
    if (one.cost.flops > 0) peak_rates.push_back(1e-9 * fma_rate(workers));
  }
  const double time = median(kernel_times), triad_rate = 12e-9 * static_cast<double>(elements) / median(triad_times);
  const double rate = 1e-9 * static_cast<double>(moved) / time;
  const double bus_time = 1e-9 * static_cast<double>(moved + one.cost.allocated) / (triad_rate * 4 / 3);
  const double flop_rate = 1e-9 * static_cast<double>(one.cost.flops) / time;
  double peak_rate = 0, floor = bus_time;
  if (one.cost.flops > 0) {
    peak_rate = median(peak_rates);
    floor = std::max(floor, 1e-9 * static_cast<double>(one.cost.flops) / peak_rate);
  }
  if (options.json) {
    fmt::print(
        R"({{"kernel": "{}", "threads": {}, "seconds": {:.4e}, "read": {}, "written": {}, "write_allocated": {}, )"
        R"("GBps": {:.2f}, "triad_GBps": {:.2f}, "flops": {}, "peak_GFLOPs": {:.1f}, "of_triad": {:.3f}, )"
        R"("of_bus": {:.3f}, "of_floor": {:.3f}}})"
        "\n",
        one.name, threads, time, one.cost.read, one.cost.written, one.cost.allocated, rate, triad_rate, one.cost.flops,
        peak_rate, rate / triad_rate, bus_time / time, floor / time);
  } else {
    const auto if_limiting = [&](double each) { return one.cost.flops > 0 ? fmt::format("{:.1f}", each) : ""; };
    fmt::print("{:<40} {:>2} {:>9.3f} {:>7.1f} {:>6.1f} {:>6.1f} {:>6.1f} {:>5.0f} {:>5.0f} {:>7} {:>6} {:>5.0f}\n",
               one.name, threads, time * 1e3, 1e-6 * static_cast<double>(moved),
               1e-6 * static_cast<double>(one.cost.allocated), rate, triad_rate, 100 * rate / triad_rate,
               100 * bus_time / time, if_limiting(flop_rate), if_limiting(peak_rate), 100 * floor / time);
  }
  std::fflush(stdout);
}

int run(const Options& options) {
  CasePool pool(std::int64_t{1800} << 20);
  if (!options.json) {
    fmt::print("{:<40} {:>2} {:>9} {:>7} {:>6} {:>6} {:>6} {:>5} {:>5} {:>7} {:>6} {:>5}\n", "kernel", "T", "ms",
               "r+w MB", "alloc", "GB/s", "triad", "%tri", "%bus", "GFLOP/s", "peak", "%flr");
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (std::ranges::find(options.dtypes, to_string(dtype)) == options.dtypes.end()) continue;
    const auto visit = [&](const KernelCase& one) {
      for (int threads : options.threads) measure(one, threads, options, pool);
    };
    Cases(pool, options.filter, visit).all(dtype);
  }
  return 0;
}

}  // namespace
}  // namespace weft::cpu

int main(int argc, char** argv) {
  weft::cpu::Options options;
  CLI::App app("CPU kernels against the machine's limits", "bench_kernels");
  app.footer(std::string(weft::cpu::kColumns));
  app.add_option("--filter", options.filter, "only lines whose name contains it: \"gelu_backward bf16 1024x3072\"");
  app.add_option("--dtype", options.dtypes, "element types")->check(CLI::IsMember(options.dtypes));
  app.add_option("--threads", options.threads, "numbers of threads")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "runs of a kernel; the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", options.json, "one JSON object a line instead of a table");
  return weft::bench::main_of(app, argc, argv, [&] { return weft::cpu::run(options); });
}
