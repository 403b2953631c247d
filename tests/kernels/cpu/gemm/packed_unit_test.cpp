// The unit that multiplies bf16: the units of a CPU, the choice among them, and a plausible measurement.
#include "kernels/cpu/gemm/packed_unit.h"

#include <gtest/gtest.h>

#include "kernels/cpu/gemm/gemm_amx.h"
#include "kernels/cpu/gemm/gemm_method.h"
#include "kernels/cpu/isa/level.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

TEST(PackedUnits, FollowTheCpu) {
  EXPECT_TRUE(has_unit(PackedUnit::f32));
  EXPECT_EQ(has_unit(PackedUnit::pairs), kHasPairs);
  EXPECT_EQ(has_unit(PackedUnit::amx), kHasAmx && bf16_in_amx());
  EXPECT_TRUE(has_unit(widest_bf16_unit()));
  EXPECT_EQ(widest_bf16_unit() == PackedUnit::pairs, bf16_in_pairs());
  EXPECT_EQ(packed_unit(DType::bf16), widest_bf16_unit());
  for (const auto& [name, unit] : kPackedUnits) {
    EXPECT_EQ(to_string(unit), name);
    EXPECT_EQ(packed_unit(DType::bf16, unit), unit);
    EXPECT_EQ(packed_unit(DType::f32, unit), PackedUnit::f32);
  }
}

// AMD's Zen 4 and 5 have a gain of 2, Intel's Sapphire Rapids ½.
TEST(FastestBf16Unit, PairsWhereTheyGainBeyondDoubt) {
  for (const double gain : {2.0, 1.9, kLeastPairsGain}) {
    EXPECT_EQ(fastest_bf16_unit(PackedUnit::pairs, gain), PackedUnit::pairs) << gain;
  }
  for (const double gain : {1.39, 1.0, 0.9, 0.5, 0.25}) {
    EXPECT_EQ(fastest_bf16_unit(PackedUnit::pairs, gain), PackedUnit::f32) << gain;
  }
  EXPECT_EQ(fastest_bf16_unit(PackedUnit::pairs, std::nullopt), PackedUnit::f32);
}

TEST(FastestBf16Unit, OthersAreNoQuestionOfPairs) {
  for (const std::optional<double> gain : {std::optional<double>(), std::optional(0.5), std::optional(2.0)}) {
    EXPECT_EQ(fastest_bf16_unit(PackedUnit::amx, gain), PackedUnit::amx);
    EXPECT_EQ(fastest_bf16_unit(PackedUnit::f32, gain), PackedUnit::f32);
  }
}

TEST(PairsGain, IsMeasuredWhereThereArePairs) {
  const std::optional<double> gain = measure_pairs_gain();
  ASSERT_EQ(gain.has_value(), kHasPairs);
  EXPECT_GT(gain.value_or(1), 0);
  EXPECT_EQ(pairs_gain(), pairs_gain());  // measured once
}

TEST(CpuModel, NamesTheProcessor) {
#if defined(__x86_64__)
  EXPECT_NE(cpu_model().find('.'), std::string::npos) << cpu_model();
#endif
  EXPECT_EQ(cpu_model(), cpu_model());
}

}  // namespace
}  // namespace weft::cpu
