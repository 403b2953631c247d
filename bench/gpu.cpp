// Compares the CUDA kernels with the GPU's limits: bytes over time with a copy, matrix products and attention with the
// peak, at the sizes of a training step.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "base/error.h"
#include "bench/gpu_nccl.h"
#include "bench/gpu_pairs.h"
#include "bench/gpu_timing.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/experts/experts.h"
#include "kernels/cuda/gemm/gemm.h"
#include "runtime/execute/cuda/cuda_tasks.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/tuning/gemm_trials.h"

namespace weft {
namespace {

constexpr std::string_view kUsage =
    "usage: bench_gpu [--filter TEXT] [--tokens N] [--hidden N] [--quick]\n"
    "       bench_gpu --rate SECONDS | --pairs [--quick]\n"
    "\n"
    "  --filter TEXT  only lines whose name contains TEXT\n"
    "  --tokens N     rows of the activations; default: 32768\n"
    "  --hidden N     width of the activations; default: 768\n"
    "  --quick        run every kernel once, without filling the cache: tests that it runs, not its speed\n"
    "  --rate SECONDS one product of 8192x8192x8192: in a burst after a rest, and for so long\n"
    "  --pairs        ways to compute the same: attention engines, work within products or after them, NCCL's calls\n"
    "\n"
    "columns: time (median of 20 runs, over buffers larger than the cache), bytes moved over that time, and that over "
    "the\n"
    "rate of a device-to-device copy of 1 GiB, counted the same way: bytes read and written, each once.\n";

/// An argument that has no memory yet.
struct Argument {
  DType dtype;
  std::int64_t rows, cols;
  std::int64_t below = 0;  // of token ids
};

struct Bench {
  std::string filter;
  std::int64_t tokens, hidden;
  bool quick;
  bench::GpuPool pool{};
  bench::GpuTimer timer{quick};
  execute::CudaLibraries libraries{};
  execute::TryGemm find_method = execute::device_gemm_trials({.rounds = quick ? 1 : 7});
  double copy = 0;  // bytes per millisecond

  bool wanted(const std::string& name) const { return name.find(filter) != std::string::npos; }

  void measure_copy() {
    const std::size_t bytes = std::size_t{1} << (quick ? 20 : 30);
    std::byte *const from = pool.allocate(bytes), *const to = pool.allocate(bytes);
    const double ms =
        timer([&] { cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr), "copy"); });
    copy = 2.0 * static_cast<double>(bytes) / ms;
    fmt::print("{:<34} {:>9.3f} ms  {:>7.0f} GB/s\n", quick ? "copy of 1 MiB" : "copy of 1 GiB", ms, copy * 1e-6);
    pool.clear();
  }

  double time_of(const graph::Operation& operation, const std::vector<cpu::Matrix>& arguments) {
    const std::int64_t bytes = execute::cuda_scratch_bytes(operation, arguments, libraries);
    const auto task =
        execute::prepare_cuda_task(operation, arguments, pool.allocate(static_cast<std::size_t>(bytes)), libraries);
    return timer([&] { task->run(nullptr, nullptr); });
  }

  cpu::Matrix make(const Argument& argument) {
    if (argument.below > 0) return pool.tokens(argument.cols, argument.below);
    if (argument.dtype == DType::i64)
      return {pool.allocate(64), argument.rows, argument.cols, argument.cols, DType::i64};
    return pool.matrix(argument.dtype, argument.rows, argument.cols);
  }

  /// Bytes are the arguments' bytes, each argument counted as often as stated.
  void memory_bound(const std::string& name, const graph::Operation& operation, const std::vector<Argument>& arguments,
                    double bytes) {
    if (!wanted(name)) return;
    std::vector<cpu::Matrix> made;
    for (const Argument& argument : arguments) made.push_back(make(argument));
    tell(name, time_of(operation, made), bytes);
    pool.clear();
  }
  void tell(const std::string& name, double ms, double bytes) const {
    fmt::print("{:<34} {:>9.3f} ms  {:>7.0f} GB/s  {:>4.0f} % of the copy\n", name, ms, bytes / ms * 1e-6,
               100 * bytes / ms / copy);
    std::fflush(stdout);
  }

  /// One rank's rows for 8 ranks of 8 experts each, two of them a token, with equal shares. Most places of a segment
  /// are empty then.
  void moved_rows(const std::string& name, bool takes) {
    if (!wanted(name)) return;
    constexpr std::int64_t kRanks = 8, kExperts = 64;
    const std::int64_t rows = tokens / 2;
    std::vector<std::int32_t> table;
    for (std::int64_t i = 0; i < kRanks * (kExperts + 1); ++i) {
      table.push_back(static_cast<std::int32_t>(rows * (i % (kExperts + 1)) / kExperts));
    }
    const cuda::DeviceBuffer on_device = cuda::on_device(std::as_bytes(std::span(table)));
    const auto buffer = [&](std::int64_t of) { return pool.matrix(DType::bf16, of, hidden).data; };
    std::vector<void*> segments;
    for (std::int64_t r = 0; r < kRanks; ++r) segments.push_back(buffer(rows));
    kernels::RowMove move{reinterpret_cast<const std::int32_t*>(on_device.get()), kRanks, kExperts, rows,
                          kRanks * rows};
    move.row_bytes = 2 * hidden;
    move.segments = true;
    move.holds = move.collects = takes;
    move.own = buffer(takes ? kRanks * rows : rows);
    tell(name, timer([&] { cuda::move_rows({}, move, segments); }), 4 * static_cast<double>(rows * hidden));
    pool.clear();
  }

  /// With the library's first guess, and with the algorithm that `weft tune` would choose.
  void gemm(const std::string& name, const graph::Gemm& op, DType output) {
    if (!wanted("gemm " + name)) return;
    const auto matrix = [](std::int64_t rows, std::int64_t cols, DType dtype) {
      return cpu::Matrix{nullptr, rows, cols, cols, dtype};
    };
    const std::vector<cpu::Matrix> shapes = {matrix(op.trans_a ? op.k : op.m, op.trans_a ? op.m : op.k, DType::bf16),
                                             matrix(op.trans_b ? op.n : op.k, op.trans_b ? op.k : op.n, DType::bf16),
                                             matrix(op.m, op.n, output)};
    const execute::GemmTrial trial = find_method(execute::problem_of(op, shapes));
    const double flops = 2.0 * static_cast<double>(op.m) * static_cast<double>(op.n) * static_cast<double>(op.k);
    fmt::print("gemm {:<29} {:>9.3f} ms  {:>7.0f} TFLOP/s  tuned {:>9.3f} ms {:>7.0f} TFLOP/s{}\n", name,
               1e3 * trial.usual_seconds, flops / trial.usual_seconds * 1e-12, 1e3 * trial.chosen_seconds,
               flops / trial.chosen_seconds * 1e-12,
               cpu::layout_suffix(std::get<execute::DeviceGemmMethod>(trial.chosen).layout));
    std::fflush(stdout);
  }

  void attention(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim) {
    const std::string name = fmt::format("attention b{} t{} h{}/{} d{}", batch, seq, heads, kv_heads, dim);
    if (!wanted(name)) return;
    const std::int64_t rows = batch * seq, q = heads * dim, kv = kv_heads * dim;
    const auto matrix = [&](std::int64_t cols) { return pool.matrix(DType::bf16, rows, cols); };
    const std::vector<cpu::Matrix> forward = {matrix(q), matrix(kv), matrix(kv), matrix(q),
                                              pool.matrix(DType::f32, 1, batch * heads * seq)};
    std::vector<cpu::Matrix> backward = forward;
    for (const std::int64_t cols : {q, q, kv, kv}) backward.push_back(matrix(cols));
    // Two products forward and five backward, over the causal half.
    const double flops = 2.0 * static_cast<double>(batch * heads * seq * seq * dim);
    const double f = time_of(graph::AttentionForward{batch, seq, heads, kv_heads, dim}, forward);
    const double b = time_of(graph::AttentionBackward{batch, seq, heads, kv_heads, dim}, backward);
    const cpu::AttentionShape shape{batch, seq, heads, kv_heads, dim};
    const cpu::AttentionTensors tensors{forward[0], forward[1], forward[2], forward[3], forward[4]};
    const cuda::Launch launch{
        nullptr, pool.allocate(static_cast<std::size_t>(cuda::attention_backward_scratch_bytes(shape))), nullptr};
    const double own_f = timer([&] { cuda::attention_forward(launch, shape, tensors); });
    const double own_b = timer([&] {
      cuda::attention_backward(launch, shape, tensors, {backward[5], backward[6], backward[7], backward[8]});
    });
    fmt::print(
        "{:<34} forward {:.3f} ms {:.0f} TFLOP/s, own {:.3f} ms {:.0f}; backward {:.3f} ms {:.0f}, own {:.3f} ms "
        "{:.0f}\n",
        name, f, flops / f * 1e-9, own_f, flops / own_f * 1e-9, b, 2.5 * flops / b * 1e-9, own_b,
        2.5 * flops / own_b * 1e-9);
    std::fflush(stdout);
    pool.clear();
  }
};

/// Arguments of the layers' shapes.
struct Shapes {
  std::int64_t t, h, f = 4 * h;
  double th = static_cast<double>(t * h), tf = static_cast<double>(t * f);

  Argument activation(std::int64_t cols) const { return {DType::bf16, t, cols}; }
  static Argument wide(std::int64_t n) { return {DType::f32, 1, n}; }
  static Argument vector(std::int64_t n) { return {DType::bf16, 1, n}; }
  static Argument tokens(std::int64_t n) { return {DType::i32, 1, n, 50257}; }
};

constexpr std::int64_t kVocab = 50304;

void run_activations(Bench& bench, const Shapes& of) {
  const std::int64_t t = of.t, h = of.h, f = of.f;
  bench.memory_bound("gelu forward", graph::GeluForward{t * f}, {of.activation(f), of.activation(f)}, 4 * of.tf);
  bench.memory_bound("gelu backward", graph::GeluBackward{t * f},
                     {of.activation(f), of.activation(f), of.activation(f)}, 6 * of.tf);
  bench.memory_bound("swiglu forward", graph::SwiGluForward{t, f}, {of.activation(2 * f), of.activation(f)}, 6 * of.tf);
  bench.memory_bound("swiglu backward", graph::SwiGluBackward{t, f},
                     {of.activation(2 * f), of.activation(f), of.activation(2 * f)}, 10 * of.tf);
  bench.memory_bound("add", graph::Add{t * h}, {of.activation(h), of.activation(h), of.activation(h)}, 6 * of.th);
}

void run_norms(Bench& bench, const Shapes& of) {
  const std::int64_t t = of.t, h = of.h, f = of.f;
  bench.memory_bound("layer norm forward", graph::LayerNormForward{t, h, 1e-5F},
                     {of.activation(h), of.vector(h), of.vector(h), of.activation(h), of.wide(t), of.wide(t)},
                     4 * of.th);
  bench.memory_bound("layer norm backward", graph::LayerNormBackward{t, h, true, false},
                     {of.activation(h), of.vector(h), of.wide(t), of.wide(t), of.activation(h), of.activation(h),
                      of.wide(h), of.wide(h), of.activation(h)},
                     8 * of.th);
  bench.memory_bound("rms norm forward", graph::RmsNormForward{t, h, 1e-5F},
                     {of.activation(h), of.vector(h), of.activation(h), of.wide(t)}, 4 * of.th);
  bench.memory_bound(
      "rms norm backward", graph::RmsNormBackward{t, h, true, false},
      {of.activation(h), of.vector(h), of.wide(t), of.activation(h), of.activation(h), of.wide(h), of.activation(h)},
      8 * of.th);
  bench.memory_bound("bias gradient", graph::BiasGradient{t, f}, {of.activation(f), of.wide(f)}, 2 * of.tf);
  bench.memory_bound("rope", graph::Rope{t, h / 64, 64, 1024}, {of.activation(h)}, 4 * of.th);
}

void run_ends(Bench& bench, const Shapes& of) {
  const std::int64_t t = of.t, h = of.h;
  const std::int64_t rows = t / 4, vocab = kVocab;
  const double logits = static_cast<double>(rows * vocab);
  bench.memory_bound("cross-entropy", graph::CrossEntropy{rows, 50257, vocab, true},
                     {{DType::bf16, rows, vocab}, of.tokens(rows), of.wide(rows), of.wide(1)}, 4 * logits);
  const std::int64_t n = 124'000'000 / 8 * 8;
  const auto dn = static_cast<double>(n);
  bench.memory_bound("adamw, fp32 master", graph::AdamW{n, 0.9F, 0.95F, 1e-8F, 0.1F, true},
                     {of.vector(n), of.wide(n), of.wide(n), of.wide(n), of.wide(4), of.wide(2), of.wide(n)}, 30 * dn);
  bench.memory_bound("sum of squares", graph::SumSquares{n}, {of.wide(n), of.wide(1)}, 4 * dn);
  bench.memory_bound("cast to bf16", graph::Cast{n}, {of.wide(n), of.vector(n)}, 6 * dn);
  bench.memory_bound("dropout", graph::Dropout{t, h, 0, 0.1F, 1, false, 1},
                     {of.activation(h), {DType::i64, 1, 3}, of.activation(h)}, 4 * of.th);
  bench.memory_bound("embedding forward", graph::EmbeddingForward{t, h, 50257, 1024, true},
                     {of.tokens(t), {DType::bf16, 50257, h}, {DType::bf16, 1024, h}, of.activation(h)}, 4 * of.th);
  bench.memory_bound("embedding backward", graph::EmbeddingBackward{t, h, 50257, true},
                     {of.tokens(t), of.activation(h), {DType::f32, 50257, h}}, 10 * of.th);
  bench.memory_bound("position backward", graph::PositionBackward{t, h, 1024, 1024},
                     {of.activation(h), {DType::f32, 1024, h}}, 2 * of.th);
}

void run_products(Bench& bench) {
  const std::int64_t t = bench.tokens, h = bench.hidden, f = 4 * h;
  bench.gemm("8192x8192x8192", {8192, 8192, 8192}, DType::bf16);
  for (const auto& [name, in, out] : {std::tuple{"qkv", h, 3 * h},
                                      {"attention out", h, h},
                                      {"mlp up", h, f},
                                      {"mlp down", f, h},
                                      {"head", h, kVocab}}) {
    bench.gemm(fmt::format("{} forward", name), {t, out, in, false, true, false, std::string_view(name) != "head"},
               DType::bf16);
    bench.gemm(fmt::format("{} dx", name), {t, in, out}, DType::bf16);
    bench.gemm(fmt::format("{} dw", name), {out, in, t, true, false}, DType::f32);
    bench.gemm(fmt::format("{} dw added", name), {out, in, t, true, false, true}, DType::f32);
  }
  // To be compared with "mlp up forward" and "gelu forward", and with "mlp down dx" and "gelu backward".
  graph::Gemm fused{t, f, h, false, true, false, true};
  fused.epilogue = Epilogue::gelu;
  bench.gemm("mlp up forward, gelu", fused, DType::bf16);
  fused = {t, f, h};
  fused.epilogue = Epilogue::gelu_gradient;
  bench.gemm("mlp down dx, gelu gradient", fused, DType::bf16);
  bench.attention(t / 1024, 1024, 12, 12, 64);
  bench.attention(t / 1024, 1024, 20, 20, 64);
  bench.attention(4, 4096, 16, 16, 128);
  bench.attention(4, 4096, 32, 8, 128);
}

void run_all(Bench& bench) {
  const Shapes shapes{bench.tokens, bench.hidden};
  bench.measure_copy();
  run_activations(bench, shapes);
  run_norms(bench, shapes);
  run_ends(bench, shapes);
  bench.moved_rows("rows to segments", false);
  bench.moved_rows("rows from segments", true);
  run_products(bench);
}

/// Times one large matrix product, in a short burst and for a long time: under load a card lowers its clocks to stay
/// within its power limit, so only a burst shows the rate of the algorithm itself.
class Rate {
 public:
  explicit Rate(bool quick) : size_(quick ? 256 : 8192), rest_(quick ? 0 : 1000) {
    const std::vector<cuda::Matrix> matrices = {matrix(), matrix(), matrix()};
    const execute::GemmProblem problem =
        execute::problem_of(graph::Gemm{size_, size_, size_}, {matrices.begin(), matrices.end()});
    const execute::GemmTrial trial = execute::device_gemm_trials({.rounds = quick ? 1 : 7})(problem);
    std::size_t scratch = 0;
    for (const execute::GemmMethod& method : {trial.usual, trial.chosen}) {
      const auto& [text, layout] = std::get<execute::DeviceGemmMethod>(method);
      const auto algorithm = cuda::parse_hex(text);
      if (!algorithm) throw std::logic_error("a method without an algorithm");
      products_.emplace_back(library_, execute::key_of(problem, matrices), matrices[0], matrices[1], matrices[2],
                             nullptr, &*algorithm, layout);
      scratch = std::max(scratch, static_cast<std::size_t>(products_.back().scratch_bytes()));
    }
    launch_.scratch = pool_.allocate(scratch);
    for (cudaEvent_t& event : events_) cuda::check(cudaEventCreate(&event), "cudaEventCreate");
  }
  ~Rate() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  Rate(const Rate&) = delete;
  Rate& operator=(const Rate&) = delete;

  /// TFLOP/s of 30 products after a rest and three others.
  double burst(bool tuned) const {
    constexpr int kFirst = 3, kCount = 30;
    cuda::check(cudaDeviceSynchronize(), "a product");
    std::this_thread::sleep_for(rest_);
    enqueue(tuned, kFirst);
    record(0);
    enqueue(tuned, kCount);
    record(1);
    return rate(kCount, milliseconds(0));
  }

  struct Sustained {
    double all, first, last;
  };
  /// TFLOP/s of tuned products over all the time, over its first half second, and over its last quarter.
  Sustained sustained(double seconds) const {
    constexpr int kCount = 20;
    std::vector<double> times;  // of kCount products each, in milliseconds
    double sum = 0;
    record(0);
    enqueue(true, kCount);
    record(1);
    // Two batches are enqueued at any time, between three events.
    for (std::size_t batch = 1; sum < 1e3 * seconds; ++batch) {
      enqueue(true, kCount);
      record(batch + 1);
      times.push_back(milliseconds(batch - 1));
      sum += times.back();
    }
    cuda::check(cudaDeviceSynchronize(), "a product");
    const auto rate_within = [&](double from, double to) {
      double at = 0, taken = 0;
      int count = 0;
      for (const double time : times) {
        if (at + time > from && at < to) taken += time, count += kCount;
        at += time;
      }
      return rate(count, taken);
    };
    return {rate_within(0, sum), rate_within(0, std::min(500.0, sum)), rate_within(0.75 * sum, sum)};
  }

 private:
  cuda::Matrix matrix() { return pool_.matrix(DType::bf16, size_, size_); }

  double rate(int count, double ms) const {
    const auto n = static_cast<double>(size_);
    return ms > 0 ? 2 * n * n * n * count / ms * 1e-9 : 0;
  }
  void enqueue(bool tuned, int count) const {
    for (int i = 0; i < count; ++i) products_[tuned ? 1 : 0].run(launch_);
  }
  void record(std::size_t event) const {
    cuda::check(cudaEventRecord(events_[event % events_.size()], nullptr), "cudaEventRecord");
  }
  /// From an event to the next one, which is waited for.
  double milliseconds(std::size_t event) const {
    const cudaEvent_t begin = events_[event % events_.size()], end = events_[(event + 1) % events_.size()];
    cuda::check(cudaEventSynchronize(end), "a product");
    float ms = 0;
    cuda::check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    return static_cast<double>(ms);
  }

  std::int64_t size_;
  std::chrono::milliseconds rest_;
  bench::GpuPool pool_;
  cuda::CublasLt library_;
  std::vector<cuda::PreparedGemm> products_;  // the library's first guess, and the tuned one
  cuda::Launch launch_;
  std::array<cudaEvent_t, 3> events_{};
};

/// Prints lines of name, value and unit, separated by tabs.
void print_rate(double seconds, bool quick) {
  const Rate rate(quick);
  const auto print = [](const char* name, double value) {
    fmt::print("{}\t{:.4g}\tTFLOP/s\n", name, value);
    std::fflush(stdout);
  };
  print("burst by the first guess", rate.burst(false));
  print("burst", rate.burst(true));
  const auto [all, first, last] = rate.sustained(seconds);
  print("sustained", all);
  print("sustained, first half second", first);
  print("sustained, last quarter", last);
}

int bench_main(int argc, char** argv) {
  std::string filter;
  std::int64_t tokens = 32768, hidden = 768;
  bool quick = false, pairs = false;
  double rate_seconds = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--quick" || flag == "--pairs") {
      (flag == "--quick" ? quick : pairs) = true;
      continue;
    }
    if (flag == "--help" || i + 1 == argc) {
      fmt::print("{}", kUsage);
      return flag == "--help" ? 0 : 2;
    }
    const char* const value = argv[++i];
    if (flag == "--filter") {
      filter = value;
    } else if (flag == "--tokens") {
      tokens = std::atoll(value);
    } else if (flag == "--hidden") {
      hidden = std::atoll(value);
    } else if (flag == "--rate") {
      rate_seconds = std::atof(value);
    } else {
      fmt::print(stderr, "unknown flag {}\n{}", flag, kUsage);
      return 2;
    }
  }
  fmt::print("{}\n", fmt::join(execute::report_devices().devices, "\n"));
  if (rate_seconds > 0) print_rate(rate_seconds, quick);
  if (pairs) {
    bench::print_nccl(quick);
    bench::print_pairs(quick);
  }
  if (rate_seconds > 0 || pairs) return 0;
  Bench bench{.filter = filter, .tokens = tokens, .hidden = hidden, .quick = quick};
  run_all(bench);
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    return weft::bench_main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  }
}
