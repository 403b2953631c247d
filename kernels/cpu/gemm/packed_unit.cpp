// The units of this build and CPU, and the speed of pairs of bf16 beside that of floats; see packed_unit.h.
#include "kernels/cpu/gemm/packed_unit.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "kernels/cpu/gemm/gemm_amx.h"
#include "kernels/cpu/gemm/gemm_method.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

bool has_unit(PackedUnit unit) {
  switch (unit) {
    case PackedUnit::f32:
      return true;
    case PackedUnit::pairs:
      return kHasPairs;
    case PackedUnit::amx:
      return kHasAmx && bf16_in_amx();
  }
  return false;
}

PackedUnit widest_bf16_unit() {
  if (has_unit(PackedUnit::amx)) return PackedUnit::amx;
  return has_unit(PackedUnit::pairs) && !bf16_in_amx() ? PackedUnit::pairs : PackedUnit::f32;
}

PackedUnit packed_unit(DType inputs, PackedUnit bf16) {
  return inputs == DType::bf16 ? bf16 : PackedUnit::f32;
}

namespace {

#if defined(__AVX512BF16__)
using Clock = std::chrono::steady_clock;

// This many independent sums hide the latency of either instruction; a loop takes some microseconds.
constexpr int kSums = 20, kRepeats = 1000, kTurns = 60;

// The time of kRepeats · kSums instructions on operands in registers.
template <bool kPairs>
double seconds_of_loop() {
  Floats sums[kSums] = {};
  Floats a = broadcast(0.5F), b = broadcast(0.25F);
  const auto begin = Clock::now();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
#pragma GCC unroll 20
    for (Floats& sum : sums) {
      sum = kPairs ? multiply_add_pairs(a, b, sum) : multiply_add(a, b, sum);
      asm volatile("" : "+v"(sum), "+v"(a), "+v"(b));  // NOLINT(hicpp-no-assembler): otherwise nothing is computed
    }
  }
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
#endif

}  // namespace

std::optional<double> measure_pairs_gain() {
#if defined(__AVX512BF16__)
  double floats = std::numeric_limits<double>::infinity(), pairs = floats;
  for (int turn = 0; turn < kTurns; ++turn) {
    floats = std::min(floats, seconds_of_loop<false>());
    pairs = std::min(pairs, seconds_of_loop<true>());
  }
  return 2 * floats / pairs;
#else
  return std::nullopt;
#endif
}

std::optional<double> pairs_gain() {
  static const std::optional<double> gain = measure_pairs_gain();
  return gain;
}

PackedUnit fastest_bf16_unit(PackedUnit widest, std::optional<double> gain) {
  if (widest != PackedUnit::pairs) return widest;
  return gain && *gain >= kLeastPairsGain ? PackedUnit::pairs : PackedUnit::f32;
}

PackedUnit fastest_bf16_unit() {
  const PackedUnit widest = widest_bf16_unit();
  return fastest_bf16_unit(widest, widest == PackedUnit::pairs ? pairs_gain() : std::nullopt);
}

}  // namespace weft::cpu
