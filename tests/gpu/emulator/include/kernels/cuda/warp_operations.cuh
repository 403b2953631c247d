// Replaces the header of this name: the effect of its PTX instructions, by the fragment tables of the PTX ISA.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "tests/gpu/emulator/block.h"

namespace weft::cuda {

struct ProductLane {
  float (*sums)[4];
  const std::uint32_t (*a)[4];
  std::uint32_t b[2];
};
inline double half_of(std::uint32_t pair, int high) {
  return __uint_as_float(high != 0 ? pair & 0xffff0000U : pair << 16);
}
inline void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  ProductLane lane{&sums, &a, {b0, b1}};
  emulator::with_warp(
      [](std::span<void* const> lanes) {
        const auto at = [&](int l) { return *static_cast<const ProductLane*>(lanes[static_cast<std::size_t>(l)]); };
        double left[16][16], right[16][8];
        for (int l = 0; l < 32; ++l) {
          for (int i = 0; i < 8; ++i) {
            const int row = l / 4 + i / 2 % 2 * 8, col = l % 4 * 2 + i % 2 + i / 4 * 8;
            left[row][col] = half_of((*at(l).a)[i / 2], i % 2);
          }
          for (int i = 0; i < 4; ++i) right[l % 4 * 2 + i % 2 + i / 2 * 8][l / 4] = half_of(at(l).b[i / 2], i % 2);
        }
        for (int l = 0; l < 32; ++l) {
          for (int i = 0; i < 4; ++i) {
            const int row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2;
            float& sum = (*at(l).sums)[i];
            double total = static_cast<double>(sum);
            for (int k = 0; k < 16; ++k) total += left[row][k] * right[k][col];
            sum = static_cast<float>(total);
          }
        }
      },
      &lane);
}

struct MatrixLane {
  std::uint32_t (*to)[4];
  const __nv_bfloat16* row;
};
template <bool kTransposed>
void load_matrices_of(std::uint32_t (&to)[4], const __nv_bfloat16* row) {
  MatrixLane lane{&to, row};
  emulator::with_warp(
      [](std::span<void* const> lanes) {
        const auto at = [&](int l) { return *static_cast<const MatrixLane*>(lanes[static_cast<std::size_t>(l)]); };
        for (int l = 0; l < 32; ++l) {
          for (int i = 0; i < 4; ++i) {
            __nv_bfloat16 pair[2];
            for (int k = 0; k < 2; ++k) {
              const int major = l / 4, minor = l % 4 * 2 + k;
              pair[k] = kTransposed ? at(i * 8 + minor).row[major] : at(i * 8 + major).row[minor];
            }
            std::memcpy(&(*at(l).to)[i], pair, sizeof pair);
          }
        }
      },
      &lane);
}
inline void load_matrices(std::uint32_t (&to)[4], const __nv_bfloat16* row) {
  load_matrices_of<false>(to, row);
}
inline void load_matrices_transposed(std::uint32_t (&to)[4], const __nv_bfloat16* row) {
  load_matrices_of<true>(to, row);
}

template <int kBytes>
void copy_async(void* to, const void* from, bool there) {
  static_assert(kBytes == 4 || kBytes == 16);
  emulator::begin_copy(to, from, there ? kBytes : 0, there ? 0 : kBytes);
}
inline void commit_copies() {
  emulator::commit_copies();
}
template <int kLeft>
void wait_for_copies() {
  emulator::wait_for_copies(kLeft);
}

}  // namespace weft::cuda
