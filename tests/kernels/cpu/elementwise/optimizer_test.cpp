// Gradient norm, clipping and AdamW against double precision.
#include <gtest/gtest.h>

#include "kernels/cpu/elementwise/elementwise.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

TEST(SumSquares, OfAnyLengthAndShape) {
  for (const auto& [rows, cols, padding] :
       {std::array<std::int64_t, 3>{1, 1, 0}, {1, 33, 0}, {9, 50, 3}, {1, 200003, 0}, {3, 40000, 1}}) {
    Tensor x = Tensor::random(DType::f32, rows, cols, 1, 3.0, padding), partial(DType::f32, 1, 1);
    testing::run_on_one_and_three_threads(sum_squares_scratch(x.view()), {&partial},
                                          [&](Workers& workers) { sum_squares(workers, x.view(), partial.view()); });
    const Values values = x.values();
    testing::expect_close(partial.values(), {testing::dot(values, values)}, {1e-7, 0});
  }
}

TEST(SumSquares, SurvivesWhatOverflowsInSinglePrecision) {
  Tensor x(DType::f32, 1, 3, {1e19, 1e19, 1e-30}), partial(DType::f32, 1, 1);
  Workers workers(1);
  workers.reserve(sum_squares_scratch(x.view()));
  sum_squares(workers, x.view(), partial.view());
  testing::expect_close(partial.values(), {2e38}, {1e-6, 0});
}

TEST(SumSquares, IsZeroWhereAnotherRankCountsIt) {
  Tensor x(DType::f32, 1, 2, {3, 4}), partial(DType::f32, 1, 1);
  Workers workers(1);
  sum_squares(workers, x.view(), partial.view(), false);
  EXPECT_EQ(partial.values(), (Values{0}));
}

TEST(ClipFactor, ScalesLongGradientsOnly) {
  Tensor partials(DType::f32, 1, 3, {4, 3, 9}), out(DType::f32, 1, 2);
  Workers workers(1);
  const auto factor = [&](float max_norm) {
    clip_factor(workers, partials.view(), max_norm, out.view());
    EXPECT_EQ(out.values()[0], 4.0);
    return out.values()[1];
  };
  EXPECT_NEAR(factor(1.0F), 1.0 / (4.0 + 1e-6), 1e-7);
  EXPECT_EQ(factor(5.0F), 1.0);
  EXPECT_EQ(factor(0.0F), 1.0);
  EXPECT_EQ(factor(-1.0F), 1.0);
  partials.assign({4, std::numeric_limits<double>::quiet_NaN(), 9});
  clip_factor(workers, partials.view(), 1.0F, out.view());
  EXPECT_TRUE(std::isnan(out.values()[1]));
}

struct AdamState {
  Values p, m, v;
};

void reference_step(const AdamWSettings& s, double lr, std::int64_t t, double factor, const Values& grad,
                    AdamState& state) {
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const double g = grad[i] * factor;
    state.m[i] = s.beta1 * state.m[i] + (1.0 - s.beta1) * g;
    state.v[i] = s.beta2 * state.v[i] + (1.0 - s.beta2) * g * g;
    const double m_hat = state.m[i] / (1.0 - std::pow(s.beta1, t)), v_hat = state.v[i] / (1.0 - std::pow(s.beta2, t));
    state.p[i] -= lr * (m_hat / (std::sqrt(v_hat) + s.eps) + s.weight_decay * state.p[i]);
  }
}

class AdamW : public ::testing::TestWithParam<std::pair<DType, bool>> {};

TEST_P(AdamW, FollowsTheReferenceOverSteps) {
  const auto [dtype, has_master] = GetParam();
  const AdamWSettings settings{0.9F, 0.95F, 1e-8F, 0.1F};
  for (std::int64_t n : {1, 37, 70001}) {
    Tensor param = Tensor::random(dtype, 1, n, 1), m(DType::f32, 1, n, Values(static_cast<std::size_t>(n)));
    Tensor v = m, master(DType::f32, 1, n, param.values());
    AdamState expected{param.values(), m.values(), v.values()};
    const Matrix exact = master.view();
    const Matrix* const master_copy = has_master ? &exact : nullptr;
    for (std::int64_t t = 1; t <= 3; ++t) {
      Tensor grad = Tensor::random(DType::f32, 1, n, static_cast<std::uint32_t>(10 + t));
      const double lr = 0.01 * static_cast<double>(t), factor = t == 2 ? 1.0 : 0.5;  // the second step clips nothing
      Tensor scalars(DType::f32, 1, 4,
                     {lr, 1 / (1 - std::pow(settings.beta1, t)), 1 / (1 - std::pow(settings.beta2, t)), 123});
      Tensor norm_and_factor(DType::f32, 1, 2, {7, factor});
      const Matrix clipped = norm_and_factor.view();
      testing::run_on_one_and_three_threads({}, {&param, &m, &v, &master}, [&](Workers& workers) {
        adamw(workers, settings, {scalars.view(), t == 2 ? nullptr : &clipped}, param.view(), grad.view(), m.view(),
              v.view(), master_copy);
      });
      // Without master weights, each step begins with the rounded parameter.
      if (dtype == DType::bf16 && !has_master && t > 1) {
        for (double& p : expected.p) p = static_cast<float>(bf16(static_cast<float>(p)));
      }
      reference_step(settings, lr, t, factor, grad.values(), expected);
      testing::expect_close(m.values(), expected.m, {1e-5, 1e-6}, "m");
      testing::expect_close(v.values(), expected.v, {1e-5, 1e-6}, "v");
      if (has_master) testing::expect_close(master.values(), expected.p, {1e-5, 1e-6}, "master");
      if (dtype == DType::bf16 && !has_master) {
        // A tie may round either way, so continue with the kernel's result.
        testing::expect_close(param.values(), expected.p, {0x1p-8, 1e-6}, "param");
        expected.p = param.values();
      } else {
        testing::expect_close(param.values(), expected.p, testing::tolerance_of(dtype, 1e-6), "param");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AdamW,
                         ::testing::Values(std::pair{DType::f32, false}, std::pair{DType::bf16, true},
                                           std::pair{DType::bf16, false}));

}  // namespace
}  // namespace weft::cpu
