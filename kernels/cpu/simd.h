// Vectors of kLanes fp32 lanes over GCC's and Clang's vector extensions, with loads and stores of float and bf16.
//
// They are explicit because an auto-vectoriser may peel loops by address or sum in another order. Here the code states
// the order of every reduction (lane l takes elements l, l + kLanes, …), so results depend only on shapes and the
// instruction set. The last, partial vector goes through the same arithmetic as the others.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/dtype.h"

#if defined(WEFT_BASELINE)
#error "vectors are used by kernels alone: in a build with all levels, other code doesn't know their length"
#endif
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace weft::cpu {

// As many lanes as a register holds: GCC 12 compares, selects and converts longer vectors lane by lane.
#if defined(__AVX512F__)
inline constexpr std::int64_t kLanes = 16;
#else
inline constexpr std::int64_t kLanes = 8;
#endif
inline constexpr std::int64_t kHalf = kLanes / 2;

using Floats = float __attribute__((vector_size(kLanes * 4)));
using HalfFloats = float __attribute__((vector_size(kHalf * 4)));
using Ints = std::int32_t __attribute__((vector_size(kLanes * 4)));
using Words = std::uint32_t __attribute__((vector_size(kLanes * 4)));
using Halves = std::uint16_t __attribute__((vector_size(kLanes * 2)));
using Doubles = double __attribute__((vector_size(kLanes * 8)));
using HalfDoubles = double __attribute__((vector_size(kHalf * 8)));

inline Floats broadcast(float value) {
  return value - Floats{};
}

template <class To, class From>
To lanes_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// Forces a value into a register: otherwise GCC folds its load or broadcast into every instruction that uses it, which
/// reads memory each time.
template <class Value>
[[gnu::always_inline]] inline Value kept_in_register(Value value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));  // NOLINT(hicpp-no-assembler)
#endif
  return value;
}

/// 0, 1, … kLanes − 1.
inline Ints lane_numbers() {
#if defined(__AVX512F__)
  return Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
  return Ints{0, 1, 2, 3, 4, 5, 6, 7};
#endif
}

/// The lanes of both, alternately, in two vectors: {first of a, first of b, second of a, …}.
struct Pair {
  Floats first, second;
};
inline Pair interleave(Floats a, Floats b) {
#if defined(__AVX512F__)
  return {__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
          __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)};
#else
  return {__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11),
          __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)};
#endif
}

inline HalfFloats lower_half(Floats value) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(value, value, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return __builtin_shufflevector(value, value, 0, 1, 2, 3);
#endif
}
inline HalfFloats upper_half(Floats value) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  return __builtin_shufflevector(value, value, 4, 5, 6, 7);
#endif
}

// GCC 12 splits conversions between 16 and 32 bits into halves; the intrinsics are one instruction each.
inline Words widen_words(Halves halves) {
#if defined(__AVX512F__)
  return lanes_cast<Words>(_mm512_maskz_cvtepu16_epi32(0xffff, lanes_cast<__m256i>(halves)));
#elif defined(__AVX2__)
  return lanes_cast<Words>(_mm256_cvtepu16_epi32(lanes_cast<__m128i>(halves)));
#else
  return __builtin_convertvector(halves, Words);
#endif
}
/// For words below 2¹⁶.
inline Halves narrow_words(Words words) {
#if defined(__AVX512F__)
  return lanes_cast<Halves>(_mm512_maskz_cvtepi32_epi16(0xffff, lanes_cast<__m512i>(words)));
#elif defined(__AVX2__)
  const __m256i both = lanes_cast<__m256i>(words);
  return lanes_cast<Halves>(_mm_packus_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
#else
  return __builtin_convertvector(words, Halves);
#endif
}

inline Floats widen(Halves halves) {
  return lanes_cast<Floats>(widen_words(halves) << 16);
}

/// Nearest bf16, ties to even, in the upper halves; NaN stays a (quiet) NaN. The lower halves are undefined.
inline Words round_to_upper(Floats value) {
  const Words bits = lanes_cast<Words>(value);
  return value != value ? bits | 0x00400000U : bits + 0x7fffU + ((bits >> 16) & 1U);
}

/// The same bits as bf16(float), except that subnormal numbers may become zero.
inline Halves narrow(Floats value) {
#if defined(__AVX512BF16__)
  return lanes_cast<Halves>(_mm512_cvtneps_pbh(lanes_cast<__m512>(value)));
#else
  return narrow_words(round_to_upper(value) >> 16);
#endif
}

inline Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline Floats load(const bf16* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  return widen(halves);
}
inline void store(float* to, Floats value) {
  std::memcpy(to, &value, sizeof value);
}
inline void store(bf16* to, Floats value) {
  const Halves halves = narrow(value);
  std::memcpy(static_cast<void*>(to), &halves, sizeof halves);
}

/// Stores whole vectors beside the caches, which then don't read the old values first. `to` is aligned to the vector.
/// Before other threads read them, the storing thread calls finish_stores_beside_caches().
inline void store_beside_caches(float* to, Floats value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, lanes_cast<__m512>(value));
#elif defined(__AVX2__)
  _mm256_stream_ps(to, lanes_cast<__m256>(value));
#else
  store(to, value);
#endif
}
inline void finish_stores_beside_caches() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

/// The first `count` < kLanes lanes; the others are zero.
inline Floats load_partial(const float* from, std::int64_t count) {
  Floats value{};
  std::memcpy(&value, from, static_cast<std::size_t>(count) * sizeof(float));
  return value;
}
inline Floats load_partial(const bf16* from, std::int64_t count) {
  Halves halves{};
  std::memcpy(&halves, from, static_cast<std::size_t>(count) * sizeof(bf16));
  return widen(halves);
}
inline void store_partial(float* to, Floats value, std::int64_t count) {
  std::memcpy(to, &value, static_cast<std::size_t>(count) * sizeof(float));
}
inline void store_partial(bf16* to, Floats value, std::int64_t count) {
  const Halves halves = narrow(value);
  std::memcpy(static_cast<void*>(to), &halves, static_cast<std::size_t>(count) * sizeof(bf16));
}

/// 2·kLanes consecutive elements, in the cheapest order: for bf16, its even and its odd elements, which take one
/// instruction a vector instead of three. This suffices for elementwise arithmetic and for sums.
inline Pair load_pair(const float* from) {
  return {load(from), load(from + kLanes)};
}
/// 2·kLanes bf16, two in each word. They are read once, since in a row of any length each read may touch two cache
/// lines.
inline Words load_words(const bf16* from) {
  Words words;
  std::memcpy(&words, from, sizeof words);
  return kept_in_register(words);
}
inline Pair pair_of(Words words) {
  return {lanes_cast<Floats>(words << 16), lanes_cast<Floats>(words & 0xffff0000U)};
}
inline Pair load_pair(const bf16* from) {
  return pair_of(load_words(from));
}
inline void store_pair(float* to, const Pair& pair) {
  store(to, pair.first), store(to + kLanes, pair.second);
}
/// A NaN must be quiet, as arithmetic makes it: a signalling NaN may become infinite.
inline void store_pair(bf16* to, const Pair& pair) {
#if defined(__AVX512BF16__)
  const __m512i in_order =
      lanes_cast<__m512i>(_mm512_cvtne2ps_pbh(lanes_cast<__m512>(pair.second), lanes_cast<__m512>(pair.first)));
  const __m512i alternately = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                               6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i words = _mm512_maskz_permutexvar_epi16(0xffffffff, alternately, in_order);
#elif defined(__AVX2__) && !defined(__AVX512F__)
  // Rounds all sixteen at once, in 16-bit lanes: up if the discarded part is above a half, or if it is a half and the
  // rest is odd.
  const __m256i first = lanes_cast<__m256i>(pair.first), second = lanes_cast<__m256i>(pair.second);
  const __m256i upper = _mm256_blend_epi16(_mm256_srli_epi32(first, 16), second, 0xaa);
  const __m256i lower = _mm256_blend_epi16(first, _mm256_slli_epi32(second, 16), 0xaa);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi16(1));
  const __m256i above_half = _mm256_xor_si256(lower, _mm256_set1_epi16(-0x8000));  // lower − 2¹⁵, signed
  const __m256i up = _mm256_cmpgt_epi16(_mm256_adds_epi16(above_half, odd), _mm256_setzero_si256());
  // Only NaNs are large enough to overflow: the positive NaN saturates, max keeps the negative NaN.
  const __m256i words = _mm256_max_epu16(_mm256_subs_epi16(upper, up), upper);
#else
  const Words words = (round_to_upper(pair.first) >> 16) | (round_to_upper(pair.second) & 0xffff0000U);
#endif
  std::memcpy(static_cast<void*>(to), &words, sizeof words);
}

/// The pair that load_pair of floats would return, from a pair that load_pair of T returned.
inline Pair in_element_order(const Pair& pair, const float* /*type*/) {
  return pair;
}
inline Pair in_element_order(const Pair& pair, const bf16* /*type*/) {
  return interleave(pair.first, pair.second);
}

/// kHalf floats as doubles: GCC 12 compiles __builtin_convertvector to more than one instruction.
inline HalfDoubles load_doubles(const float* from) {
#if defined(__AVX512F__)
  return lanes_cast<HalfDoubles>(_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(from)));
#elif defined(__AVX2__)
  return lanes_cast<HalfDoubles>(_mm256_cvtps_pd(_mm_loadu_ps(from)));
#else
  HalfFloats value;
  std::memcpy(&value, from, sizeof value);
  return __builtin_convertvector(value, HalfDoubles);
#endif
}

/// In each lane a < b ? a : b, and a > b ? a : b: the second operand if either is NaN. GCC 12 doesn't find these
/// instructions itself if one operand is constant.
inline Floats min(Floats a, Floats b) {
#if defined(__AVX512F__)
  return lanes_cast<Floats>(_mm512_maskz_min_ps(0xffff, lanes_cast<__m512>(a), lanes_cast<__m512>(b)));
#elif defined(__AVX2__)
  return lanes_cast<Floats>(_mm256_min_ps(lanes_cast<__m256>(a), lanes_cast<__m256>(b)));
#else
  return a < b ? a : b;
#endif
}
inline Floats max(Floats a, Floats b) {
#if defined(__AVX512F__)
  return lanes_cast<Floats>(_mm512_maskz_max_ps(0xffff, lanes_cast<__m512>(a), lanes_cast<__m512>(b)));
#elif defined(__AVX2__)
  return lanes_cast<Floats>(_mm256_max_ps(lanes_cast<__m256>(a), lanes_cast<__m256>(b)));
#else
  return a > b ? a : b;
#endif
}

/// a·b + c, rounded once if the CPU can: for sums that cancel. Other expressions the compiler may contract or not.
inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return lanes_cast<Floats>(_mm512_fmadd_ps(lanes_cast<__m512>(a), lanes_cast<__m512>(b), lanes_cast<__m512>(c)));
#elif defined(__FMA__)
  return lanes_cast<Floats>(_mm256_fmadd_ps(lanes_cast<__m256>(a), lanes_cast<__m256>(b), lanes_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}

/// a·b as two factors: a sum takes it in one multiply-add, whether or not its value is also kept.
struct Product {
  Floats a, b;

  Floats value() const { return a * b; }
};
inline Floats value_of(Floats x) {
  return x;
}
inline Floats value_of(const Product& x) {
  return x.value();
}
inline void add_to(Floats& sum, Floats x) {
  sum += x;
}
inline void add_to(Floats& sum, const Product& x) {
  sum = multiply_add(x.a, x.b, sum);
}

#if defined(__AVX512F__)
/// In each lane, the entry of a table of 32 that the last five bits of `index` select.
inline Words look_up(Words first, Words last, Words index) {
  return lanes_cast<Words>(
      _mm512_permutex2var_epi32(lanes_cast<__m512i>(first), lanes_cast<__m512i>(index), lanes_cast<__m512i>(last)));
}
#endif

/// Whether vectors of pairs of bf16 can be multiplied and summed like floats: AVX512_BF16.
#if defined(__AVX512BF16__)
inline constexpr bool kHasPairs = true;
#else
inline constexpr bool kHasPairs = false;
#endif

/// a₀·b₀ + a₁·b₁ + c in each 32-bit lane, where a and b hold a pair of bf16 and c a float. Subnormal numbers count as
/// zero. Only if kHasPairs.
inline Floats multiply_add_pairs([[maybe_unused]] Floats a, [[maybe_unused]] Floats b, Floats c) {
#if defined(__AVX512BF16__)
  return lanes_cast<Floats>(_mm512_dpbf16_ps(lanes_cast<__m512>(c), lanes_cast<__m512bh>(a), lanes_cast<__m512bh>(b)));
#else
  return c;
#endif
}

inline Floats sqrt(Floats value) {
#if defined(__AVX512F__)
  return lanes_cast<Floats>(_mm512_maskz_sqrt_ps(0xffff, lanes_cast<__m512>(value)));
#elif defined(__AVX2__)
  return lanes_cast<Floats>(_mm256_sqrt_ps(lanes_cast<__m256>(value)));
#else
  for (std::int64_t lane = 0; lane < kLanes; ++lane) value[lane] = std::sqrt(value[lane]);
  return value;
#endif
}

/// Combines all lanes as a balanced tree, by a function of two vectors of any length or of two floats.
template <class Combine>
float combine_lanes(Floats value, const Combine& combine) {
  using Four = float __attribute__((vector_size(16)));
  const HalfFloats half = combine(lower_half(value), upper_half(value));
#if defined(__AVX512F__)
  const Four four =
      combine(__builtin_shufflevector(half, half, 0, 1, 2, 3), __builtin_shufflevector(half, half, 4, 5, 6, 7));
#else
  const Four four = half;
#endif
  return combine(combine(four[0], four[2]), combine(four[1], four[3]));
}
inline float sum(Floats value) {
  return combine_lanes(value, [](auto a, auto b) { return a + b; });
}
inline float largest(Floats value) {
  return combine_lanes(value, [](auto a, auto b) { return a > b ? a : b; });
}

/// Prefetches a cache line for reading, into the second level: the CPU brings it nearer by itself, and the first level
/// keeps the data in use.
[[gnu::always_inline]] inline void fetch_line(const void* line) {
  constexpr int kReading = 0, kSecondLevel = 2;
  __builtin_prefetch(line, kReading, kSecondLevel);
}

/// Elements at `now`, for transform() and sum_of(): while they are read, as many bytes at `ahead` are prefetched. For
/// kernels that pass over a row several times: otherwise memory would be idle during all passes but the first. `ahead`
/// may be beyond the end of an array.
template <class T>
struct Fetching {
  const T* now;
  const T* ahead;

  Fetching operator+(std::int64_t i) const {
    return {now + i, reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(ahead) + i * sizeof(T))};
  }
};
/// Elements in a cache line.
template <class T>
inline constexpr std::int64_t kLine = 64 / sizeof(T);
template <class T>
[[gnu::always_inline]] inline void fetch_pair(const Fetching<T>& from) {
  for (std::int64_t i = 0; i < 2 * kLanes; i += kLine<T>) fetch_line((from + i).ahead);
}
template <class T>
[[gnu::always_inline]] inline Pair load_pair(const Fetching<T>& from) {
  fetch_pair(from);
  return load_pair(from.now);
}
template <class T>
inline Floats load(const Fetching<T>& from) {
  return load(from.now);
}
template <class T>
inline Floats load_partial(const Fetching<T>& from, std::int64_t count) {
  return load_partial(from.now, count);
}

/// For members that are themselves called load: also finds overloads for inputs that are declared later.
template <class From>
inline Floats load_from(const From& from) {
  return load(from);
}

/// Calls piece(i, whole) for i = 0, kLanes, … below n, where `whole` is an object that loads and stores kLanes lanes at
/// i; then once more with an object that loads and stores the remaining n mod kLanes.
///
///   for_vectors(n, [&](std::int64_t i, auto lanes) { lanes.store(y + i, lanes.load(x + i) * 2.0F); });
struct WholeVector {
  static constexpr bool kPartial = false;
  template <class From>
  Floats load(const From& from) const {
    return load_from(from);
  }
  template <class T>
  void store(T* to, Floats value) const {
    cpu::store(to, value);
  }
  /// Lanes past the end become `filler`: for maxima, and for sums of f(x) with f(0) ≠ 0.
  Floats fill(Floats value, float /*filler*/) const { return value; }
};

struct PartialVector {
  static constexpr bool kPartial = true;
  std::int64_t count;
  template <class From>
  Floats load(const From& from) const {
    return load_partial(from, count);
  }
  template <class T>
  void store(T* to, Floats value) const {
    store_partial(to, value, count);
  }
  Floats fill(Floats value, float filler) const {
    return lane_numbers() < static_cast<std::int32_t>(count) ? value : broadcast(filler);
  }
};

template <class Piece>
inline void for_vectors(std::int64_t n, Piece&& piece) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) piece(i, WholeVector{});
  if (i < n) piece(i, PartialVector{n - i});
}

/// Calls step(i, k, vectors…) with kLanes elements of each of `in…`: of whole pairs of vectors in load_pair's order, k
/// = 0 and 1, then of the other elements with k = 0.
template <class Step, class... In>
inline void for_pairs(std::int64_t n, const Step& step, const In&... in) {
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    [&](auto... pair) {
      step(i, 0, pair.first...);
      step(i + kLanes, 1, pair.second...);
    }(load_pair(in + i)...);
  }
  const std::int64_t rest = i;
  for_vectors(n - rest, [&](std::int64_t j, auto lanes) { step(rest + j, 0, lanes.load(in + (rest + j))...); });
}

/// to[rows, cols] = from, converted.
template <class From, class To>
inline void convert_rows(const From* from, std::int64_t from_stride, std::int64_t rows, std::int64_t cols, To* to,
                         std::int64_t to_stride) {
  for (std::int64_t row = 0; row < rows; ++row, from += from_stride, to += to_stride) {
    for_vectors(cols, [&](std::int64_t i, auto lanes) { lanes.store(to + i, lanes.load(from + i)); });
  }
}

/// Σ term(i, lanes) with four independent accumulators, added in a fixed order. Terms of lanes past the end must be 0.
template <class Term>
inline float sum_vectors(std::int64_t n, Term&& term) {
  Floats a{}, b{}, c{}, d{};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += term(i, WholeVector{});
    b += term(i + kLanes, WholeVector{});
    c += term(i + 2 * kLanes, WholeVector{});
    d += term(i + 3 * kLanes, WholeVector{});
  }
  for (; i + kLanes <= n; i += kLanes) a += term(i, WholeVector{});
  if (i < n) b += term(i, PartialVector{n - i});
  return sum((a + b) + (c + d));
}

/// Stores f of each element's values in `in…` to the outputs. f takes Floats and returns one Floats for each output, or
/// a single Floats for a single output. An output may be one of the inputs. Inputs are pointers or Fetching.
template <std::size_t kOutputs, class T, class Function, class... In>
inline void transform(std::int64_t n, const std::array<T*, kOutputs>& outputs, const Function& f, const In&... in) {
  const auto at = [&](std::size_t output, auto result) {
    if constexpr (kOutputs == 1) {
      return result;
    } else {
      return result[output];
    }
  };
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    [&](auto... pair) {
      const auto first = f(pair.first...), second = f(pair.second...);
      for (std::size_t k = 0; k < kOutputs; ++k) store_pair(outputs[k] + i, {at(k, first), at(k, second)});
    }(load_pair(in + i)...);
  }
  const std::int64_t rest = i;
  for_vectors(n - rest, [&](std::int64_t j, auto lanes) {
    const auto result = f(lanes.load(in + (rest + j))...);
    for (std::size_t k = 0; k < kOutputs; ++k) lanes.store(outputs[k] + rest + j, at(k, result));
  });
}
template <class T, class Function, class... In>
inline void transform(std::int64_t n, T* output, const Function& f, const In&... in) {
  transform<1, T>(n, {output}, f, in...);
}

/// Σ f(values of `in…`), where f maps Floats to Floats or a Product, with four independent accumulators, added in a
/// fixed order.
template <class Function, class... In>
inline float sum_of(std::int64_t n, const Function& f, const In&... in) {
  Floats a{}, b{}, c{}, d{};
  const auto step = [&](std::int64_t i, Floats& first_sum, Floats& second_sum) {
    [&](auto... pair) {
      add_to(first_sum, f(pair.first...)), add_to(second_sum, f(pair.second...));
    }(load_pair(in + i)...);
  };
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) step(i, a, b), step(i + 2 * kLanes, c, d);
  if (i + 2 * kLanes <= n) step(i, a, b), i += 2 * kLanes;
  const std::int64_t rest = i;
  for_vectors(n - rest,
              [&](std::int64_t j, auto lanes) { a += lanes.fill(value_of(f(lanes.load(in + (rest + j))...)), 0.0F); });
  return sum((a + b) + (c + d));
}

/// y = f(x) and Σ f(x), with the bits of sum_of(); y is in load_pair's order of x.
template <class Function, class In>
inline float transform_and_sum(std::int64_t n, float* y, const Function& f, const In& x) {
  Floats a{}, b{}, c{}, d{};
  const auto step = [&](std::int64_t i, Floats& first_sum, Floats& second_sum) {
    const Pair from = load_pair(x + i);
    const auto first = f(from.first), second = f(from.second);
    store_pair(y + i, {value_of(first), value_of(second)});
    add_to(first_sum, first), add_to(second_sum, second);
  };
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) step(i, a, b), step(i + 2 * kLanes, c, d);
  if (i + 2 * kLanes <= n) step(i, a, b), i += 2 * kLanes;
  const std::int64_t rest = i;
  for_vectors(n - rest, [&](std::int64_t j, auto lanes) {
    const Floats value = value_of(f(lanes.load(x + (rest + j))));
    lanes.store(y + rest + j, value);
    a += lanes.fill(value, 0.0F);
  });
  return sum((a + b) + (c + d));
}

/// The largest of n ≥ 1 elements; −inf if all are −inf. NaNs may be ignored.
template <class In>
inline float max_of(const In& values, std::int64_t n) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  Floats a = broadcast(kLowest), b = a;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Pair pair = load_pair(values + i);
    a = max(pair.first, a);
    b = max(pair.second, b);
  }
  for (; i + kLanes <= n; i += kLanes) a = max(load(values + i), a);
  if (i < n) b = max(PartialVector{n - i}.fill(load_partial(values + i, n - i), kLowest), b);
  return largest(max(a, b));
}

}  // namespace weft::cpu
