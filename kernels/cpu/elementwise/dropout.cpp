// Dropout with eight Philox quads at a time; see elementwise.h.
#include <array>
#include <bit>
#include <cstring>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/simd.h"
#include "kernels/formulas.h"

namespace weft::cpu {
namespace {

using Wide = std::uint64_t __attribute__((vector_size(64)));

constexpr std::int64_t kQuads = 8,
                       kBlock = kQuads * kernels::kDropoutElements;  // elements that one call of draw() covers

// Product of the lower halves of each lane.
Wide multiply_lower(Wide a, Wide b) {
#if defined(__AVX512F__)
  return lanes_cast<Wide>(_mm512_maskz_mul_epu32(0xff, lanes_cast<__m512i>(a), lanes_cast<__m512i>(b)));
#elif defined(__AVX2__)
  struct Pieces {
    __m256i piece[2];
  };
  const auto x = lanes_cast<Pieces>(a), y = lanes_cast<Pieces>(b);
  return lanes_cast<Wide>(Pieces{_mm256_mul_epu32(x.piece[0], y.piece[0]), _mm256_mul_epu32(x.piece[1], y.piece[1])});
#else
  return (a & 0xffffffffU) * (b & 0xffffffffU);
#endif
}

using Drawn = std::array<std::uint16_t, kBlock + kLanes>;  // a vector may be read from any bit of the block on

// The bits of eight consecutive quads, in element order. Same function as philox_quad in base/philox.h. Each lane holds
// one word in its lower half; the upper half is never read.
void draw(const DropoutMask& mask, std::uint64_t first_quad, Drawn& bits) {
  const Wide lane = {0, 1, 2, 3, 4, 5, 6, 7}, left = Wide{} + 0xD2511F53U, right = Wide{} + 0xCD9E8D57U;
  Wide c0 = lane + first_quad, c1 = c0 >> 32, c2 = Wide{} + mask.step, c3 = Wide{} + mask.site;
  auto key0 = static_cast<std::uint32_t>(mask.seed);
  auto key1 = static_cast<std::uint32_t>(mask.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Wide product0 = multiply_lower(c0, left), product1 = multiply_lower(c2, right);
    c0 = (product1 >> 32) ^ c1 ^ key0;
    c1 = product1;
    c2 = (product0 >> 32) ^ c3 ^ key1;
    c3 = product0;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  constexpr std::uint64_t kLow = 0xffffffffU;
  const Wide first = (c0 & kLow) | (c1 << 32), second = (c2 & kLow) | (c3 << 32);
  const std::array<Wide, 2> ordered = {__builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11),
                                       __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15)};
  // The lower half of a word comes first in memory, and so does its element.
  static_assert(std::endian::native == std::endian::little && sizeof ordered == kBlock * sizeof bits[0]);
  std::memcpy(bits.data(), ordered.data(), sizeof ordered);
}

// y = (bits < threshold ? 0 : x·scale) (+ residual).
template <bool kResidual, class T>
void drop(std::int64_t n, const std::uint16_t* bits, const kernels::DropoutChance& chance, const T* x,
          const T* residual, T* y) {
  for_vectors(n, [&](std::int64_t i, auto lanes) {
    Halves own;
    std::memcpy(&own, bits + i, sizeof own);
    // As signed numbers, which AVX2 can compare.
    const auto dropped = lanes_cast<Ints>(widen_words(own)) < static_cast<std::int32_t>(chance.threshold);
    Floats result = dropped ? Floats{} : lanes.load(x + i) * chance.scale;
    if constexpr (kResidual) result += lanes.load(residual + i);
    lanes.store(y + i, result);
  });
}

}  // namespace

void dropout(Workers& workers, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y) {
  const Matrix& base = residual != nullptr ? *residual : x;
  const kernels::DropoutChance chance = kernels::dropout_chance(mask.p);
  with_element_type(common_dtype(x, base, y), [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, x.rows, x.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* in = elements<T>(x, row) + begin;
      const T* extra = elements<T>(base, row) + begin;
      T* out = elements<T>(y, row) + begin;
      const std::int64_t piece = mask.global_row(row) * mask.parts + mask.part;
      const auto element = static_cast<std::uint64_t>(piece * x.cols + begin);
      Drawn bits{};
      for (std::int64_t i = 0; i < n;) {
        const std::uint64_t next = element + static_cast<std::uint64_t>(i);
        const auto offset = static_cast<std::int64_t>(next % kBlock);
        const std::int64_t count = std::min(kBlock - offset, n - i);
        draw(mask, next / kBlock * kQuads, bits);
        if (residual != nullptr) {
          drop<true>(count, bits.data() + offset, chance, in + i, extra + i, out + i);
        } else {
          drop<false>(count, bits.data() + offset, chance, in + i, extra + i, out + i);
        }
        i += count;
      }
    });
  });
}

}  // namespace weft::cpu
