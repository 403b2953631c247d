// Tables compared with the formulas from which they are computed.
#include "kernels/cpu/elementwise/bf16_table.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

namespace weft::cpu {
namespace {

// The table's entries are computed by this function too, but in another place, where the compiler must not contract it
// differently.
std::uint32_t bits_of_formula(bf16 x) {
  return std::bit_cast<std::uint32_t>(logistic(broadcast(static_cast<float>(x)))[0]);
}

// As kernels run: on a thread of Workers, which flushes denormals.
void on_worker(const auto& check) {
  Workers workers(1);
  workers.run(1, [&](std::int64_t) { check(); });
}

std::vector<bf16> every_bf16() {
  std::vector<bf16> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  return all;
}

void expect_equal(float actual, bf16 x) {
  const std::uint32_t expected = bits_of_formula(x);
  if (std::isnan(static_cast<float>(x))) {
    EXPECT_TRUE(std::isnan(actual) && std::isnan(std::bit_cast<float>(expected))) << x.bits;
  } else {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(actual), expected) << x.bits;
  }
}

// Includes infinities, NaNs, both zeros and denormals.
template <class Make>
void check_every_value(const Make& make) {
  const std::vector<bf16> all = every_bf16();
  on_worker([&] {
    for (std::size_t i = 0; i < all.size(); i += 2 * kLanes) {
      const auto in = make(all.data() + i);
      const Pair pair = in_element_order(load_pair(in), static_cast<const bf16*>(nullptr));
      const Floats single = load(in);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        expect_equal(pair.first[lane], all[i + lane]);
        expect_equal(pair.second[lane], all[i + kLanes + lane]);
        expect_equal(single[lane], all[i + lane]);
      }
    }
  });
}

TEST(Bf16Table, EveryValueHasTheBitsOfTheFormula) {
  check_every_value([](const bf16* x) { return mapped<logistic>(x); });
}

TEST(Bf16Table, SoItHasWhileMemoryIsFetched) {
  check_every_value([](const bf16* x) { return mapped<logistic>(Fetching<bf16>{x, x}); });
}

template <class T>
void check_any_length() {
  std::vector<T> x(70), y;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = T(static_cast<float>(i * 29 % 71) * 0.25F - 9.0F);
  for (std::int64_t n = 0; n <= 70; ++n) {
    y.assign(71, T(-2.0F));
    transform(
        n, y.data(), [](Floats s, Floats v) { return s * v; }, mapped<logistic>(static_cast<const T*>(x.data())),
        x.data());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto v = static_cast<float>(x[i % x.size()]);
      const float expected = static_cast<std::int64_t>(i) < n ? logistic(broadcast(v))[0] * v : -2.0F;
      EXPECT_EQ(static_cast<float>(y[i]), static_cast<float>(T(expected))) << n << ' ' << i;
    }
  }
}

TEST(Bf16Table, TransformsOfAnyLength) {
  on_worker([] {
    check_any_length<float>();
    check_any_length<bf16>();
  });
}

}  // namespace
}  // namespace weft::cpu
