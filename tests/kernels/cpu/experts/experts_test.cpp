// Routing against plain loops in double precision, ties and all tokens to one expert, and rows that go to their experts
// and come back.
#include "kernels/cpu/experts/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

struct Sizes {
  std::int64_t rows, experts, choices;
};
constexpr double kNoMargin = std::numeric_limits<float>::max();  // where a token takes all experts
constexpr Sizes kSizes[] = {{1, 1, 1}, {7, 4, 2}, {33, 8, 3}, {600, 128, 8}, {5, 17, 17}};

Tensor integers(std::int64_t rows, std::int64_t cols) {
  return {DType::i32, rows, cols};
}

std::vector<std::int64_t> values_of(Tensor& tensor) {
  const Matrix view = tensor.view();
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < view.rows * view.cols; ++i) values.push_back(view.i32()[i]);
  return values;
}

// The experts of the largest logits, in ascending order; of equal ones the first.
std::vector<std::int64_t> largest(const double* logits, const Sizes& sizes) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(sizes.experts));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) { return logits[a] > logits[b]; });
  order.resize(static_cast<std::size_t>(sizes.choices));
  std::ranges::sort(order);
  return order;
}

// A router's results of one row, in double.
struct RoutedRow {
  std::vector<std::int64_t> chosen;
  Values weights;
};

RoutedRow routed(const double* logits, const Sizes& sizes, bool normalise) {
  RoutedRow row{largest(logits, sizes), {}};
  double total = 0;
  for (std::int64_t e = 0; e < sizes.experts && !normalise; ++e) total += std::exp(logits[e]);
  for (const std::int64_t expert : row.chosen) total += normalise ? std::exp(logits[expert]) : 0;
  for (const std::int64_t expert : row.chosen) row.weights.push_back(std::exp(logits[expert]) / total);
  return row;
}

TEST(Experts, RouteTakesTheLargestLogits) {
  for (const Sizes& sizes : kSizes) {
    for (const bool normalise : {false, true}) {
      Tensor logits = Tensor::random(DType::f32, sizes.rows, sizes.experts, 1, 2.0, 3);
      Tensor chosen = integers(sizes.rows, sizes.choices), weights(DType::f32, sizes.rows, sizes.choices);
      testing::run_on_one_and_three_threads({}, {&chosen, &weights}, [&](Workers& workers) {
        route(workers, {normalise}, logits.view(), chosen.view(), weights.view());
      });
      std::vector<std::int64_t> experts;
      Values shares;
      const Values of = logits.values();
      for (std::int64_t r = 0; r < sizes.rows; ++r) {
        const RoutedRow row = routed(of.data() + r * sizes.experts, sizes, normalise);
        experts.insert(experts.end(), row.chosen.begin(), row.chosen.end());
        shares.insert(shares.end(), row.weights.begin(), row.weights.end());
      }
      EXPECT_EQ(values_of(chosen), experts);
      testing::expect_close(weights.values(), shares, {2e-6, 1e-7});
    }
  }
}

TEST(Experts, OfEqualLogitsTheLowerExpertIsChosen) {
  Tensor logits(DType::f32, 2, 5, {1, 3, 3, 3, 0, 2, 2, 2, 2, 2}), chosen = integers(2, 2), weights(DType::f32, 2, 2);
  Workers workers(1);
  route(workers, {true}, logits.view(), chosen.view(), weights.view());
  EXPECT_EQ(values_of(chosen), (std::vector<std::int64_t>{1, 2, 0, 1}));
  testing::expect_close(weights.values(), {0.5, 0.5, 0.5, 0.5}, {0, 1e-7});
}

TEST(Experts, AGivenChoiceStaysAndGetsItsWeights) {
  Tensor logits(DType::f32, 2, 3, {3, 1, 2, 0, 0, 0}), weights(DType::f32, 2, 2);
  Tensor chosen = Tensor::integers(DType::i32, {1, 2, 0, 2});
  Matrix table = chosen.view();
  table.rows = 2, table.cols = table.row_stride = 2;
  Workers workers(1);
  route(workers, {.normalise = true, .given = true}, logits.view(), table, weights.view());
  EXPECT_EQ(values_of(chosen), (std::vector<std::int64_t>{1, 2, 0, 2}));
  const double first = 1 / (1 + std::exp(1.0));
  testing::expect_close(weights.values(), {first, 1 - first, 0.5, 0.5}, {2e-6, 1e-7});
}

// Counts, the least margin and the flips of `chosen`, by the offsets of its sorted rows.
struct Told {
  std::vector<std::int64_t> counts;
  double margin;
  std::int64_t flips;
  friend bool operator==(const Told&, const Told&) = default;
};

Told told_of(Tensor& logits, const Matrix& chosen) {
  const std::int64_t experts = logits.view().cols;
  Tensor slots = integers(chosen.rows, chosen.cols), sources = integers(1, chosen.rows * chosen.cols);
  Tensor offsets = integers(1, experts + 1), counts = integers(1, experts), flips = integers(1, 1);
  Tensor margin(DType::f32, 1, 1);
  Workers one(1);
  sort_by_expert(one, chosen, slots.view(), sources.view(), offsets.view());
  testing::run_on_one_and_three_threads({}, {&counts, &margin, &flips}, [&](Workers& workers) {
    count_choices(workers, logits.view(), chosen, offsets.view(), {counts.view(), margin.view(), flips.view()});
  });
  return {values_of(counts), margin.values().front(), values_of(flips).front()};
}

TEST(Experts, MarginAndCountsAreThoseOfTheChoice) {
  for (const Sizes& sizes : kSizes) {
    Tensor logits = Tensor::random(DType::f32, sizes.rows, sizes.experts, 1, 2.0, 3);
    Tensor chosen = integers(sizes.rows, sizes.choices), weights(DType::f32, sizes.rows, sizes.choices);
    Workers workers(1);
    route(workers, {}, logits.view(), chosen.view(), weights.view());
    Told expected{std::vector<std::int64_t>(static_cast<std::size_t>(sizes.experts)), kNoMargin, 0};
    for (const std::int64_t expert : values_of(chosen)) ++expected.counts[static_cast<std::size_t>(expert)];
    const Values of = logits.values();
    for (std::int64_t r = 0; r < sizes.rows && sizes.choices < sizes.experts; ++r) {
      Values row(of.begin() + r * sizes.experts, of.begin() + (r + 1) * sizes.experts);
      std::ranges::sort(row, std::greater());
      const auto border = static_cast<std::size_t>(sizes.choices);
      expected.margin = std::min(expected.margin, row[border - 1] - row[border]);
    }
    const Told told = told_of(logits, chosen.view());
    EXPECT_EQ(told.counts, expected.counts);
    EXPECT_NEAR(told.margin, expected.margin, 1e-6 * expected.margin);
    EXPECT_EQ(told.flips, 0);
  }
}

// Tokens of the logits 5, 1, 4 and 2, 2, 2: the first takes expert 1 in place of 2, the second expert 2 in place of 0
// or 1.
TEST(Experts, FlipsAreChoicesThatTheLogitsWouldNotMake) {
  Tensor logits(DType::f32, 2, 3, {5, 1, 4, 2, 2, 2});
  const auto told = [&](const std::vector<std::int64_t>& choice) {
    Tensor chosen = Tensor::integers(DType::i32, choice);
    Matrix table = chosen.view();
    table.rows = 2, table.cols = table.row_stride = 2;
    return told_of(logits, table);
  };
  EXPECT_EQ(told({0, 2, 0, 1}), (Told{{2, 1, 1}, 0.0, 0}));
  EXPECT_EQ(told({0, 1, 0, 1}), (Told{{2, 2, 0}, 0.0, 1}));
  EXPECT_EQ(told({0, 1, 1, 2}), (Told{{1, 2, 1}, 0.0, 2}));
  logits = Tensor(DType::f32, 2, 3, {5, 1, 4, 2, 2, 1.5});
  EXPECT_EQ(told({0, 1, 1, 2}), (Told{{1, 2, 1}, 0.5, 2}));
}

TEST(Experts, ANotANumberStillGivesAChoice) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Tensor logits(DType::f32, 2, 3, {kNan, kNan, kNan, 1, kNan, 2}), chosen = integers(2, 2), weights(DType::f32, 2, 2);
  Workers workers(1);
  route(workers, {}, logits.view(), chosen.view(), weights.view());
  for (const std::int64_t row : {0, 1}) {
    const std::int32_t* const experts = chosen.view().i32() + 2 * row;
    EXPECT_TRUE(experts[0] >= 0 && experts[0] < experts[1] && experts[1] < 3) << experts[0] << " " << experts[1];
  }
}

// By central differences of the weights, whose choice the step is too small to change.
TEST(Experts, RouteBackwardIsTheGradientOfTheWeights) {
  for (Sizes sizes : kSizes) {
    sizes.rows = std::min<std::int64_t>(sizes.rows, 20);
    for (const bool normalise : {false, true}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Tensor logits = Tensor::random(DType::f32, sizes.rows, sizes.experts, 1, 2.0);
        Tensor chosen = integers(sizes.rows, sizes.choices), weights(DType::f32, sizes.rows, sizes.choices);
        Tensor dweights = Tensor::random(DType::f32, sizes.rows, sizes.choices, 2);
        Tensor dlogits(dtype, sizes.rows, sizes.experts, 5);
        Workers workers(1);
        route(workers, {normalise}, logits.view(), chosen.view(), weights.view());
        testing::run_on_one_and_three_threads({}, {&dlogits}, [&](Workers& many) {
          route_backward(many, normalise, logits.view(), chosen.view(), dweights.view(), dlogits.view());
        });
        Values of = logits.values(), expected;
        const Values d = dweights.values();
        for (std::int64_t i = 0; i < sizes.rows * sizes.experts; ++i) {
          const std::int64_t r = i / sizes.experts;
          double* const row = of.data() + r * sizes.experts;
          const std::vector<std::int64_t> before = largest(row, sizes);
          const auto sum_at = [&](double change) {
            row[i % sizes.experts] += change;
            const RoutedRow at = routed(row, sizes, normalise);
            row[i % sizes.experts] -= change;
            EXPECT_EQ(at.chosen, before);
            return std::inner_product(at.weights.begin(), at.weights.end(), d.begin() + r * sizes.choices, 0.0);
          };
          constexpr double kStep = 1e-7;
          expected.push_back((sum_at(kStep) - sum_at(-kStep)) / (2 * kStep));
        }
        testing::expect_close(dlogits.values(), expected, testing::tolerance_of(dtype, 5e-6));
      }
    }
  }
}

TEST(Experts, RowsAreSortedByExpertAndThenByToken) {
  // Experts 0 to 4 of four tokens; nobody goes to expert 2, and in the last case all go to expert 3.
  const auto sorted = [](std::int64_t choices, const std::vector<std::int64_t>& chosen) {
    const std::int64_t rows = std::ssize(chosen) / choices;
    Tensor of = Tensor::integers(DType::i32, chosen);
    Tensor slots = integers(rows, choices), sources = integers(1, rows * choices), offsets = integers(1, 6);
    Matrix table = of.view();
    table.rows = rows, table.cols = table.row_stride = choices;
    testing::run_on_one_and_three_threads({}, {&slots, &sources, &offsets}, [&](Workers& workers) {
      sort_by_expert(workers, table, slots.view(), sources.view(), offsets.view());
    });
    return std::array{values_of(slots), values_of(sources), values_of(offsets)};
  };
  using Lists = std::array<std::vector<std::int64_t>, 3>;
  EXPECT_EQ(sorted(2, {0, 3, 1, 3, 0, 4, 1, 3}),
            (Lists{{{0, 4, 2, 5, 1, 7, 3, 6}, {0, 2, 1, 3, 0, 1, 3, 2}, {0, 2, 4, 4, 7, 8}}}));
  EXPECT_EQ(sorted(1, {3, 3, 3}), (Lists{{{0, 1, 2}, {0, 1, 2}, {0, 0, 0, 0, 3, 3}}}));
}

// Two ranks with two experts each gave 3 + 1 + 0 + 2 and 0 + 2 + 4 + 0 rows.
TEST(OffsetsOfRank, AddWhatAllRanksGave) {
  Tensor table = integers(2, 5);
  std::int64_t i = 0;
  for (const std::int32_t offset : {0, 3, 4, 4, 6, 0, 0, 2, 6, 6}) table.view().i32()[i++] = offset;
  Tensor offsets = integers(1, 3);
  for (const std::int64_t place : {0, 1}) {
    testing::run_on_one_and_three_threads(
        {}, {&offsets}, [&](Workers& workers) { offsets_of_rank(workers, table.view(), place, offsets.view()); });
    EXPECT_EQ(values_of(offsets),
              place == 0 ? (std::vector<std::int64_t>{0, 3, 6}) : (std::vector<std::int64_t>{0, 4, 6}));
  }
}

// Rows of 13 tokens with three choices each among many more rows than a chunk takes.
class ExpertRows : public testing::ForFloatTypes {
 protected:
  static constexpr std::int64_t kTokens = 13, kChoices = 3, kCols = 5003;
  ExpertRows() : slots_(integers(kTokens, kChoices)), sources_(integers(1, kTokens * kChoices)) {
    for (std::int64_t i = 0; i < kTokens * kChoices; ++i) {
      const std::int64_t slot = (i * 7 + 3) % (kTokens * kChoices);
      slots_.view().i32()[i] = static_cast<std::int32_t>(slot);
      sources_.view().i32()[slot] = static_cast<std::int32_t>(i / kChoices);
    }
  }
  static std::int64_t slot(std::int64_t token, std::int64_t j) {
    return ((token * kChoices + j) * 7 + 3) % (kTokens * kChoices);
  }
  Tensor slots_, sources_;
};

INSTANTIATE_TEST_SUITE_P(Types, ExpertRows, testing::both_float_types(), testing::type_name);

TEST_P(ExpertRows, GatherCopiesEachTokenToItsRows) {
  Tensor x = Tensor::random(GetParam(), kTokens, kCols, 1, 1.0, 3), out(GetParam(), kTokens * kChoices, kCols, 1);
  testing::run_on_one_and_three_threads(
      {}, {&out}, [&](Workers& workers) { gather_rows(workers, x.view(), sources_.view(), out.view()); });
  const Values from = x.values(), to = out.values();
  for (std::int64_t i = 0; i < kTokens * kChoices; ++i) {
    const auto row = from.begin() + i / kChoices * kCols;
    ASSERT_TRUE(std::equal(row, row + kCols, to.begin() + slot(i / kChoices, i % kChoices) * kCols)) << i;
  }
}

TEST_P(ExpertRows, CombineAddsThemByTheirWeights) {
  Tensor y = Tensor::random(GetParam(), kTokens * kChoices, kCols, 1, 1.0, 3);
  Tensor weights = Tensor::random(DType::f32, kTokens, kChoices, 2);
  for (const bool weighted : {false, true}) {
    Tensor out(GetParam(), kTokens, kCols, 2);
    const Matrix factors = weights.view();
    testing::run_on_one_and_three_threads({}, {&out}, [&](Workers& workers) {
      combine_rows(workers, y.view(), slots_.view(), weighted ? &factors : nullptr, out.view());
    });
    Values expected(static_cast<std::size_t>(kTokens * kCols));
    const Values rows = y.values(), shares = weights.values();
    for (std::int64_t i = 0; i < kTokens * kChoices; ++i) {
      const double share = weighted ? shares[static_cast<std::size_t>(i)] : 1;
      const double* const row = rows.data() + slot(i / kChoices, i % kChoices) * kCols;
      for (std::int64_t c = 0; c < kCols; ++c)
        expected[static_cast<std::size_t>(i / kChoices * kCols + c)] += share * row[c];
    }
    testing::expect_close(out.values(), expected, testing::tolerance_of(GetParam()));
  }
}

// out = Σ w·y: dy = w·dout, dw = y·dout.
TEST_P(ExpertRows, CombineBackwardIsItsGradient) {
  const DType dtype = GetParam();
  Tensor y = Tensor::random(dtype, kTokens * kChoices, kCols, 1, 1.0, 3),
         dout = Tensor::random(dtype, kTokens, kCols, 3);
  Tensor weights = Tensor::random(DType::f32, kTokens, kChoices, 2);
  Tensor dy(dtype, kTokens * kChoices, kCols, 2), dweights(DType::f32, kTokens, kChoices);
  testing::run_on_one_and_three_threads({}, {&dy, &dweights}, [&](Workers& workers) {
    combine_rows_backward(workers, {y.view(), slots_.view(), weights.view()}, dout.view(), dy.view(), dweights.view());
  });
  Values rows(static_cast<std::size_t>(kTokens * kChoices * kCols)), shares;
  const Values ys = y.values(), douts = dout.values(), factors = weights.values();
  for (std::int64_t i = 0; i < kTokens * kChoices; ++i) {
    const std::int64_t at = slot(i / kChoices, i % kChoices) * kCols;
    double sum = 0;
    for (std::int64_t c = 0; c < kCols; ++c) {
      const double d = douts[static_cast<std::size_t>(i / kChoices * kCols + c)];
      rows[static_cast<std::size_t>(at + c)] = factors[static_cast<std::size_t>(i)] * d;
      sum += d * ys[static_cast<std::size_t>(at + c)];
    }
    shares.push_back(sum);
  }
  testing::expect_close(dy.values(), rows, testing::tolerance_of(dtype));
  testing::expect_close(dweights.values(), shares, {1e-5, 1e-3});
}

}  // namespace
}  // namespace weft::cpu
