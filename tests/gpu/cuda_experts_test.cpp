// Operations of experts on the GPU compared with the CPU's kernels: odd sizes, ties, all tokens to one expert, experts
// without rows, rows of no expert. Then models with experts, whose losses are the CPU's, eager and replayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/experts/experts.h"
#include "kernels/cuda/experts/experts.h"
#include "tests/gpu/gpu_run.h"
#include "tests/gpu/operation_case.h"

namespace weft {
namespace {

using cpu::testing::Tensor;
using testing::check;
using testing::integers;
using testing::kFloats;
using testing::padded;

constexpr cpu::testing::Tolerance kSameBits{0, 0}, kOfExponentials{2e-6, 1e-6}, kOfDots{1e-4, 1e-4};

class CudaExperts : public testing::GpuTest {};

struct Tokens {
  std::int64_t rows, experts, choices;
};
constexpr Tokens kTokens[] = {{1, 1, 1}, {7, 3, 2}, {66, 5, 1}, {130, 8, 2}, {300, 40, 5}, {513, 4, 4}};

// The experts of each token, in ascending order. `alike`: all tokens take the first ones.
std::vector<std::int64_t> chosen_of(const Tokens& of, bool alike) {
  std::mt19937 random(17);
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0; row < of.rows; ++row) {
    std::vector<std::int64_t> experts(static_cast<std::size_t>(of.experts));
    std::iota(experts.begin(), experts.end(), 0);
    if (!alike) std::shuffle(experts.begin(), experts.end(), random);
    experts.resize(static_cast<std::size_t>(of.choices));
    std::sort(experts.begin(), experts.end());
    all.insert(all.end(), experts.begin(), experts.end());
  }
  return all;
}

// Where the rows of each expert begin, and the tokens' rows.
struct Sorted {
  std::vector<std::int64_t> slots, sources, offsets;
};
Sorted sorted(const Tokens& of, const std::vector<std::int64_t>& chosen) {
  Sorted found{std::vector<std::int64_t>(chosen.size()), {}, {0}};
  for (std::int64_t e = 0; e < of.experts; ++e) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i] != e) continue;
      found.slots[i] = std::ssize(found.sources);
      found.sources.push_back(static_cast<std::int64_t>(i) / of.choices);
    }
    found.offsets.push_back(std::ssize(found.sources));
  }
  return found;
}

TEST_F(CudaExperts, Routing) {
  for (const Tokens& of : kTokens) {
    const auto chosen = chosen_of(of, false);
    for (const bool normalise : {false, true}) {
      check(graph::Route{{of.rows, of.experts, of.choices, normalise}}, DType::f32, kOfExponentials,
            {{"logits", padded(3)}});
      check(graph::Route{{of.rows, of.experts, of.choices, normalise}, true}, DType::f32, kOfExponentials,
            {{"chosen", integers(chosen)}});
      for (const DType dtype : kFloats) {
        check(graph::RouteBackward{of.rows, of.experts, of.choices, normalise}, dtype, kOfExponentials,
              {{"chosen", integers(chosen)}, {"dlogits", padded(5)}});
      }
    }
  }
}

// Of equal logits the lower expert is chosen; a NaN still gives the CPU's choice.
TEST_F(CudaExperts, TiesAndNaNs) {
  const float nan = std::nanf("");
  Tensor logits(DType::f32, 3, 4), chosen(DType::i32, 3, 2), weights(DType::f32, 3, 2);
  const float values[] = {2, 1, 2, 2, 0, 0, 0, 0, nan, 1, nan, 3};
  std::copy(std::begin(values), std::end(values), logits.view().f32());
  testing::GpuMemory memory;
  execute::CudaLibraries libraries;
  const std::vector<cpu::Matrix> arguments = {memory.upload(logits), memory.upload(chosen), memory.upload(weights)};
  testing::prepare_on_gpu(graph::Route{{3, 4, 2}}, arguments, memory, libraries)->run(nullptr, nullptr);
  Tensor found = testing::GpuMemory::download(arguments[1]);
  const std::int32_t* const experts = found.view().i32();
  EXPECT_EQ(std::vector<std::int32_t>(experts, experts + 4), (std::vector<std::int32_t>{0, 2, 0, 1}));
  cpu::Workers workers(1);
  cpu::route(workers, {}, logits.view(), chosen.view(), weights.view());
  EXPECT_EQ(found.bytes(), chosen.bytes());
}

TEST_F(CudaExperts, RowsOfExperts) {
  for (const Tokens& of : kTokens) {
    for (const bool alike : {false, true}) {
      const auto chosen = chosen_of(of, alike);
      const Sorted rows = sorted(of, chosen);
      check(graph::SortByExpert{{of.rows, of.experts, of.choices}}, DType::f32, kSameBits,
            {{"chosen", integers(chosen)}});
      check(graph::CountChoices{{of.rows, of.experts, of.choices}}, DType::f32, kSameBits,
            {{"chosen", integers(chosen)}, {"offsets", integers(rows.offsets)}});
      for (const DType dtype : kFloats) {
        for (const std::int64_t cols : {24, 75}) {
          if (of.rows > 200 && cols > 24) continue;
          check(graph::GatherRows{{of.rows, of.choices, cols}}, dtype, kSameBits,
                {{"sources", integers(rows.sources)}, {"x", padded(8)}});
          check(graph::CombineRows{{of.rows, of.choices, cols}}, dtype, kSameBits, {{"slots", integers(rows.slots)}});
          check(graph::CombineRows{{of.rows, of.choices, cols}, true}, dtype, kOfExponentials,
                {{"slots", integers(rows.slots)}, {"out", padded(8)}});
          check(graph::CombineRowsBackward{{of.rows, of.choices, cols}}, dtype, {1e-5, 1e-4},
                {{"slots", integers(rows.slots)}});
        }
      }
    }
  }
}

TEST_F(CudaExperts, OffsetsOfARank) {
  for (const std::int64_t place : {0, 1}) {
    check(graph::OffsetsOfRank{2, 2}, DType::f32, kSameBits,
          {{"table", integers({0, 3, 4, 4, 6, 0, 0, 2, 6, 6})}, {"coordinate", testing::integer(place)}});
  }
}

// Groups of more and of less than a tile, empty ones, one that has all rows, and rows of no group, before the first one
// and after the last.
TEST_F(CudaExperts, GroupedProducts) {
  struct Case {
    std::int64_t rows, n, k;
    std::vector<std::int64_t> offsets;
  };
  for (const Case& of :
       {Case{5, 3, 6, {0, 2, 2, 5}}, Case{200, 70, 33, {0, 0, 130, 131, 131, 200}}, Case{64, 64, 16, {0, 0, 64, 64}},
        Case{190, 40, 130, {0, 1, 65, 130}}, Case{190, 40, 30, {70, 71, 130}}, Case{9, 8, 8, {0, 0, 0}}}) {
    const std::int64_t groups = std::ssize(of.offsets) - 1, expected = of.offsets.back() < of.rows ? 1 : 0;
    for (const DType dtype : kFloats) {
      for (const bool trans_b : {false, true}) {
        check(graph::GroupedGemm{of.rows, of.n, of.k, groups, trans_b, expected}, dtype, kOfDots,
              {{"offsets", integers(of.offsets)}, {"A", padded(2)}});
      }
      for (const bool accumulate : {false, true}) {
        check(graph::GroupedGemmGradient{of.rows, of.n, of.k, groups, accumulate, expected}, dtype, kOfDots,
              {{"offsets", integers(of.offsets)}});
      }
    }
  }
}

// Groups of 0, 1, 15, 16 and 17 rows, and one that has all; tiles of every height, rows and columns that end within
// one; columns that are no multiple of 8, which tensor cores don't take.
TEST_F(CudaExperts, GroupedProductsOnTensorCores) {
  struct Case {
    std::int64_t rows, n, k, expected;
    std::vector<std::int64_t> offsets;
  };
  for (const Case& of :
       {Case{60, 136, 40, 0, {0, 0, 1, 16, 32, 49}}, Case{200, 72, 200, 0, {0, 0, 200, 200}},
        Case{300, 64, 16, 0, {0, 17, 300}}, Case{290, 200, 8, 512, {0, 129, 290}}, Case{150, 8, 136, 384, {0, 150}},
        Case{60, 40, 24, 0, {40, 45, 60}}, Case{40, 20, 24, 0, {0, 33, 40}}}) {
    const std::int64_t groups = std::ssize(of.offsets) - 1;
    for (const bool flag : {false, true}) {
      check(graph::GroupedGemm{of.rows, of.n, of.k, groups, flag, of.expected}, DType::bf16, kOfDots,
            {{"offsets", integers(of.offsets)}, {"A", padded(8)}, {"C", padded(16)}}, {.grouped_mma = true});
      check(graph::GroupedGemmGradient{of.rows, of.n, of.k, groups, flag, of.expected}, DType::bf16, kOfDots,
            {{"offsets", integers(of.offsets)}, {"B", padded(8)}, {"C", padded(8)}}, {.grouped_mma = true});
    }
  }
}

// A matrix between rows of NaNs, on the GPU.
class Guarded {
 public:
  Guarded(testing::GpuMemory& memory, DType dtype, std::int64_t rows, std::int64_t cols, double scale)
      : tensor_(dtype, rows + 2 * kGuard, cols) {
    cpu::testing::Values values = cpu::testing::normal_values((rows + 2 * kGuard) * cols, 5, scale);
    std::fill_n(values.begin(), kGuard * cols, std::nan(""));
    std::fill_n(values.end() - kGuard * cols, kGuard * cols, std::nan(""));
    tensor_.assign(values);
    whole_ = memory.upload(tensor_);
  }
  cpu::Matrix within() const {
    const std::int64_t bytes = kGuard * whole_.row_stride * static_cast<std::int64_t>(size_of(whole_.dtype));
    return {static_cast<std::byte*>(whole_.data) + bytes, whole_.rows - 2 * kGuard, whole_.cols, whole_.row_stride,
            whole_.dtype};
  }
  // No NaN has come in, and none was overwritten.
  bool whole() const {
    const cpu::testing::Values values = testing::GpuMemory::download(whole_).values();
    return std::ranges::count_if(values, [](double x) { return std::isnan(x); }) == 2 * kGuard * whole_.cols;
  }

 private:
  static constexpr std::int64_t kGuard = 256;

  Tensor tensor_;
  cpu::Matrix whole_{};
};

// After a collective that was given up offsets are any numbers.
TEST_F(CudaExperts, AnyOffsetsStayWithinTheBuffers) {
  constexpr std::int64_t kRows = 70, kCols = 72, kInner = 40, kMost = INT32_MAX;
  for (const std::vector<std::int64_t>& numbers : {std::vector<std::int64_t>{-5, 3, 1 << 30, 20, -7},
                                                   {40, 10, 69, 71, 100000},
                                                   {-kMost, kMost, -kMost, kMost, 0},
                                                   {kMost, 7, 3, 2, kMost}}) {
    const std::int64_t groups = std::ssize(numbers) - 1;
    for (const bool mma : {false, true}) {
      for (const bool flag : {false, true}) {
        testing::GpuMemory memory;
        execute::CudaLibraries libraries({.kernels = {.grouped_mma = mma}});
        Tensor on_host = Tensor::integers(DType::i32, numbers);
        const cpu::Matrix offsets = memory.upload(on_host);
        const Guarded a(memory, DType::bf16, kRows, kInner, 1), b(memory, DType::bf16, groups * kCols, kInner, 1),
            other_b(memory, DType::bf16, groups * kInner, kCols, 1), c(memory, DType::bf16, kRows, kCols, 0),
            dc(memory, DType::f32, groups * kInner, kCols, 0);
        const std::int64_t expected = flag ? kRows : 256 * groups;
        cuda::grouped_gemm(libraries.launch(), flag, a.within(), (flag ? b : other_b).within(), offsets, c.within(),
                           expected);
        EXPECT_TRUE(c.whole());
        cuda::grouped_gemm_gradient(libraries.launch(), a.within(), c.within(), offsets, dc.within(), flag);
        EXPECT_TRUE(dc.whole());
      }
    }
  }
}

TEST_F(CudaExperts, ActivationsOfGroups) {
  for (const DType dtype : kFloats) {
    for (const std::int64_t cols : {24, 13}) {
      check(graph::SwiGluForward{{{11, cols}, 2, 7}}, dtype, {1e-5, 1e-6}, {{"offsets", integers({0, 3, 7})}});
      check(graph::SwiGluBackward{{{11, cols}, 2, 7}}, dtype, {1e-5, 1e-5}, {{"offsets", integers({0, 3, 7})}});
    }
  }
}

// The choices of the CPU's run, so that another rounding of logits moves no token; without them in fp32, where no
// choice is that near.
TEST_F(CudaExperts, LossesAreTheCpus) {
  for (const ops::Family family : {ops::Family::mixtral, ops::Family::qwen3_moe}) {
    for (const DType dtype : kFloats) {
      SCOPED_TRACE(std::string(ops::to_string(family)) + " " + std::string(to_string(dtype)));
      const double tolerance = dtype == DType::bf16 ? 3e-3 : 1e-5;
      testing::GridRun run = testing::small_run(family, dtype, {});
      run.model.tied = false;
      const testing::GridOutcome cpu = testing::run_grid(testing::recording(run));
      const testing::GridRun replaying = testing::replaying(cpu, run);
      const testing::GridOutcome gpu = testing::run_grid(testing::on_gpu(replaying));
      testing::expect_near(gpu, cpu, tolerance);
      for (const auto& [name, values] : cpu.arrays) {
        EXPECT_LT(testing::relative_difference(gpu.arrays.at(name), values), dtype == DType::bf16 ? 0.2 : 2e-3) << name;
      }
      if ((family == ops::Family::mixtral) != (dtype == DType::f32)) continue;  // half of them take long enough
      testing::expect_equal(testing::run_grid(testing::on_gpu(replaying, true)), gpu);
      if (dtype == DType::bf16) continue;
      const testing::GridOutcome free = testing::run_grid(testing::on_gpu(testing::recording(run), true));
      testing::expect_near(free, cpu, tolerance);
      EXPECT_EQ(free.choices, cpu.choices);
    }
  }
}

TEST_F(CudaExperts, GridsThatShareTheGpu) {
  const testing::GridOutcome serial =
      testing::run_grid(testing::on_gpu(testing::recording(testing::small_run(ops::Family::mixtral, DType::f32, {}))));
  for (const graph::Grid& grid : {graph::Grid{.x = 2}, graph::Grid{.y = 2, .z = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    const testing::GridRun run = testing::replaying(serial, testing::small_run(ops::Family::mixtral, DType::f32, grid));
    const testing::GridOutcome found = testing::run_grid(testing::on_gpu(run));
    testing::expect_near(found, serial, 1e-5);
    testing::expect_equal(testing::run_grid(testing::on_gpu(run, true)), found);
  }
}

}  // namespace
}  // namespace weft
