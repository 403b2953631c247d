// The speed of matrix products: GFLOP/s of every method, and its share of the rate of multiply-adds in registers,
// measured on the same threads at the same time.
//
// All methods of a product and the peak take turns, so that changes of the machine's speed affect all of them: `of
// peak` is the median, over the turns, of the ratio to the peaks measured right before and after.
#include "kernels/cpu/gemm/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/median.h"
#include "bench/cpu_limits.h"
#include "bench/program.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {
namespace {

constexpr const char* kAbout =
    "GFLOP/s of matrix products C[M,N] = op(A)[M,K] op(B)[K,N] by every method, and their share of the fp32 FMA peak "
    "(bf16 may reach twice the peak with AVX512_BF16, and more with AMX)";

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

const std::vector<std::string>& usual_products() {
  static const std::vector<std::string> names = {
      "1024x768x768:NT", "1024x2304x768:NT", "1024x3072x768:NT", "1024x768x3072:NT", "1024x50257x768:NT",
      "1024x768x768:NN", "1024x768x2304:NN", "1024x3072x768:NN", "1024x768x3072:NN", "1024x768x50257:NN",
      "768x768x1024:TN", "2304x768x1024:TN", "3072x768x1024:TN", "768x3072x1024:TN", "50257x768x1024:TN",
      "256x768x768:NT",  "256x3072x768:NT",  "256x768x3072:NT",  "256x768x3072:NN",  "256x50257x768:NT",
      "3072x768x256:TN"};
  return names;
}

struct Options {
  std::vector<int> threads = {1, 2};
  std::vector<std::string> dtypes = {"f32", "bf16"}, products;
  std::vector<GemmMethod> methods;  // empty: of each shape, one an engine, or all
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
  CasePool pool(4 * (s.m * s.k + s.k * s.n + s.m * s.n) + (1 << 20));
  const Matrix a = pool.floats(dtype, s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k);
  const Matrix b = pool.floats(dtype, s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n), c = pool.floats(dtype, s.m, s.n);
  Workers workers(threads);
  const std::vector<GemmMethod> methods = methods_of(options, s, dtype);
  std::vector<PreparedGemm> products;
  for (const GemmMethod& method : methods) {
    products.emplace_back(s, GemmArguments{a, b, c, {}}, method, options.bf16);
    workers.reserve(products.back().scratch());
  }
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  std::vector<std::vector<double>> rates(methods.size()), shares(methods.size());
  std::vector<double> peaks;
  for (int turn = -1; turn < options.turns; ++turn) {
    double before = 1e-9 * fma_rate(workers);
    for (std::size_t i = 0; i < methods.size(); ++i) {
      const bench::Stopwatch watch;
      products[i].run(workers);
      const double rate = flops / watch.seconds() / 1e9, after = 1e-9 * fma_rate(workers);
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

/// Takes "all", "engines" or names of methods.
void set_methods(Options& options, const std::vector<std::string>& names) {
  options.all_methods = names.front() == "all";
  if (options.all_methods || names.front() == "engines") return;
  for (const std::string& name : names) {
    const auto method = parse_gemm_method(name);
    if (!method) throw CLI::ValidationError("--methods", name + " is no method");
    options.methods.push_back(*method);
  }
}

void set_bf16(Options& options, const std::string& name) {
  for (const auto& [unit_name, unit] : kPackedUnits) {
    if (name == unit_name) options.bf16 = unit;
  }
  if (name == to_string(options.bf16) && has_unit(options.bf16)) return;
  throw CLI::ValidationError("--bf16", name + " is no unit of this CPU");
}

int run(const Options& options) {
  if (!options.json) {
    fmt::print("{:<20} {:<5} {:>2}   {:<20} {:>8} {:>9} {:>8}\n", "product", "dtype", "T", "method (* default)",
               "GFLOP/s", "of peak", "peak");
  }
  std::vector<Product> products;
  for (const std::string& name : options.products.empty() ? usual_products() : options.products) {
    const auto product = parse_product(name);
    if (!product) throw CLI::ValidationError("SHAPE", name + " isn't MxNxK:LAYOUT");
    products.push_back(*product);
  }
  for (const Product& product : products) {
    for (const std::string& dtype : options.dtypes) {
      const DType type = dtype == "f32" ? DType::f32 : DType::bf16;
      for (const int threads : options.threads) measure(options, product, type, threads);
    }
  }
  return 0;
}

}  // namespace
}  // namespace weft::cpu

int main(int argc, char** argv) {
  using weft::cpu::Options;
  Options options;
  CLI::App app(weft::cpu::kAbout, "bench_gemm");
  app.add_option("SHAPE", options.products,
                 "MxNxK:LAYOUT, LAYOUT one of NN NT TN TT (T: stored transposed); default: the products of GPT-2 124M "
                 "with 1024 rows, then with 256");
  app.add_option("--threads", options.threads, "numbers of threads")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--dtype", options.dtypes, "f32, bf16 (A, B and C are bf16)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(options.dtypes));
  app.add_option_function<std::string>(
      "--bf16", [&](const std::string& name) { weft::cpu::set_bf16(options, name); },
      "the unit for bf16 in Weft's own products: fp32, pairs or amx; default: the CPU's widest");
  app.add_option_function<std::vector<std::string>>(
         "--methods", [&](const std::vector<std::string>& names) { weft::cpu::set_methods(options, names); },
         "all, engines (one of each; the default), or a list: \"sgemm 128x768 nn,packed 128x192\"")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--turns", options.turns, "of all methods")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_flag("--json", options.json, "one JSON object a line instead of a table");
  return weft::bench::main_of(app, argc, argv, [&] { return weft::cpu::run(options); });
}
