// The speed of matrix products: GFLOP/s of every method, and its share of the rate of multiply-adds in registers,
// measured on the same threads at the same time. See usage().
//
// All methods of a product and the peak take turns, so that changes of the machine's speed affect them alike: `of peak`
// is the median, over the turns, of the ratio to the peaks measured right before and after.
#include "kernels/cpu/gemm/gemm.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/median.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

constexpr std::string_view kUsage = R"(usage: bench_gemm [options] [SHAPE...]

GFLOP/s of matrix products C[M,N] = op(A)[M,K] op(B)[K,N] by every method, and their share of the fp32 FMA peak (bf16
may reach twice the peak with AVX512_BF16, and more with AMX).
SHAPE is MxNxK:LAYOUT, LAYOUT one of NN NT TN TT (T: stored transposed). Default: the products of GPT-2 124M with 1024
rows, then with 256.

  --threads LIST      default: 1,2
  --dtype LIST        default: f32,bf16 (bf16: A, B and C are bf16)
  --bf16 UNIT         the unit for bf16 in Weft's own products: fp32, pairs or amx; default: the CPU's widest
  --methods WHICH     all, engines (one of each; the default), or a list: "sgemm 128x768 nn,packed 128x192"
  --turns N           default: 5
  --json              print one JSON object on each line instead of a table
)";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Twelve chains of multiply-adds that the compiler may neither drop nor reorder.
void multiply_add(std::int64_t repeats) {
  Floats chains[12];
  for (Floats& chain : chains) chain = broadcast(1.0F);
  Floats factor = broadcast(0.999F), term = broadcast(0.001F);
  for (std::int64_t i = 0; i < repeats; ++i) {
#if defined(__AVX512F__)
    asm volatile("" : "+v"(factor), "+v"(term));
#elif defined(__AVX2__)
    asm volatile("" : "+x"(factor), "+x"(term));
#else
    asm volatile("" : "+m"(factor), "+m"(term));
#endif
#pragma GCC unroll 12
    for (Floats& chain : chains) chain = chain * factor + term;
  }
  Floats total = chains[0];
  for (const Floats& chain : chains) total += chain;
  volatile float kept = sum(total);
  static_cast<void>(kept);
}

// GFLOP/s of multiply-adds in registers on all workers, measured for about 4 ms.
double fma_peak(Workers& workers) {
  constexpr std::int64_t kRepeats = 100000;
  const std::int64_t chunks = std::int64_t{16} * workers.threads();
  const auto begin = Clock::now();
  workers.run(chunks, [&](std::int64_t) { multiply_add(kRepeats); });
  return static_cast<double>(chunks * kRepeats) * 12 * 2 * kLanes / seconds_since(begin) / 1e9;
}

struct Product {
  GemmShape shape;
  std::string name;
};

std::optional<std::int64_t> take_number(std::string_view& text, char end) {
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto used = static_cast<std::size_t>(stop - text.data());
  if (error != std::errc{} || number < 1 || used >= text.size() || *stop != end) return {};
  text.remove_prefix(used + 1);
  return number;
}

std::optional<Product> parse_product(std::string_view text) {
  std::string_view rest = text;
  const auto m = take_number(rest, 'x'), n = m ? take_number(rest, 'x') : m, k = n ? take_number(rest, ':') : n;
  if (!k || rest.size() != 2 || rest.find_first_not_of("NT") != std::string_view::npos) return {};
  return Product{{*m, *n, *k, rest[0] == 'T', rest[1] == 'T'}, std::string(text)};
}

std::vector<Product> usual_products() {
  std::vector<Product> products;
  for (std::string_view name :
       {"1024x768x768:NT", "1024x2304x768:NT", "1024x3072x768:NT", "1024x768x3072:NT", "1024x50257x768:NT",
        "1024x768x768:NN", "1024x768x2304:NN", "1024x3072x768:NN", "1024x768x3072:NN", "1024x768x50257:NN",
        "768x768x1024:TN", "2304x768x1024:TN", "3072x768x1024:TN", "768x3072x1024:TN", "50257x768x1024:TN",
        "256x768x768:NT",  "256x3072x768:NT",  "256x768x3072:NT",  "256x768x3072:NN",  "256x50257x768:NT",
        "3072x768x256:TN"}) {
    products.push_back(*parse_product(name));
  }
  return products;
}

// A matrix of small numbers in large pages, like a program's tensors.
class Data {
 public:
  Data(DType dtype, std::int64_t rows, std::int64_t cols) : dtype_(dtype), rows_(rows), cols_(cols) {
    constexpr std::size_t kLargePage = std::size_t{2} << 20;
    const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
    const std::size_t whole = (bytes + kLargePage - 1) / kLargePage * kLargePage;
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kLargePage, whole)));
    if (bytes_ == nullptr) throw std::bad_alloc();
    madvise(bytes_.get(), whole, MADV_HUGEPAGE);
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      state = state * 1664525U + 1013904223U;
      const float value = static_cast<float>(state >> 8) * 0x1p-24F - 0.5F;
      if (dtype == DType::f32) view().f32()[i] = value;
      if (dtype == DType::bf16) view().b16()[i] = bf16(value);
    }
  }
  Matrix view() { return {bytes_.get(), rows_, cols_, cols_, dtype_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  DType dtype_;
  std::int64_t rows_, cols_;
};

struct Options {
  std::vector<int> threads = {1, 2};
  std::vector<DType> dtypes = {DType::f32, DType::bf16};
  std::vector<Product> products;
  std::vector<GemmMethod> methods;
  bool all_methods = false, json = false;
  PackedUnit bf16 = widest_bf16_unit();
  int turns = 5;
};

std::vector<GemmMethod> methods_of(const Options& options, const GemmShape& shape, DType dtype) {
  if (!options.methods.empty()) return options.methods;
  std::vector<GemmMethod> methods = gemm_methods(shape, dtype, dtype, options.bf16);
  if (options.all_methods) return methods;
  std::vector<GemmMethod> first;
  for (const GemmMethod& method : methods) {
    const auto same = [&](const GemmMethod& other) { return other.engine == method.engine; };
    if (std::ranges::none_of(first, same)) first.push_back(method);
  }
  return first;
}

void measure(const Options& options, const Product& product, DType dtype, int threads) {
  const GemmShape& s = product.shape;
  Data a(dtype, s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k), b(dtype, s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n);
  Data c(dtype, s.m, s.n);
  Workers workers(threads);
  const std::vector<GemmMethod> methods = methods_of(options, s, dtype);
  std::vector<PreparedGemm> products;
  for (const GemmMethod& method : methods) {
    products.emplace_back(s, GemmArguments{a.view(), b.view(), c.view(), {}}, method, options.bf16);
    workers.reserve(products.back().scratch());
  }
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  std::vector<std::vector<double>> rates(methods.size()), shares(methods.size());
  std::vector<double> peaks;
  for (int turn = -1; turn < options.turns; ++turn) {
    double before = fma_peak(workers);
    for (std::size_t i = 0; i < methods.size(); ++i) {
      const auto begin = Clock::now();
      products[i].run(workers);
      const double rate = flops / seconds_since(begin) / 1e9, after = fma_peak(workers);
      if (turn >= 0) {
        peaks.push_back(after);
        rates[i].push_back(rate);
        shares[i].push_back(2 * rate / (before + after));
      }
      before = after;
    }
  }
  const GemmMethod usual = default_gemm_method(s, dtype, dtype, options.bf16);
  for (std::size_t i = 0; i < methods.size(); ++i) {
    const std::string method = to_string(methods[i]);
    if (options.json) {
      const nlohmann::json line = {{"product", product.name},
                                   {"dtype", to_string(dtype)},
                                   {"threads", threads},
                                   {"method", method},
                                   {"default", methods[i] == usual},
                                   {"gflops", median(rates[i])},
                                   {"of_peak", median(shares[i])},
                                   {"peak_gflops", median(peaks)}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{:<20} {:<5} {:>2} {:<1} {:<20} {:>8.1f} {:>7.1f} % {:>8.1f}\n", product.name, to_string(dtype),
                 threads, methods[i] == usual ? "*" : "", method, median(rates[i]), 100 * median(shares[i]),
                 median(peaks));
    }
    std::fflush(stdout);
  }
}

// Calls part(text) for each comma-separated text; returns false as soon as a call does.
bool each_part(std::string_view list, const std::function<bool(std::string_view)>& part) {
  while (true) {
    const std::size_t comma = list.find(',');
    if (!part(list.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    list.remove_prefix(comma + 1);
  }
}

bool set_option(Options& options, std::string_view name, std::string_view value) {
  if (name == "--threads") {
    options.threads.clear();
    return each_part(value, [&](std::string_view part) {
      const std::string text = std::string(part) + " ";
      std::string_view rest = text;
      const auto number = take_number(rest, ' ');
      if (number && *number <= 1024) options.threads.push_back(static_cast<int>(*number));
      return number && *number <= 1024 && rest.empty();
    });
  }
  if (name == "--dtype") {
    options.dtypes.clear();
    return each_part(value, [&](std::string_view part) {
      if (part == "f32") options.dtypes.push_back(DType::f32);
      if (part == "bf16") options.dtypes.push_back(DType::bf16);
      return part == "f32" || part == "bf16";
    });
  }
  if (name == "--bf16") {
    for (const auto& [unit_name, unit] : kPackedUnits) {
      if (value == unit_name) options.bf16 = unit;
    }
    return value == to_string(options.bf16) && has_unit(options.bf16);
  }
  if (name == "--methods") {
    options.all_methods = value == "all";
    if (value == "all" || value == "engines") return true;
    return each_part(value, [&](std::string_view part) {
      const auto method = parse_gemm_method(part);
      if (method) options.methods.push_back(*method);
      return method.has_value();
    });
  }
  if (name == "--turns") {
    const std::string text = std::string(value) + " ";
    std::string_view rest = text;
    const auto number = take_number(rest, ' ');
    if (number) options.turns = static_cast<int>(std::min<std::int64_t>(*number, 1000));
    return number && rest.empty();
  }
  return false;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      options.json = true;
    } else if (argument.starts_with("--")) {
      if (i + 1 >= argc || !set_option(options, argument, argv[i + 1])) return {};
      ++i;
    } else {
      const auto product = parse_product(argument);
      if (!product) return {};
      options.products.push_back(*product);
    }
  }
  if (options.products.empty()) options.products = usual_products();
  return options;
}

int run(const Options& options) {
  if (!options.json) {
    fmt::print("{:<20} {:<5} {:>2}   {:<20} {:>8} {:>9} {:>8}\n", "product", "dtype", "T", "method (* default)",
               "GFLOP/s", "of peak", "peak");
  }
  for (const Product& product : options.products) {
    for (const DType dtype : options.dtypes) {
      for (const int threads : options.threads) measure(options, product, dtype, threads);
    }
  }
  return 0;
}

}  // namespace
}  // namespace weft::cpu

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--help") {
    fmt::print("{}", weft::cpu::kUsage);
    return 0;
  }
  const auto options = weft::cpu::parse(argc, argv);
  if (!options) {
    fmt::print(stderr, "{}", weft::cpu::kUsage);
    return 2;
  }
  return weft::cpu::run(*options);
}
