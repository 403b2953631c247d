// Vector loads, stores and reductions against scalar code.
#include "kernels/cpu/simd.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>
#include <vector>

namespace weft::cpu {
namespace {

// The bits of the scalar conversion. A subnormal number may also become zero with its sign.
void expect_narrowed(float value, std::uint16_t bits) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const bool subnormal = (word & 0x7f800000U) == 0;
  if (subnormal && bits == (word >> 31) << 15) return;
  EXPECT_EQ(bits, bf16(value).bits) << std::hex << word;
}

TEST(Simd, NarrowingEqualsTheScalarConversionBitForBit) {
  for (std::uint64_t first = 0; first < (std::uint64_t{1} << 32); first += 65521 * kLanes) {
    Words words;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) words[lane] = static_cast<std::uint32_t>(first) + lane * 65521U;
    const Halves halves = narrow(lanes_cast<Floats>(words));
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t word = words[lane];
      expect_narrowed(std::bit_cast<float>(word), halves[lane]);
    }
  }
}

TEST(Simd, NarrowingRoundsTiesToEvenAndKeepsNanAndInfinity) {
  const std::array<std::uint32_t, 16> words = {0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x7f800000, 0xff800000,
                                               0x7f800001, 0xffffffff, 0x7f7fffff, 0x00000001, 0x80000000, 0x00808000,
                                               0,          0x00818000, 0x7fc00000, 0x3f800000};
  const std::array<std::uint16_t, 16> expected = {0x3f80, 0x3f82, 0x3f81, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 0xffff,
                                                  0x7f80, 0x0000, 0x8000, 0x0080, 0,      0x0082, 0x7fc0, 0x3f80};
  for (std::size_t first = 0; first < words.size(); first += kLanes) {
    Words input;
    for (std::size_t lane = 0; lane < kLanes; ++lane) input[lane] = words[first + lane];
    const Halves halves = narrow(lanes_cast<Floats>(input));
    for (std::size_t lane = 0; lane < kLanes; ++lane) EXPECT_EQ(halves[lane], expected[first + lane]) << first + lane;
  }
}

TEST(Simd, PartialVectorsTouchOnlyTheirElements) {
  for (std::int64_t count = 1; count < kLanes; ++count) {
    std::vector<float> from(static_cast<std::size_t>(count)), to(kLanes, -1.0F);
    std::vector<bf16> from16(static_cast<std::size_t>(count)), to16(kLanes, bf16(-1.0F));
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

// Each element passes through its own lane, in any order of pairs; elements past the end don't change.
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
    // Lanes past the end add nothing, although f(0, 0) is 1; sums of small integers are exact in any order.
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

// All exponents, both signs, and discarded parts below and above a half. A NaN only has to stay a NaN.
TEST(Simd, PairsOfBf16RoundLikeTheScalarConversion) {
  constexpr std::uint32_t kPair = 2 * kLanes, kStep = 32749;
  for (std::uint64_t first = 0; first < (std::uint64_t{1} << 32); first += std::uint64_t{kStep} * kPair) {
    std::array<bf16, kPair> rounded;
    Words even, odd;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      even[lane] = static_cast<std::uint32_t>(first) + 2 * lane * kStep;
      odd[lane] = even[lane] + kStep;
    }
    store_pair(rounded.data(), {lanes_cast<Floats>(even), lanes_cast<Floats>(odd)});
    for (std::uint32_t i = 0; i < kPair; ++i) {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(first) + i * kStep);
      const bool quiet_nan = (std::bit_cast<std::uint32_t>(value) & 0x7fc00000U) == 0x7fc00000U;
      if (quiet_nan) {
        EXPECT_TRUE(std::isnan(static_cast<float>(rounded[i]))) << value;
      } else if (!std::isnan(value)) {
        expect_narrowed(value, rounded[i].bits);
      }
    }
  }
}

TEST(Simd, SquareRoot) {
  const std::array<float, 16> x = {0, 1, 4, 9, 16, 2, 3, 5, 0.25F, 100, 1e10F, 1e-10F, 7, 8, 10, 11};
  for (std::size_t first = 0; first < x.size(); first += kLanes) {
    const Floats y = sqrt(load(x.data() + first));
    for (std::size_t lane = 0; lane < kLanes; ++lane) EXPECT_EQ(y[lane], std::sqrt(x[first + lane]));
  }
}

}  // namespace
}  // namespace weft::cpu
