// Layer norms and RMS norms of whole rows against double precision, whose gradients are central differences.
#include "tests/kernels/cpu/norm/norm_case.h"

namespace weft::cpu {
namespace {

using testing::Values;

class WholeNorms : public testing::NormKinds {};

TEST_P(WholeNorms, AgreeWithDoublePrecision) {
  for (const testing::NormShape& shape : {testing::NormShape{1, 1, 1, 0},
                                          {1, 5, 1, 0},
                                          {3, 17, 1, 5},
                                          {33, 49, 1, 3},
                                          {70, 768, 1, 3},
                                          {600, 130, 1, 1}}) {
    for (int flags = 0; flags < 4; ++flags) {
      const bool residual = (flags & 1) != 0, accumulate = (flags & 2) != 0;
      testing::NormCase norm(centered(), dtype(), shape, testing::normal_values(shape.rows * shape.cols, 1, 2.0));
      const testing::NormReference expected = testing::in_double(norm, residual, accumulate);
      testing::run_on_one_and_three_threads(norm.whole_scratch(), norm.outputs(),
                                            [&](Workers& workers) { norm.run_whole(workers, residual, accumulate); });
      testing::expect_agreement(norm, expected);
    }
  }
}

TEST_P(WholeNorms, KeepAccuracyFarFromZero) {
  Values values = testing::normal_values(256, 1);
  for (double& value : values) value = 1000.0 + 4.0 * std::round(value * 8.0);  // exact in bf16
  testing::NormCase norm(centered(), dtype(), {1, 256, 1, 0}, values);
  const testing::NormReference expected = testing::in_double(norm, false, false);
  Workers workers(1);
  norm.run_whole_forward(workers);
  testing::expect_close(norm.y.values(), expected.y, testing::tolerance_of(dtype(), 1e-5));
}

TEST_P(WholeNorms, BackwardMayWriteOverItsResidual) {
  testing::NormCase apart(centered(), dtype(), {20, 40, 1, 0}, testing::normal_values(800, 1)), in_place = apart;
  Workers workers(1);
  workers.reserve(apart.whole_scratch());
  apart.run_whole(workers, true, false);
  in_place.run_whole_forward(workers);
  in_place.dx.assign(in_place.dresidual.values());
  const Matrix residual = in_place.dx.view();
  in_place.run_whole_backward(workers, &residual, false);
  EXPECT_EQ(in_place.dx.bytes(), apart.dx.bytes());
}

INSTANTIATE_TEST_SUITE_P(Kinds, WholeNorms, testing::norm_kinds(), testing::norm_kind_name);

TEST(NormReference, GradientsAreThoseOfTheForwardPass) {
  const Values x = testing::normal_values(21, 1), weight = testing::normal_values(7, 2);
  const Values bias = testing::normal_values(7, 3), dy = testing::normal_values(21, 4);
  for (const bool centered : {true, false}) {
    SCOPED_TRACE(centered ? "layer norm" : "RMS norm");
    const auto computed = [&](const Values& in, const Values& w, const Values& b) {
      testing::NormReference result;
      result.compute(centered, in, w, b, dy);
      return result;
    };
    const auto loss = [&](const Values& in, const Values& w, const Values& b) {
      return testing::dot(computed(in, w, b).y, dy);
    };
    const testing::NormReference gradient = computed(x, weight, bias);
    const testing::Tolerance close{1e-6, 1e-7};
    testing::expect_close(
        gradient.dx, testing::numeric_gradient([&](const Values& v) { return loss(v, weight, bias); }, x), close, "dx");
    testing::expect_close(gradient.dweight,
                          testing::numeric_gradient([&](const Values& v) { return loss(x, v, bias); }, weight), close,
                          "dweight");
    if (!centered) continue;
    testing::expect_close(gradient.dbias,
                          testing::numeric_gradient([&](const Values& v) { return loss(x, weight, v); }, bias), close,
                          "dbias");
  }
}

}  // namespace
}  // namespace weft::cpu
