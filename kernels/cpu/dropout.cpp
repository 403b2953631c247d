// Dropout with sixteen Philox lanes at a time; see dropout.h.
#include "kernels/cpu/dropout.h"

#include <array>

#include "base/philox.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

using Wide = std::uint64_t __attribute__((vector_size(64)));

constexpr std::int64_t kBlock = 32;  // elements that one call of draw() covers: eight quads

// The words of eight consecutive quads, in element order. Same function as philox_quad in base/philox.h.
void draw(const DropoutMask& mask, std::uint64_t first_quad, std::array<Words, 2>& words) {
  constexpr std::uint64_t kLow = 0xffffffffU;
  const Wide lane = {0, 1, 2, 3, 4, 5, 6, 7};
  const Wide quad = lane + first_quad;
  Wide c0 = quad & kLow, c1 = quad >> 32, c2 = Wide{} + mask.step, c3 = Wide{} + mask.site;
  auto key0 = static_cast<std::uint32_t>(mask.seed);
  auto key1 = static_cast<std::uint32_t>(mask.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Wide product0 = c0 * std::uint64_t{0xD2511F53U}, product1 = c2 * std::uint64_t{0xCD9E8D57U};
    c0 = (product1 >> 32) ^ c1 ^ key0;
    c1 = product1 & kLow;
    c2 = (product0 >> 32) ^ c3 ^ key1;
    c3 = product0 & kLow;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  const Wide first = c0 | (c1 << 32), second = c2 | (c3 << 32);
  words[0] = lanes_cast<Words>(__builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11));
  words[1] = lanes_cast<Words>(__builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15));
}

// A row's elements begin anywhere in a block of words, so words are kept as numbers and read unaligned.
class Uniforms {
 public:
  Uniforms(const DropoutMask& mask, std::uint64_t first_element) : mask_(mask), next_(first_element) {}

  // Uniform numbers of the next `count` ≤ 16 elements.
  Floats take(std::int64_t count) {
    const std::uint64_t block = next_ / kBlock;
    if (block != block_) fill(block, 0);
    const auto offset = static_cast<std::int64_t>(next_ % kBlock);
    if (offset + count > kBlock) fill(block + 1, kBlock);
    const Floats result = load(values_.data() + offset);
    next_ += static_cast<std::uint64_t>(count);
    if (offset + count > kBlock) {
      std::memcpy(values_.data(), values_.data() + kBlock, kBlock * sizeof(float));
      block_ = block + 1;
    } else {
      block_ = block;
    }
    return result;
  }

 private:
  void fill(std::uint64_t block, std::int64_t at) {
    std::array<Words, 2> words;
    draw(mask_, block * (kBlock / 4), words);
    for (std::int64_t half = 0; half < 2; ++half) {
      const Ints top = lanes_cast<Ints>(words[static_cast<std::size_t>(half)] >> 8);
      store(values_.data() + at + half * kLanes, __builtin_convertvector(top, Floats) * 0x1p-24F);
    }
  }

  const DropoutMask& mask_;
  std::uint64_t next_;
  std::uint64_t block_ = UINT64_MAX;
  std::array<float, 2 * kBlock> values_{};  // the current block and, when a vector straddles its end, the next
};

}  // namespace

void dropout(Workers& workers, const DropoutMask& mask, const Matrix& x, const Matrix* residual, const Matrix& y) {
  const Matrix& base = residual != nullptr ? *residual : x;
  const auto run = [&]<class T>(std::type_identity<T>) {
    const float scale = 1.0F / (1.0F - mask.p);
    for_pieces(workers, x.rows, x.cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      const T* in = elements<T>(x, row) + begin;
      const T* extra = residual != nullptr ? elements<T>(base, row) + begin : nullptr;
      T* out = elements<T>(y, row) + begin;
      const std::int64_t piece = (mask.first_row + row) * mask.parts + mask.part;
      Uniforms uniforms(mask, static_cast<std::uint64_t>(piece * x.cols + begin));
      for_vectors(n, [&](std::int64_t i, auto lanes) {
        const Floats kept = lanes.load(in + i) * scale;
        Floats value = uniforms.take(std::min(kLanes, n - i)) < mask.p ? Floats{} : kept;
        if (extra != nullptr) value += lanes.load(extra + i);
        lanes.store(out + i, value);
      });
    });
  };
  with_element_type(run, x, base, y);
}

}  // namespace weft::cpu
