// The rate of grouped products, as shares of the rates of dense products: of one product of as many rows with one
// matrix, and of a product for each group with its own matrix, each by its default method.
//
// They take turns, so that changes of the machine's speed affect all; a share is the median over the turns of the ratio
// to the dense products measured right before and after.
#include "kernels/cpu/experts/grouped_gemm.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/median.h"
#include "bench/cpu_limits.h"
#include "bench/program.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {
namespace {

struct Options {
  std::int64_t experts = 8, hidden = 1024, ffn = 1408;
  std::vector<std::int64_t> rows = {1, 16, 64, 128, 256};  // of a group
  std::vector<int> threads = {1, 2};
  std::vector<std::string> dtypes = {"f32", "bf16"};
  int turns = 7;
  bool json = false;
};

// A grouped product: up, its input's gradient, or its matrix's. `dense` is the product of all rows with one matrix,
// `group` that of a group.
struct GroupedCase {
  std::string name;
  GemmShape dense, group;
  Scratch scratch;
  std::function<void(Workers&)> run;
};

class Bench {
 public:
  Bench(const Options& options, DType dtype, std::int64_t rows)
      : options_(options),
        dtype_(dtype),
        rows_(rows),
        all_(rows * options.experts),
        pool_(8 * (options.experts * 2 * options.ffn * options.hidden) +
              8 * (all_ * (2 * options.ffn + options.hidden)) + (1 << 22)),
        x_(pool_.floats(dtype, all_, options.hidden)),
        y_(pool_.floats(dtype, all_, 2 * options.ffn)),
        w_(pool_.floats(dtype, options.experts * 2 * options.ffn, options.hidden)),
        dw_(pool_.floats(DType::f32, options.experts * 2 * options.ffn, options.hidden)),
        offsets_(pool_.integers(options.experts + 1, 1)) {
    for (std::int64_t g = 0; g <= options.experts; ++g) offsets_.i32()[g] = static_cast<std::int32_t>(g * rows);
  }

  void measure(int threads) {
    const std::int64_t h = options_.hidden, f = 2 * options_.ffn;
    const PackedUnit unit = widest_bf16_unit();
    measure(threads,
            {"forward",
             {all_, f, h, false, true},
             {rows_, f, h, false, true},
             grouped_gemm_scratch(all_, f, h, dtype_, unit),
             [=, this](Workers& w) { grouped_gemm(w, true, x_, w_, offsets_, y_, unit); }},
            {x_, w_, y_, {}}, {rows_, f, rows_});
    measure(threads,
            {"dx",
             {all_, h, f},
             {rows_, h, f},
             grouped_gemm_scratch(all_, h, f, dtype_, unit),
             [=, this](Workers& w) { grouped_gemm(w, false, y_, w_, offsets_, x_, unit); }},
            {y_, w_, x_, {}}, {rows_, f, rows_});
    measure(threads,
            {"dw",
             {f, h, all_, true},
             {f, h, rows_, true},
             grouped_gemm_gradient_scratch(all_, f, h, dtype_, unit),
             [=, this](Workers& w) { grouped_gemm_gradient(w, y_, x_, offsets_, dw_, false, unit); }},
            {y_, x_, dw_, {}}, {rows_, rows_, f});
  }

 private:
  // Of A, B and C, the rows that belong to a group.
  struct RowsOfGroup {
    std::int64_t a, b, c;
  };

  static Matrix part(Matrix matrix, std::int64_t first, std::int64_t rows) {
    matrix.data = static_cast<std::byte*>(matrix.data) +
                  first * matrix.row_stride * static_cast<std::int64_t>(size_of(matrix.dtype));
    matrix.rows = rows;
    return matrix;
  }

  void measure(int threads, const GroupedCase& grouped, const GemmArguments& whole, const RowsOfGroup& rows) const {
    Workers workers(threads);
    workers.reserve(grouped.scratch);
    const GemmShape& s = grouped.dense;
    const PreparedGemm dense(
        s,
        {part(whole.a, 0, s.trans_a ? s.k : s.m), part(whole.b, 0, s.trans_b ? s.n : s.k), part(whole.c, 0, s.m), {}});
    workers.reserve(dense.scratch());
    std::vector<PreparedGemm> apart;
    for (std::int64_t g = 0; g < options_.experts; ++g) {
      apart.emplace_back(grouped.group, GemmArguments{part(whole.a, g * rows.a, rows.a),
                                                      part(whole.b, g * rows.b, rows.b),
                                                      part(whole.c, g * rows.c, rows.c),
                                                      {}});
      workers.reserve(apart.back().scratch());
    }
    const double flops = 2e-9 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    const auto rate_of = [&](const auto& product) {
      const bench::Stopwatch watch;
      product();
      return flops / watch.seconds();
    };
    std::vector<double> rates, of_dense, of_apart, dense_rates, apart_rates;
    double dense_before = 0, apart_before = 0;
    for (int turn = -1; turn < options_.turns; ++turn) {
      const double rate = rate_of([&] { grouped.run(workers); });
      const double dense_after = rate_of([&] { dense.run(workers); });
      const double apart_after = rate_of([&] {
        for (const PreparedGemm& product : apart) product.run(workers);
      });
      if (turn >= 0) {
        rates.push_back(rate), dense_rates.push_back(dense_after), apart_rates.push_back(apart_after);
        of_dense.push_back(2 * rate / (dense_before + dense_after));
        of_apart.push_back(2 * rate / (apart_before + apart_after));
      }
      dense_before = dense_after, apart_before = apart_after;
    }
    print(threads, grouped.name,
          {median(rates), median(dense_rates), median(apart_rates), median(of_dense), median(of_apart)});
  }

  struct Rates {
    double grouped, dense, apart, of_dense, of_apart;
  };
  void print(int threads, const std::string& name, const Rates& rates) const {
    if (options_.json) {
      const nlohmann::json line = {{"product", name},
                                   {"dtype", to_string(dtype_)},
                                   {"threads", threads},
                                   {"experts", options_.experts},
                                   {"rows", rows_},
                                   {"gflops", rates.grouped},
                                   {"dense_gflops", rates.dense},
                                   {"apart_gflops", rates.apart},
                                   {"of_dense", rates.of_dense},
                                   {"of_apart", rates.of_apart}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print("{:<8} {:<5} {:>7} {:>4} {:>9.1f} {:>9.1f} {:>9.1f} {:>8.1f} % {:>8.1f} %\n", name, to_string(dtype_),
                 threads, rows_, rates.grouped, rates.dense, rates.apart, 100 * rates.of_dense, 100 * rates.of_apart);
    }
    std::fflush(stdout);
  }

  const Options& options_;
  DType dtype_;
  std::int64_t rows_, all_;
  CasePool pool_;
  Matrix x_, y_, w_, dw_, offsets_;
};

int run(const Options& options) {
  if (!options.json) fmt::print("product  dtype threads rows   GFLOP/s     dense     apart   of dense   of apart\n");
  for (const std::string& dtype : options.dtypes) {
    for (const std::int64_t rows : options.rows) {
      Bench bench(options, dtype == "f32" ? DType::f32 : DType::bf16, rows);
      for (const int threads : options.threads) bench.measure(threads);
    }
  }
  return 0;
}

}  // namespace
}  // namespace weft::cpu

int main(int argc, char** argv) {
  weft::cpu::Options options;
  CLI::App app(
      "GFLOP/s of grouped products with experts' matrices up [2·ffn, hidden], and their shares of the rates of one "
      "dense "
      "product of as many rows, and of one product for each expert",
      "bench_grouped_gemm");
  app.add_option("--experts", options.experts, "groups")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--hidden", options.hidden, "columns of rows")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--ffn", options.ffn, "width of an expert")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--rows", options.rows, "of a group")->delimiter(',')->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", options.threads, "numbers of threads")->delimiter(',')->check(CLI::Range(1, 1024));
  app.add_option("--dtype", options.dtypes, "f32, bf16")->delimiter(',')->check(CLI::IsMember(options.dtypes));
  app.add_option("--turns", options.turns, "of both products")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_flag("--json", options.json, "one JSON object a line instead of a table");
  return weft::bench::main_of(app, argc, argv, [&] { return weft::cpu::run(options); });
}
