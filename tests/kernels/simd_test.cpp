// Vector loads, stores and reductions against scalar code.
#include "kernels/cpu/simd.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <vector>

namespace weft::cpu {
namespace {

TEST(Simd, NarrowingEqualsTheScalarConversionBitForBit) {
  for (std::uint64_t first = 0; first < (std::uint64_t{1} << 32); first += 65521 * 16) {
    Words words;
    for (std::uint32_t lane = 0; lane < 16; ++lane) words[lane] = static_cast<std::uint32_t>(first) + lane * 65521U;
    const Halves halves = narrow(lanes_cast<Floats>(words));
    for (int lane = 0; lane < 16; ++lane) {
      const std::uint32_t word = words[lane];
      EXPECT_EQ(halves[lane], bf16(std::bit_cast<float>(word)).bits) << std::hex << word;
    }
  }
}

TEST(Simd, NarrowingRoundsTiesToEvenAndKeepsNanAndInfinity) {
  const std::array<std::uint32_t, 16> words = {0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x7f800000, 0xff800000,
                                               0x7f800001, 0xffffffff, 0x7f7fffff, 0x00000001, 0x80000000, 0x00008000,
                                               0,          0x00018000, 0x7fc00000, 0x3f800000};
  Words input;
  for (std::size_t i = 0; i < 16; ++i) input[i] = words[i];
  const Halves halves = narrow(lanes_cast<Floats>(input));
  const std::array<std::uint16_t, 16> expected = {0x3f80, 0x3f82, 0x3f81, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 0xffff,
                                                  0x7f80, 0x0000, 0x8000, 0x0000, 0,      0x0002, 0x7fc0, 0x3f80};
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(halves[i], expected[i]) << i;
}

TEST(Simd, PartialVectorsTouchOnlyTheirElements) {
  for (std::int64_t count = 1; count < kLanes; ++count) {
    std::vector<float> from(static_cast<std::size_t>(count)), to(16, -1.0F);
    std::vector<bf16> from16(static_cast<std::size_t>(count)), to16(16, bf16(-1.0F));
    for (std::size_t i = 0; i < from.size(); ++i) {
      from[i] = static_cast<float>(i) + 0.5F;
      from16[i] = bf16(from[i]);
    }
    const PartialVector lanes{count};
    lanes.store(to.data(), lanes.load(from.data()));
    lanes.store(to16.data(), lanes.load(from16.data()));
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const float expected = i < count ? static_cast<float>(i) + 0.5F : -1.0F;
      EXPECT_EQ(to[static_cast<std::size_t>(i)], expected);
      EXPECT_EQ(static_cast<float>(to16[static_cast<std::size_t>(i)]), expected);
      EXPECT_EQ(lanes.fill(load_partial(from.data(), count), 9.0F)[i], i < count ? expected : 9.0F);
    }
  }
}

TEST(Simd, SumsAndMaximaOfAnyLength) {
  for (std::int64_t n = 1; n < 200; ++n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>((i * 37) % 101 - 150);
    float total = 0, top = -std::numeric_limits<float>::infinity();
    for (float value : values) total += value, top = std::max(top, value);
    // Small integers: every order of summation is exact.
    EXPECT_EQ(sum_vectors(n, [&](std::int64_t i, auto lanes) { return lanes.load(values.data() + i); }), total) << n;
    EXPECT_EQ(max_of(values.data(), n), top) << n;
  }
}

// Each element through its own lane, whatever order pairs have; elements past the end stay.
template <class T>
void check_transform() {
  for (std::int64_t n = 0; n < 140; ++n) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<T> a(size), b(size), sum(size + 1, T(-1.0F)), product(size + 1, T(-1.0F));
    float dot = 0, top = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < size; ++i) {
      const auto left = static_cast<float>(i % 15), right = static_cast<float>(static_cast<int>(i % 11) - 5);
      a[i] = T(left), b[i] = T(right);
      dot += left * right + 1.0F, top = std::max(top, right);
    }
    const auto both = [](Floats x, Floats y) { return std::array{x + y, x * y}; };
    transform<2, T>(n, {sum.data(), product.data()}, both, a.data(), b.data());
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(static_cast<float>(sum[i]), static_cast<float>(a[i]) + static_cast<float>(b[i])) << n << ' ' << i;
      EXPECT_EQ(static_cast<float>(product[i]), static_cast<float>(a[i]) * static_cast<float>(b[i])) << n << ' ' << i;
    }
    EXPECT_EQ(static_cast<float>(sum[size]), -1.0F);
    EXPECT_EQ(static_cast<float>(product[size]), -1.0F);
    // Lanes past the end add nothing, though f(0, 0) is 1; small integers are exact in any order.
    EXPECT_EQ(sum_of(
                  n, [](Floats x, Floats y) { return x * y + 1.0F; }, a.data(), b.data()),
              dot);
    if (n > 0) {
      EXPECT_EQ(max_of(b.data(), n), top);
    }
  }
}

TEST(Simd, TransformsAndSumsOfFloats) {
  check_transform<float>();
}
TEST(Simd, TransformsAndSumsOfBf16) {
  check_transform<bf16>();
}

TEST(Simd, PairsOfBf16RoundLikeSingleVectors) {
  std::array<float, 32> values;
  std::array<bf16, 32> pairs, expected;
  for (std::size_t i = 0; i < 32; ++i)
    values[i] = std::bit_cast<float>(0x3f800000U + static_cast<std::uint32_t>(i) * 0x4001U);
  values[5] = std::numeric_limits<float>::quiet_NaN(), values[6] = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < 32; ++i) expected[i] = bf16(values[i]);
  Pair pair{};
  for (int lane = 0; lane < 16; ++lane) {
    pair.first[lane] = values[static_cast<std::size_t>(2 * lane)];
    pair.second[lane] = values[static_cast<std::size_t>(2 * lane + 1)];
  }
  store_pair(pairs.data(), pair);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(pairs[i].bits, expected[i].bits) << i;
  const Pair ordered = in_element_order(load_pair(expected.data()), static_cast<const bf16*>(nullptr));
  for (int lane = 0; lane < 16; ++lane) {
    if (lane == 5 || lane == 6) continue;
    EXPECT_EQ(ordered.first[lane], static_cast<float>(expected[static_cast<std::size_t>(lane)]));
    EXPECT_EQ(ordered.second[lane], static_cast<float>(expected[static_cast<std::size_t>(16 + lane)]));
  }
}

TEST(Simd, SquareRoot) {
  const Floats x = {0, 1, 4, 9, 16, 2, 3, 5, 0.25F, 100, 1e10F, 1e-10F, 7, 8, 10, 11};
  const Floats y = sqrt(x);
  for (int lane = 0; lane < 16; ++lane) EXPECT_EQ(y[lane], std::sqrt(x[lane]));
}

}  // namespace
}  // namespace weft::cpu
