// Grouped products and gradients against products in double precision: groups of none, few and many rows, several
// panels and blocks, every unit of bf16.
#include "kernels/cpu/experts/grouped_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "kernels/cpu/gemm/gemm_amx.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "tests/kernels/amx_emulator.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

struct GroupCase {
  std::vector<std::int64_t> counts;  // rows by group
  std::int64_t n, k;
};

// One group with all rows; none, one, few and many rows; more than a panel's; whole tiles of the matrices.
const GroupCase kCases[] = {{{0, 0, 5, 0}, 7, 9},     {{1, 0, 3, 4, 64, 17}, 67, 100},
                            {{130, 0, 70}, 200, 800}, {{1, 1, 1, 1, 1}, 33, 65},
                            {{0, 0, 0}, 8, 8},        {{1100, 9}, 30, 40},
                            {{2000, 0, 30}, 20, 12},  {{130, 0, 70, 4, 600, 33}, 208, 96},
                            {{65, 9, 700}, 64, 1632}};

struct GroupUnit {
  DType dtype;
  PackedUnit unit;
};

std::vector<GroupUnit> units() {
  std::vector<GroupUnit> all = {{DType::f32, PackedUnit::f32}, {DType::bf16, PackedUnit::f32}};
  if (kHasPairs) all.push_back({DType::bf16, PackedUnit::pairs});
  if (kHasAmx) all.push_back({DType::bf16, PackedUnit::amx});
  return all;
}

class GroupedProducts : public ::testing::Test {
 protected:
  GroupedProducts() {
    if (kHasAmx && !allow_amx_tiles()) emulator_.emplace();
  }
  template <class Check>
  static void for_cases(const Check& check) {
    for (const GroupUnit& unit : units()) {
      for (const GroupCase& groups : kCases) {
        std::vector<std::int64_t> offsets = {0};
        std::string trace = std::string(to_string(unit.dtype)) + " " + std::string(to_string(unit.unit));
        for (const std::int64_t count : groups.counts) {
          offsets.push_back(offsets.back() + count);
          trace += " " + std::to_string(count);
        }
        SCOPED_TRACE(trace);
        check(unit, groups, offsets);
      }
    }
  }

 private:
  std::optional<weft::testing::AmxEmulator> emulator_;
};

Values part(const Values& all, std::int64_t begin, std::int64_t end) {
  return {all.begin() + begin, all.begin() + end};
}

TEST_F(GroupedProducts, MultiplyEachGroupByItsMatrix) {
  for_cases([](const GroupUnit& unit, const GroupCase& groups, const std::vector<std::int64_t>& offsets) {
    const std::int64_t rows = offsets.back() + 3, n = groups.n, k = groups.k, count = std::ssize(groups.counts);
    for (const bool trans_b : {true, false}) {
      Tensor a = Tensor::random(unit.dtype, rows, k, 1, 1.0, 3), borders = Tensor::integers(DType::i32, offsets);
      Tensor b = Tensor::random(unit.dtype, count * (trans_b ? n : k), trans_b ? k : n, 2, 1.0, 5);
      Tensor c = Tensor::random(unit.dtype, rows, n, 3, 1.0, 7);
      Values expected = c.values();
      const Values left = a.values(), right = b.values();
      for (std::int64_t g = 0; g < count; ++g) {
        const std::int64_t first = offsets[static_cast<std::size_t>(g)], m = groups.counts[static_cast<std::size_t>(g)];
        const Values product =
            testing::product_in_double({m, n, k, false, trans_b}, part(left, first * k, (first + m) * k),
                                       part(right, g * n * k, (g + 1) * n * k), nullptr, {});
        std::copy(product.begin(), product.end(), expected.begin() + first * n);
      }
      testing::run_on_one_and_three_threads(
          grouped_gemm_scratch(rows, n, k, unit.dtype, unit.unit), {&c}, [&](Workers& workers) {
            grouped_gemm(workers, trans_b, a.view(), b.view(), borders.view(), c.view(), unit.unit);
          });
      testing::expect_close(c.values(), expected,
                            testing::tolerance_of(unit.dtype, 1e-5 * std::sqrt(static_cast<double>(k))));
    }
  });
}

// A group's bits don't depend on the groups beside it, nor on the threads that share them.
TEST_F(GroupedProducts, AGroupHasTheBitsOfItsOwnProduct) {
  const std::int64_t n = 64, k = 1632;
  for (const GroupUnit& unit : units()) {
    for (const bool trans_b : {true, false}) {
      const std::vector<std::int64_t> offsets = {0, 65, 74, 774};
      Tensor a = Tensor::random(unit.dtype, 774, k, 1), borders = Tensor::integers(DType::i32, offsets);
      Tensor b = Tensor::random(unit.dtype, 3 * (trans_b ? n : k), trans_b ? k : n, 2), c(unit.dtype, 774, n);
      Workers workers(2);
      workers.reserve(grouped_gemm_scratch(774, n, k, unit.dtype, unit.unit));
      grouped_gemm(workers, trans_b, a.view(), b.view(), borders.view(), c.view(), unit.unit);
      for (std::size_t g = 0; g < 3; ++g) {
        const std::int64_t first = offsets[g], rows = offsets[g + 1] - first, group = static_cast<std::int64_t>(g);
        const auto part = [](Matrix matrix, std::int64_t begin, std::int64_t count) {
          matrix.data = static_cast<std::byte*>(matrix.data) +
                        begin * matrix.row_stride * static_cast<std::int64_t>(size_of(matrix.dtype));
          matrix.rows = count;
          return matrix;
        };
        Tensor alone(unit.dtype, rows, n);
        const PackedGemm product(
            {rows, n, k, false, trans_b},
            {part(a.view(), first, rows), part(b.view(), group * (trans_b ? n : k), trans_b ? n : k), alone.view(), {}},
            64, 96, packed_unit(unit.dtype, unit.unit));
        workers.reserve(product.scratch());
        product.run(workers);
        const Values all = c.values();
        EXPECT_EQ(Values(all.begin() + first * n, all.begin() + (first + rows) * n), alone.values())
            << to_string(unit.unit) << " group " << g;
      }
    }
  }
}

TEST_F(GroupedProducts, GradientsAreOfEachGroupsRows) {
  for_cases([](const GroupUnit& unit, const GroupCase& groups, const std::vector<std::int64_t>& offsets) {
    const std::int64_t rows = offsets.back(), m = groups.n, n = groups.k, count = std::ssize(groups.counts);
    for (const bool accumulate : {false, true}) {
      Tensor a = Tensor::random(unit.dtype, rows, m, 1, 1.0, 3), b = Tensor::random(unit.dtype, rows, n, 2, 1.0, 5);
      Tensor borders = Tensor::integers(DType::i32, offsets);
      Tensor c = accumulate ? Tensor::random(DType::f32, count * m, n, 3, 1.0, 7) : Tensor(DType::f32, count * m, n, 7);
      const Values left = a.values(), right = b.values(), before = c.values();
      Values expected;
      for (std::int64_t g = 0; g < count; ++g) {
        const std::int64_t first = offsets[static_cast<std::size_t>(g)], k = groups.counts[static_cast<std::size_t>(g)];
        const Values gradient = testing::product_in_double(
            {m, n, k, true, false, accumulate}, part(left, first * m, (first + k) * m),
            part(right, first * n, (first + k) * n), nullptr, part(before, g * m * n, (g + 1) * m * n));
        expected.insert(expected.end(), gradient.begin(), gradient.end());
      }
      testing::run_on_one_and_three_threads(
          grouped_gemm_gradient_scratch(rows, m, n, unit.dtype, unit.unit), {&c}, [&](Workers& workers) {
            grouped_gemm_gradient(workers, a.view(), b.view(), borders.view(), c.view(), accumulate, unit.unit);
          });
      testing::expect_close(c.values(), expected, {1e-5, 1e-5 * std::sqrt(static_cast<double>(rows + 1))});
    }
  });
}

}  // namespace
}  // namespace weft::cpu
