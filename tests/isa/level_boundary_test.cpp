// Exceptions, prepared products, threads and strings cross from the program into a level's library and back. Built with
// WEFT_ISA=all only, into the folder beside the levels.
#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/reduce.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "kernels/cpu/isa/level.h"

namespace weft::cpu {
namespace {

Matrix matrix(std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  return {values.data(), rows, cols, cols, DType::f32};
}

TEST(LevelBoundary, TheHighestLevelIsInUse) {
  choose_kernels("");
  EXPECT_EQ(kernel_level(), to_string(highest_level(features_of_this_cpu()).value()));
  EXPECT_EQ(built_levels().size(), kIsaLevels.size());
  EXPECT_NO_THROW(choose_kernels(kernel_level()));
  for (const auto& [name, level] : kIsaLevels) {
    if (name == kernel_level()) continue;
    EXPECT_THROW(choose_kernels(name), std::logic_error);
  }
}

TEST(LevelBoundary, ExceptionsOfKernelsKeepTheirTypes) {
  Workers workers(1);
  std::vector<float> row(8, 1.0F), caches(8, 1.0F), out(8);
  const DecodeTensors tensors{matrix(row, 1, 8),    matrix(row, 1, 8),    matrix(row, 1, 8),
                              matrix(caches, 1, 8), matrix(caches, 1, 8), matrix(out, 1, 8)};
  const DecodeShape shape{.batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 8, .context = 1};
  workers.reserve(attention_decode_scratch(shape));
  EXPECT_THROW(attention_decode(workers, shape, 1, tensors), RuntimeFault);
  std::vector<float> longer(16);
  EXPECT_THROW(add(workers, matrix(row, 1, 8), matrix(row, 1, 8), matrix(longer, 1, 16)), std::logic_error);
}

TEST(LevelBoundary, ChunksRunOnTheProgramsThreads) {
  Workers workers(3);
  constexpr std::int64_t kCount = 1 << 20;
  std::vector<float> a(kCount, 1.5F), b(kCount, 2.0F), sum(kCount);
  int progressed = 0;
  workers.set_progress_hook([&progressed] { ++progressed; });
  add(workers, matrix(a, 1, kCount), matrix(b, 1, kCount), matrix(sum, 1, kCount));
  EXPECT_EQ(sum, std::vector<float>(kCount, 3.5F));
  EXPECT_GT(progressed, 0);
  const void* const sources[] = {a.data(), b.data(), a.data()};
  sum_in_rank_order(sources, sum.data(), kCount, DType::f32);
  EXPECT_EQ(sum, std::vector<float>(kCount, 5.0F));
}

TEST(LevelBoundary, PreparedProductsMoveAndGo) {
  for (const std::int64_t rows : {4, 128}) {  // by oneDNN and by Weft's own product
    const GemmShape shape{.m = rows, .n = 64, .k = 32};
    std::vector<float> a(static_cast<std::size_t>(rows) * 32, 2.0F), b(32 * 64, 0.5F);
    std::vector<float> c(static_cast<std::size_t>(rows) * 64), d(c.size());
    const GemmArguments into_c{matrix(a, rows, 32), matrix(b, 32, 64), matrix(c, rows, 64), {}};
    GemmArguments into_d = into_c;
    into_d.c = matrix(d, rows, 64);
    Workers workers(2);
    std::vector<PreparedGemm> products;
    products.emplace_back(shape, into_c);
    products.emplace_back(shape, into_d);  // moves the first
    for (const PreparedGemm& product : products) {
      workers.reserve(product.scratch());
      product.run(workers);
    }
    EXPECT_EQ(c, std::vector<float>(c.size(), 32.0F));
    EXPECT_EQ(d, c);
    c.assign(c.size(), 0.0F);
    products[1] = std::move(products[0]);
    products.erase(products.begin());
    products[0].run(workers);
    EXPECT_EQ(c, d);
  }
  EXPECT_EQ(parse_gemm_method("packed 64x192"), (GemmMethod{GemmMethod::Engine::packed, 64, 192}));
  EXPECT_EQ(to_string(GemmMethod{GemmMethod::Engine::sgemm, 8, 48, GemmLayout::nt}), "sgemm 8x48 nt");
}

}  // namespace
}  // namespace weft::cpu
