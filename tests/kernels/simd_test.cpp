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

TEST(Simd, SquareRoot) {
  const Floats x = {0, 1, 4, 9, 16, 2, 3, 5, 0.25F, 100, 1e10F, 1e-10F, 7, 8, 10, 11};
  const Floats y = sqrt(x);
  for (int lane = 0; lane < 16; ++lane) EXPECT_EQ(y[lane], std::sqrt(x[lane]));
}

}  // namespace
}  // namespace weft::cpu
