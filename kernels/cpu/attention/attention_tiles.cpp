// Register-blocked products of tiles; see attention_tiles.h.
#include "kernels/cpu/attention/attention_tiles.h"

#include <type_traits>

namespace weft::cpu {
namespace {

// Sums occupy 24 of 32 registers, or 12 of 16: enough independent chains to hide the latency of multiply-adds, with few
// loads for each.
#if defined(__AVX512F__)
constexpr std::int64_t kMostVectors = 4;
template <std::int64_t kVectors>
constexpr std::int64_t kMostRows = kVectors == 4   ? 6
                                   : kVectors == 3 ? 8
                                                   : 12;
#else
constexpr std::int64_t kMostVectors = 2;
template <std::int64_t kVectors>
constexpr std::int64_t kMostRows = 6;
#endif

// Calls body(0), …, body(n − 1) with constants, so that arrays indexed by them are kept in registers.
template <std::int64_t n, class Body>
[[gnu::always_inline]] inline void unrolled(const Body& body) {
  [&]<std::int64_t... i>(std::integer_sequence<std::int64_t, i...>) __attribute__((always_inline)) {
    (body(std::integral_constant<std::int64_t, i>{}), ...);
  }
  (std::make_integer_sequence<std::int64_t, n>{});
}

template <bool kPairs, std::int64_t kRows, std::int64_t kVectors>
void multiply_block(const TileProduct& t, std::int64_t row, std::int64_t vector) {
  Floats sums[kRows][kVectors];
  float* c = t.c + row * t.c_row + vector * kLanes;
  const std::int64_t c_row = t.c_row, a_row = t.a_row;
  unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
    unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
      sums[r][v] = t.accumulate ? load(c + r * c_row + v * kLanes) : Floats{};
    });
  });
  const float* a = t.a + row * a_row;
  const float* b = t.b + vector * kLanes;
  for (std::int64_t p = 0; p < t.depth; ++p, a += t.a_step, b += t.b_step) {
    Floats right[kVectors];
    unrolled<kVectors>([&](auto v) __attribute__((always_inline)) { right[v] = load(b + v * kLanes); });
    unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
      const Floats left = broadcast(a[r * a_row]);
      unrolled<kVectors>([&](auto v) __attribute__((always_inline)) {
        if constexpr (kPairs) {
          sums[r][v] = multiply_add_pairs(left, right[v], sums[r][v]);
        } else {
          sums[r][v] += left * right[v];
        }
      });
    });
  }
  unrolled<kRows>([&](auto r) __attribute__((always_inline)) {
    unrolled<kVectors>([&](auto v) __attribute__((always_inline)) { store(c + r * c_row + v * kLanes, sums[r][v]); });
  });
}

// As many blocks of the largest height as fit, then blocks of 4, 2 and 1 rows.
template <bool kPairs, std::int64_t kVectors>
void multiply_columns(const TileProduct& t, std::int64_t rows, std::int64_t vector) {
  std::int64_t row = 0;
  for (; row + kMostRows<kVectors> <= rows; row += kMostRows<kVectors>) {
    multiply_block<kPairs, kMostRows<kVectors>, kVectors>(t, row, vector);
  }
  for (; row + 4 <= rows; row += 4) multiply_block<kPairs, 4, kVectors>(t, row, vector);
  if (row + 2 <= rows) multiply_block<kPairs, 2, kVectors>(t, row, vector), row += 2;
  if (row < rows) multiply_block<kPairs, 1, kVectors>(t, row, vector);
}

}  // namespace

template <bool kPairs>
void multiply_tile(const TileProduct& product, std::int64_t rows, std::int64_t vectors) {
  std::int64_t vector = 0;
  for (; vector + kMostVectors <= vectors; vector += kMostVectors) {
    multiply_columns<kPairs, kMostVectors>(product, rows, vector);
  }
  if constexpr (kMostVectors > 2) {
    if (vectors - vector == 3) multiply_columns<kPairs, 3>(product, rows, vector);
    if (vectors - vector == 2) multiply_columns<kPairs, 2>(product, rows, vector);
  }
  if (vectors - vector == 1) multiply_columns<kPairs, 1>(product, rows, vector);
}

template void multiply_tile<false>(const TileProduct& product, std::int64_t rows, std::int64_t vectors);
#if defined(__AVX512BF16__)
template void multiply_tile<true>(const TileProduct& product, std::int64_t rows, std::int64_t vectors);
#endif

}  // namespace weft::cpu
