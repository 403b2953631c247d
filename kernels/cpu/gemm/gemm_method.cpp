// Engines and slices of matrix products; see gemm_method.h.
#include "kernels/cpu/gemm/gemm_method.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/gemm/gemm_amx.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/simd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weft::cpu {
namespace {

using Engine = GemmMethod::Engine;

constexpr std::int64_t kMostSlices = 4096;

// oneDNN chooses its instructions by the CPU that it runs on. Code for AVX2 would get other sums from it on a CPU with
// AVX-512, so there it is held to AVX2 (VNNI is of integers alone). With AVX-512 its fp32 products are the same on
// every CPU, and the unit that multiplies bf16 is the run's own choice, so nothing is held back: AMX may be used. Code
// below AVX2 isn't meant for results that can be repeated elsewhere. A user's own limit is kept. oneDNN takes a limit
// before its first call only, so this happens when the code is loaded.
bool limit_library() {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if (std::getenv("DNNL_MAX_CPU_ISA") != nullptr) return false;  // NOLINT(concurrency-mt-unsafe)
  return dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2_vnni) == dnnl_success;
#else
  return false;
#endif
}
[[maybe_unused]] const bool kLimited = limit_library();

// Copying an element takes a core up to 2 ns, the time of 200 flops of a fast product. With this many uses of each
// element, another layout must be almost twice as fast to win.
constexpr CopyRule kCopyRule{.least_uses = 128, .least_flops = 16e6};

constexpr std::array<std::pair<Engine, std::string_view>, 3> kEngines = {{
    {Engine::sgemm, "sgemm"},
    {Engine::matmul, "matmul"},
    {Engine::packed, "packed"},
}};

// Takes a decimal number ≥ 1, as to_string writes it, from the front of `text`; 0 if there is none.
std::int64_t take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 1 || text.front() == '0') return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

void add(std::vector<GemmMethod>& methods, const GemmMethod& method) {
  if (std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
}

// The usual slices, halved and doubled in each direction, and strips.
void add_slices_of(std::vector<GemmMethod>& methods, Engine engine, const GemmShape& shape) {
  const GemmSlices usual = gemm_slices(shape.m, shape.n, shape.k);
  const auto add_slices = [&](std::int64_t rows, std::int64_t cols) {
    rows = std::min(shape.m, round_up(std::max<std::int64_t>(rows, 1), 8));
    cols = std::min(shape.n, round_up(std::max<std::int64_t>(cols, 1), 48));
    add(methods, {engine, rows, cols});
  };
  add(methods, {engine, usual.rows, usual.cols});
  const std::int64_t count = usual.row_blocks * usual.col_blocks;
  if (count == 1) return;
  add_slices(usual.rows / 2, usual.cols);
  add_slices(usual.rows, usual.cols / 2);
  add_slices(usual.rows * 2, usual.cols);
  add_slices(usual.rows, usual.cols * 2);
  add_slices(usual.rows * 2, usual.cols / 2);
  add_slices(usual.rows / 2, usual.cols * 2);
  if (shape.m >= 8 * count) add_slices(ceil_div(shape.m, count), shape.n);
  if (shape.n >= 48 * count) add_slices(shape.m, ceil_div(shape.n, count));
}

// All slices in the product's own layout, and the usual slices in the other layouts.
void add_library_methods(std::vector<GemmMethod>& methods, Engine engine, const GemmShape& shape, DType inputs) {
  add_slices_of(methods, engine, shape);
  const GemmSlices usual = gemm_slices(shape.m, shape.n, shape.k);
  for (const GemmLayout layout : other_layouts(shape, inputs, kCopyRule)) {
    add(methods, {engine, usual.rows, usual.cols, layout});
  }
}

// oneDNN has bf16 products if the CPU has AVX-512, by bf16 instructions or by emulation.
bool library_takes_bf16() {
  const auto known = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (known & kNeeded) == kNeeded;
}

bool has_amx() {
#if defined(__x86_64__)
  constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;  // CPUID leaf 7, EDX
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool known = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0;
  const bool amx = known && (edx & kAmxBf16) != 0 && (edx & kAmxTile) != 0;
  return amx && dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx && allow_amx_tiles();
#else
  return false;
#endif
}

// Slices are multiples of the register tile; B's part of a slice stays in the second-level cache.
void add_packed_methods(std::vector<GemmMethod>& methods, const GemmShape& shape) {
  if (shape.m <= kPackedRowsAtOnce) {
    for (const std::int64_t cols : {96, 192, 384}) add(methods, {Engine::packed, shape.m, cols});
  }
  for (const std::int64_t cols : {192, 384}) {
    for (const std::int64_t rows : {64, 128, 256}) add(methods, {Engine::packed, rows, cols});
  }
}

// The number of rows from which the packed engine is the default. From there on it wins almost every product, because
// the rows amortise the packing (bench_gemm).
std::int64_t rows_worth_packing(const GemmShape& shape, DType inputs, PackedUnit bf16) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  const PackedUnit unit = packed_unit(inputs, bf16);
  // AMX tiles haven't been measured yet; docs/kernels.md gives the reasons for this value.
  if (unit == PackedUnit::amx) return 64;
  // The library would convert a slice's operands and then pack them.
  if (unit == PackedUnit::pairs || (inputs == DType::bf16 && kLanes == 16)) return 8;
  if (bf16_in_pairs()) {
    // On these CPUs the library's fp32 product is slow if B is transposed, if B's rows are a multiple of 8 KB apart and
    // so compete for the same cache lines, or if B has very many rows.
    constexpr std::int64_t kCompeting = 8192 / sizeof(float), kManyRows = 16384;
    if (shape.trans_b) return 16;
    if (!shape.trans_a && (shape.n % kCompeting == 0 || shape.k >= kManyRows)) return 256;
  }
  if (kLanes == 8) return 64;
  // Products of two transposed layouts, as gradients of weights are (bench_gemm on Sapphire Rapids: 20 to 40 % faster).
  constexpr std::int64_t kGradient = 768;
  return shape.trans_a ? kGradient : kNever;
}

}  // namespace

GemmSlices gemm_slices(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr double kSmallest = 8e6, kLargest = 256e6;  // flops: ~50 µs and ~1.5 ms of one core
  constexpr std::int64_t kMinRows = 64, kMinCols = 96, kUsual = 8, kMost = 256;
  // A product of few rows is bound by reading B: count a byte as 16 flops.
  const auto md = static_cast<double>(m), nd = static_cast<double>(n), kd = static_cast<double>(k);
  const double work = std::max(2.0 * md * nd * kd, 16.0 * 4.0 * (md * kd + kd * nd));
  const std::int64_t wanted =
      std::clamp(static_cast<std::int64_t>(work / kLargest),
                 std::clamp(static_cast<std::int64_t>(work / kSmallest), std::int64_t{1}, kUsual), kMost);
  const std::int64_t most_rows = std::max<std::int64_t>(1, m / kMinRows);
  const std::int64_t most_cols = std::max<std::int64_t>(1, n / kMinCols);
  GemmSlices best{m, n, 1, 1};
  std::int64_t best_count = 0, best_packing = 0;
  for (std::int64_t row_blocks = 1; row_blocks <= std::min(wanted, most_rows); ++row_blocks) {
    // Multiples of the library's register blocks: 8 rows, 48 columns.
    const std::int64_t rows = std::min(m, round_up(ceil_div(m, row_blocks), 8));
    const std::int64_t cols = std::min(n, round_up(ceil_div(n, std::min(most_cols, ceil_div(wanted, row_blocks))), 48));
    const GemmSlices slices{rows, cols, ceil_div(m, rows), ceil_div(n, cols)};
    const std::int64_t count = std::min(wanted, slices.row_blocks * slices.col_blocks);
    const std::int64_t packing = m * slices.col_blocks + n * slices.row_blocks;  // in units of k elements
    if (count > best_count || (count == best_count && packing < best_packing)) {
      best = slices, best_count = count, best_packing = packing;
    }
  }
  return best;
}

std::string to_string(const GemmMethod& method) {
  std::string text;
  for (const auto& [engine, name] : kEngines) {
    if (engine == method.engine) text = name;
  }
  text += " " + std::to_string(method.rows) + "x" + std::to_string(method.cols);
  return text.append(layout_suffix(method.layout));
}

std::optional<GemmMethod> parse_gemm_method(std::string_view text) {
  const GemmLayout layout = take_layout_suffix(text);
  for (const auto& [engine, name] : kEngines) {
    std::string_view rest = text;
    if (!take(rest, name) || !take(rest, " ")) continue;
    const std::int64_t rows = take_number(rest);
    if (rows == 0 || !take(rest, "x")) return {};
    const std::int64_t cols = take_number(rest);
    if (cols == 0 || !rest.empty()) return {};
    return GemmMethod{engine, rows, cols, layout};
  }
  return {};
}

GemmMethod default_gemm_method(const GemmShape& shape, DType inputs, DType /*output*/, PackedUnit bf16) {
  const bool amx = packed_unit(inputs, bf16) == PackedUnit::amx;
  // AMX multiplies so fast that reading A again for every slice would take as long as the product, so slices are wide.
  if (shape.m >= rows_worth_packing(shape, inputs, bf16)) {
    return {Engine::packed, shape.m <= kPackedRowsAtOnce ? shape.m : 64, amx ? 384 : 192};
  }
  const GemmSlices slices = gemm_slices(shape.m, shape.n, shape.k);
  const bool by_library = inputs == DType::bf16 && bf16_in_amx() && bf16 == widest_bf16_unit();
  return {by_library ? Engine::matmul : Engine::sgemm, slices.rows, slices.cols};
}

std::vector<GemmMethod> gemm_methods(const GemmShape& shape, DType inputs, DType output, PackedUnit bf16) {
  std::vector<GemmMethod> methods = {default_gemm_method(shape, inputs, output, bf16)};
  add_library_methods(methods, Engine::sgemm, shape, inputs);
  // Without bf16 instructions, bf16 matmul is several times slower than fp32, emulated or missing: not worth a trial.
  const bool native = inputs == DType::f32 || bf16_in_amx() || bf16_in_pairs();
  if (native) add_library_methods(methods, Engine::matmul, shape, inputs);
  add_packed_methods(methods, shape);
  std::erase_if(methods, [&](const GemmMethod& method) { return !can_run(method, shape, inputs, output); });
  return methods;
}

bool can_run(const GemmMethod& method, const GemmShape& shape, DType inputs, DType /*output*/) {
  if (method.rows < 1 || method.cols < 1) return false;
  if (method.engine == Engine::matmul && inputs == DType::bf16 && !library_takes_bf16()) return false;
  if (method.engine == Engine::packed) return method.layout == GemmLayout::own;
  if (!layout_fits(method.layout, shape, inputs)) return false;
  const auto blocks = [](std::int64_t size, std::int64_t slice) { return size / slice + (size % slice != 0 ? 1 : 0); };
  const std::int64_t row_blocks = blocks(shape.m, method.rows), col_blocks = blocks(shape.n, method.cols);
  return row_blocks <= kMostSlices && col_blocks <= kMostSlices && row_blocks * col_blocks <= kMostSlices;
}

bool bf16_in_pairs() {
  return kHasPairs && !bf16_in_amx();
}

bool bf16_in_amx() {
  static const bool in_amx = has_amx();  // asking takes microseconds on a virtual machine
  return in_amx;
}

}  // namespace weft::cpu
