// Overlap and cover of views, compared with marking every element.
#include "graph/tensor.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace weft::graph {
namespace {

std::set<std::int64_t> elements(const View& view) {
  std::set<std::int64_t> found;
  for (std::int64_t row = 0; row < view.rows; ++row) {
    for (std::int64_t col = 0; col < view.cols; ++col) found.insert(view.offset + row * view.row_stride + col);
  }
  return found;
}

bool truly_overlap(const View& a, const View& b) {
  const auto of_a = elements(a);
  for (std::int64_t element : elements(b)) {
    if (of_a.contains(element)) return true;
  }
  return false;
}

bool truly_covers(const View& outer, const View& inner) {
  const auto of_outer = elements(outer);
  for (std::int64_t element : elements(inner)) {
    if (!of_outer.contains(element)) return false;
  }
  return true;
}

TEST(View, AgreesWithElementByElementComparison) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return static_cast<std::int64_t>(std::uniform_int_distribution<int>(low, high)(random));
  };
  int overlapping = 0, covering = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const std::int64_t stride = draw(1, 6);
    const auto view = [&] {
      const std::int64_t cols = draw(1, static_cast<int>(stride));
      return View{TensorId(0), draw(0, 3) * stride + draw(0, static_cast<int>(stride - cols)), draw(1, 4), cols,
                  stride};
    };
    const View a = view(), b = view();
    // Column windows of one matrix: exact in both directions.
    EXPECT_EQ(overlaps(a, b), truly_overlap(a, b));
    EXPECT_TRUE(!covers(a, b) || truly_covers(a, b));
    overlapping += overlaps(a, b) ? 1 : 0;
    covering += covers(a, b) ? 1 : 0;
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_GT(covering, 1000);
}

TEST(View, IsConservativeAboutUnequalStrides) {
  const View even{TensorId(0), 0, 4, 1, 2}, odd_of_three{TensorId(0), 1, 3, 1, 3};
  EXPECT_TRUE(overlaps(even, odd_of_three));
  EXPECT_FALSE(covers(even, odd_of_three));
}

TEST(View, TensorsAndEmptyViewsDontOverlap) {
  const View view{TensorId(0), 0, 1, 4, 4};
  EXPECT_FALSE(overlaps(view, {TensorId(1), 0, 1, 4, 4}));
  EXPECT_FALSE(overlaps(view, {TensorId(0), 2, 0, 4, 4}));
  EXPECT_FALSE(covers(view, {TensorId(1), 0, 1, 1, 1}));
}

}  // namespace
}  // namespace weft::graph
