// How near the CPU kernels come to what the machine can do, over sizes beyond and inside the cache.
//
// Each line sets a kernel's time against its floor: the larger of the time in which its bytes can move and of the time
// in which its floating-point operations can be done. Both rates are measured in turn with the kernel, on the same
// threads: a triad a = b + s·c over as many bytes as the kernel touches, and independent chains of fused multiply-adds.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/median.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_decode.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/rms_norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/simd.h"
#include "runtime/buffer.h"

namespace weft::cpu {
namespace {

constexpr std::string_view kUsage =
    "usage: bench_kernels [--filter TEXT] [--dtype f32|bf16] [--threads N] [--repetitions N] [--json]\n"
    "\n"
    "  --filter TEXT    only lines whose name, e.g. \"gelu_backward bf16 1024x3072\", contains TEXT\n"
    "  --dtype          one of both element types; both if not said\n"
    "  --threads N      a number of threads; 1 and 2 if not said\n"
    "  --repetitions N  runs of a kernel, of which the median counts; 9 if not said\n"
    "  --json           one JSON object a line in place of the table\n"
    "\n"
    "columns:\n"
    "  r+w MB    what the kernel has to read and write once, in 10^6 bytes\n"
    "  alloc     what its stores to memory that it doesn't read make the cache read besides (write-allocate)\n"
    "  GB/s      r+w over the kernel's time; `triad` beside it counts the same way: two reads and a write\n"
    "  % triad   the first of the two over the second\n"
    "  % bus     the same with write-allocate counted on both sides, so that kernels with few stores gain nothing\n"
    "  GFLOP/s   floating-point operations over time, and `peak` of fused multiply-adds, where arithmetic counts\n"
    "  % floor   time of the floor (the larger of bus and peak) over the kernel's time\n";

struct Options {
  std::string filter;
  std::vector<DType> dtypes = {DType::f32, DType::bf16};
  std::vector<int> threads = {1, 2};
  int repetitions = 9;
  bool json = false;
};

// What one run of a kernel moves and computes. Bytes count once each, whatever the kernel reads again.
struct Cost {
  std::int64_t read = 0, written = 0, allocated = 0, flops = 0;
};

struct Case {
  std::string name;
  Cost cost;
  Scratch scratch;
  std::function<void(Workers&)> run;
};

// Memory for the arguments of one case after another, in large pages as a program's tensors are.
class Pool {
 public:
  explicit Pool(std::int64_t bytes) : memory_(bytes) {}

  std::size_t used() const { return used_; }
  void release(std::size_t used) { used_ = used; }

  std::byte* take(std::int64_t bytes) {
    std::byte* part = memory_.data() + used_;
    used_ += static_cast<std::size_t>(round_up(bytes, 4096) + 2112);  // rows of two arguments don't meet in one set
    if (used_ > static_cast<std::size_t>(memory_.size())) throw std::bad_alloc();
    return part;
  }

  // Numbers between −3 and 3, or between 0 and 3.
  Matrix floats(DType dtype, std::int64_t rows, std::int64_t cols, bool positive = false) {
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

  Matrix integers(std::int64_t count, std::int64_t below) {
    const Matrix matrix{take(count * 4), 1, count, count, DType::i32};
    for (std::int64_t i = 0; i < count; ++i) {
      matrix.i32()[i] = static_cast<std::int32_t>((i * 2654435761 + i / 7) % below);
    }
    return matrix;
  }

 private:
  Buffer memory_;
  std::size_t used_ = 0;
};

std::int64_t bytes_of(const Matrix& matrix) {
  return count(matrix) * static_cast<std::int64_t>(size_of(matrix.dtype));
}

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

constexpr std::int64_t kPeakRounds = 1 << 16, kChains = 12;  // few enough for the compiler to keep them in registers

// Chains long enough to hide the latency; `sink` keeps them alive.
// NOLINTNEXTLINE(clang-diagnostic-unknown-attributes)
[[gnu::noipa]] void multiply_adds(float* sink) {
  Floats chains[kChains];
  for (Floats& chain : chains) chain = load(sink);
  const Floats factor = load(sink + kLanes);
  for (std::int64_t round = 0; round < kPeakRounds; ++round) {
    for (Floats& chain : chains) chain = chain * factor + factor;
  }
  Floats total{};
  for (const Floats& chain : chains) total += chain;
  store(sink, total);
}

double seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// --- the kernels

enum class Place : std::uint8_t { memory, cache };

// Makes the cases of one dtype. Case bodies hold views into the pool, which is cleared before each case.
class Cases {
 public:
  using Visit = std::function<void(Case)>;

  Cases(Pool& pool, std::string filter, Visit visit)
      : pool_(pool), filter_(std::move(filter)), visit_(std::move(visit)) {}

  void all(DType dtype) {
    dtype_ = dtype;
    elementwise();
    norms();
    losses();
    embeddings();
    optimizer();
    attention();
  }

 private:
  using Make = std::function<Case()>;

  // Builds and visits one case if its name passes the filter.
  void add_case(const std::string& kernel, const std::string& shape, const Make& make) {
    const std::string name = fmt::format("{} {} {}", kernel, to_string(dtype_), shape);
    if (name.find(filter_) == std::string::npos) return;
    pool_.release(0);
    Case made = make();
    made.name = name;
    visit_(std::move(made));
  }

  // Rows of a width of GPT-2: some 64 MB or more a tensor in fp32, and as many as one batch of 4 × 256 tokens has.
  void shapes(const std::string& kernel, std::int64_t cols,
              const std::function<Case(std::int64_t rows, std::int64_t cols)>& make) {
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
      return Case{{}, {2 * bytes_of(a), bytes_of(out), bytes_of(out)}, {}, [=](Workers& w) { add(w, a, b, out); }};
    });
    shapes("add_in_place", 768, [this](auto rows, auto cols) {
      const Matrix a = tensor(rows, cols), b = tensor(rows, cols);
      return Case{{}, {2 * bytes_of(a), bytes_of(a)}, {}, [=](Workers& w) { add(w, a, b, a); }};
    });
    shapes("bias_gradient", 3072, [this](auto rows, auto cols) {
      const Matrix dy = tensor(rows, cols), db = single(1, cols);
      return Case{{}, {bytes_of(dy), 0}, bias_gradient_scratch(rows, cols), [=](Workers& w) {
                    bias_gradient(w, dy, db, true);
                  }};
    });
    shapes("gelu_forward", 3072, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), y = tensor(rows, cols);
      return Case{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) { gelu_forward(w, x, y); }};
    });
    shapes("gelu_backward", 3072, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), dy = tensor(rows, cols);
      return Case{{}, {2 * bytes_of(x), bytes_of(x)}, {}, [=](Workers& w) { gelu_backward(w, x, dy, dy); }};
    });
    shapes("swiglu_forward", 2048, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, 2 * cols), y = tensor(rows, cols);
      return Case{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) { swiglu_forward(w, x, y); }};
    });
    shapes("swiglu_backward", 2048, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, 2 * cols), dy = tensor(rows, cols), dx = tensor(rows, 2 * cols);
      return Case{{}, {bytes_of(x) + bytes_of(dy), bytes_of(dx), bytes_of(dx)}, {}, [=](Workers& w) {
                    swiglu_backward(w, x, dy, dx);
                  }};
    });
    for (bool with_residual : {false, true}) {
      shapes(with_residual ? "dropout_residual" : "dropout", 768, [this, with_residual](auto rows, auto cols) {
        const Matrix x = tensor(rows, cols), y = tensor(rows, cols);
        const Matrix residual = with_residual ? tensor(rows, cols) : x;
        return Case{{}, {(with_residual ? 2 : 1) * bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) {
                      dropout(w, {1, 2, 3, 0, 0.1F}, x, with_residual ? &residual : nullptr, y);
                    }};
      });
    }
    shapes("rope", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols);
      const std::vector<float> frequencies = rope_frequencies(64, 10000.0F, {});
      return Case{{}, {bytes_of(x), bytes_of(x)}, rope_scratch(64), [=](Workers& w) {
                    rope(w, frequencies, cols / 64, 1024, 0, false, x);
                  }};
    });
    shapes("rank_sum_of_2", 768, [this](auto rows, auto cols) {
      const Matrix a = tensor(rows, cols), b = tensor(rows, cols), out = tensor(rows, cols);
      return Case{{}, {2 * bytes_of(a), bytes_of(out), bytes_of(out)}, {}, [=, dtype = dtype_](Workers& w) {
                    // Communicators cut messages themselves: here one slice a thread.
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

  void norms() {
    shapes("layer_norm_forward", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), y = tensor(rows, cols), weight = tensor(1, cols), bias = tensor(1, cols);
      const Matrix mean = single(1, rows), rstd = single(1, rows);
      return Case{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) {
                    layer_norm_forward(w, 1e-5F, x, weight, bias, y, mean, rstd);
                  }};
    });
    shapes("layer_norm_backward", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), dy = tensor(rows, cols), dx = tensor(rows, cols), weight = tensor(1, cols);
      const Matrix mean = single(1, rows), rstd = single(1, rows, true), dw = single(1, cols), db = single(1, cols);
      return Case{{}, {3 * bytes_of(x), bytes_of(x)}, layer_norm_backward_scratch(rows, cols), [=](Workers& w) {
                    layer_norm_backward(w, x, weight, mean, rstd, dy, {dx, dw, db, &dx, true});
                  }};
    });
    shapes("rms_norm_forward", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), y = tensor(rows, cols), weight = tensor(1, cols), rstd = single(1, rows);
      return Case{{}, {bytes_of(x), bytes_of(y), bytes_of(y)}, {}, [=](Workers& w) {
                    rms_norm_forward(w, 1e-5F, x, weight, y, rstd);
                  }};
    });
    shapes("rms_norm_backward", 768, [this](auto rows, auto cols) {
      const Matrix x = tensor(rows, cols), dy = tensor(rows, cols), dx = tensor(rows, cols), weight = tensor(1, cols);
      const Matrix rstd = single(1, rows, true), dw = single(1, cols);
      return Case{{}, {3 * bytes_of(x), bytes_of(x)}, rms_norm_backward_scratch(rows, cols), [=](Workers& w) {
                    rms_norm_backward(w, x, weight, rstd, dy, {dx, dw, &dx, true});
                  }};
    });
  }

  void losses() {
    // A row of logits stays in the cache between the passes over it: it is read and written once.
    for (bool gradient : {true, false}) {
      add_case(gradient ? "cross_entropy" : "cross_entropy_loss", "1024x50257", [this, gradient] {
        const Matrix logits = tensor(1024, 50257), targets = pool_.integers(1024, 50257), losses = single(1, 1024);
        const Matrix scale = single(1, 1);
        return Case{{},
                    {bytes_of(logits), gradient ? bytes_of(logits) : 0},
                    cross_entropy_scratch(50257, dtype_, gradient),
                    [=](Workers& w) { cross_entropy(w, 50257, logits, targets, losses, gradient ? &scale : nullptr); }};
      });
    }
  }

  void embeddings() {
    shapes("embedding_forward", 768, [this](auto rows, auto cols) {
      const Matrix wte = tensor(50257, cols), wpe = tensor(1024, cols), out = tensor(rows, cols);
      const Matrix tokens = pool_.integers(rows, 50257);
      const std::int64_t looked_up = std::min<std::int64_t>(rows, 50257) * bytes_of(out) / rows;
      return Case{{}, {looked_up, bytes_of(out), bytes_of(out)}, {}, [=](Workers& w) {
                    embedding_forward(w, tokens, wte, &wpe, 1024, 0, out);
                  }};
    });
    shapes("embedding_backward", 768, [this](auto rows, auto cols) {
      const Matrix dwte = single(50257, cols), dout = tensor(rows, cols), tokens = pool_.integers(rows, 50257);
      const std::int64_t touched = std::min<std::int64_t>(rows, 50257) * bytes_of(dwte) / dwte.rows;
      return Case{{}, {bytes_of(dout) + touched, touched}, {}, [=](Workers& w) {
                    embedding_backward(w, tokens, dout, dwte, true);
                  }};
    });
    shapes("position_backward", 768, [this](auto rows, auto cols) {
      const Matrix dwpe = single(1024, cols), dout = tensor(rows, cols);
      return Case{{}, {bytes_of(dout) + bytes_of(dwpe), bytes_of(dwpe)}, {}, [=](Workers& w) {
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
        return Case{
            {}, {read, written, with_master ? bytes_of(p) : 0}, {}, [=](Workers& w) {
              adamw(w, {0.9F, 0.95F, 1e-8F, 0.1F}, {scalars, clip}, p, g, m, v, with_master ? &master : nullptr);
            }};
      });
    }
    if (dtype_ == DType::bf16) return;
    shapes("sum_squares", 768, [this](auto rows, auto cols) {
      const Matrix x = single(rows, cols), partial = single(1, 1);
      return Case{{}, {bytes_of(x), 0}, sum_squares_scratch(x), [=](Workers& w) { sum_squares(w, x, partial); }};
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
        return Case{{},
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
        return Case{{},
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
        return Case{{}, {2 * bytes_of(k_cache), 0}, attention_decode_scratch(shape), [=](Workers& w) {
                      attention_decode(w, shape, 1023, {q, k, v, k_cache, v_cache, out});
                    }};
      });
    }
  }

  Pool& pool_;
  std::string filter_;
  Visit visit_;
  DType dtype_ = DType::f32;
};

// --- measuring

// Runs of a few milliseconds: what is shorter is repeated within one.
std::int64_t inner_runs(double estimate) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(2e-3 / std::max(estimate, 1e-7)), 1, 1000);
}

void measure(const Case& one, int threads, const Options& options, Pool& pool) {
  Workers workers(threads);
  workers.reserve(one.scratch);
  const std::size_t used = pool.used();
  const std::int64_t moved = one.cost.read + one.cost.written;
  const std::int64_t elements = round_up(std::max<std::int64_t>(moved / 12, 1024), kLanes);
  const Triad triad{reinterpret_cast<float*>(pool.take(elements * 4)),
                    reinterpret_cast<float*>(pool.take(elements * 4)),
                    reinterpret_cast<float*>(pool.take(elements * 4)), elements};
  std::memset(triad.a, 0, static_cast<std::size_t>(elements) * 4);
  std::memset(triad.b, 0, static_cast<std::size_t>(elements) * 4);
  std::memset(triad.c, 0, static_cast<std::size_t>(elements) * 4);
  pool.release(used);
  std::vector<float> sinks(static_cast<std::size_t>(threads) * 64, 0.5F);

  const auto kernel = [&] { one.run(workers); };
  const auto stream = [&] { triad.run(workers); };
  const auto peak = [&] { workers.run(threads, [&](std::int64_t i) { multiply_adds(sinks.data() + i * 64); }); };
  kernel(), stream();
  const std::int64_t kernel_runs = inner_runs(seconds(kernel)), triad_runs = inner_runs(seconds(stream));
  std::vector<double> kernel_times, triad_times, peak_times;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    // Once outside of the clock: the triad's data have pushed the kernel's out of the cache, and the other way round.
    if (kernel_runs > 1) kernel();
    kernel_times.push_back(seconds([&] {
                             for (std::int64_t i = 0; i < kernel_runs; ++i) kernel();
                           }) /
                           static_cast<double>(kernel_runs));
    if (triad_runs > 1) stream();
    triad_times.push_back(seconds([&] {
                            for (std::int64_t i = 0; i < triad_runs; ++i) stream();
                          }) /
                          static_cast<double>(triad_runs));
    if (one.cost.flops > 0) peak_times.push_back(seconds(peak));
  }
  const double time = median(kernel_times), triad_rate = 12e-9 * static_cast<double>(elements) / median(triad_times);
  const double rate = 1e-9 * static_cast<double>(moved) / time;
  const double bus_time = 1e-9 * static_cast<double>(moved + one.cost.allocated) / (triad_rate * 4 / 3);
  const double flop_rate = 1e-9 * static_cast<double>(one.cost.flops) / time;
  double peak_rate = 0, floor = bus_time;
  if (one.cost.flops > 0) {
    peak_rate = 1e-9 * static_cast<double>(threads * kPeakRounds * kChains * kLanes * 2) / median(peak_times);
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
    fmt::print("{:<40} {:>2} {:>9.3f} {:>7.1f} {:>6.1f} {:>6.1f} {:>6.1f} {:>5.0f} {:>5.0f}", one.name, threads,
               time * 1e3, 1e-6 * static_cast<double>(moved), 1e-6 * static_cast<double>(one.cost.allocated), rate,
               triad_rate, 100 * rate / triad_rate, 100 * bus_time / time);
    if (one.cost.flops > 0) {
      fmt::print(" {:>7.1f} {:>6.1f}", flop_rate, peak_rate);
    } else {
      fmt::print(" {:>7} {:>6}", "", "");
    }
    fmt::print(" {:>5.0f}\n", 100 * floor / time);
  }
  std::fflush(stdout);
}

int run(const Options& options) {
  Pool pool(std::int64_t{1800} << 20);
  if (!options.json) {
    fmt::print("{:<40} {:>2} {:>9} {:>7} {:>6} {:>6} {:>6} {:>5} {:>5} {:>7} {:>6} {:>5}\n", "kernel", "T", "ms",
               "r+w MB", "alloc", "GB/s", "triad", "%tri", "%bus", "GFLOP/s", "peak", "%flr");
  }
  Cases cases(pool, options.filter, [&](const Case& one) {
    for (int threads : options.threads) measure(one, threads, options, pool);
  });
  for (DType dtype : options.dtypes) cases.all(dtype);
  return 0;
}

}  // namespace
}  // namespace weft::cpu

int main(int argc, char** argv) {
  weft::cpu::Options options;
  const auto usage_error = [](const std::string& what) {
    fmt::print(stderr, "bench_kernels: {}\n{}", what, weft::cpu::kUsage);
    return 2;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      fmt::print("{}", weft::cpu::kUsage);
      return 0;
    }
    if (option == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == argc) return usage_error(fmt::format("found '{}', expected an option and its value", option));
    const std::string_view value = argv[++i];
    int number = 0;
    const auto end = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_count = end.ec == std::errc{} && end.ptr == value.data() + value.size() && number >= 1;
    if (option == "--filter") {
      options.filter = value;
    } else if (option == "--dtype" && value == "f32") {
      options.dtypes = {weft::DType::f32};
    } else if (option == "--dtype" && value == "bf16") {
      options.dtypes = {weft::DType::bf16};
    } else if (option == "--threads" && is_count) {
      options.threads = {number};
    } else if (option == "--repetitions" && is_count) {
      options.repetitions = number;
    } else {
      return usage_error(fmt::format("found '{} {}', which is not an option with a valid value", option, value));
    }
  }
  return weft::cpu::run(options);
}
