// What the kernels of grouped products share: where each group's rows are, and which of them a block computes. How many
// rows a group has stands in device memory, so products start as many blocks as any numbers can need.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace weft::cuda {

/// Some rows of a group: its rows from `first` on, `count` of them or, if that is more, a tile. None if not above 0.
struct GroupTile {
  std::int64_t group, first, count;
};

/// Where each group's rows begin, and where the last one's end. After a collective that was given up, `offsets` has any
/// numbers; what is read and written stays within the `rows` of the buffers.
struct GroupRows {
  const std::int32_t* offsets;
  std::int64_t rows, groups;

  __device__ std::int64_t first(std::int64_t group) const {
    const std::int64_t at = offsets[group];
    return at < 0 ? 0 : at < rows ? at : rows;
  }
  __device__ std::int64_t count(std::int64_t group) const { return first(group + 1) - first(group); }

  /// One of tiles(kHeight). Group g has those from first(g) / kHeight + g on, up to the next group's: as many as its
  /// rows fill, or one more. So nothing is summed over groups.
  template <int kHeight>
  __device__ GroupTile tile(std::int64_t index) const {
    std::int64_t group = 0;  // the last one whose tiles begin at `index` or before, among those below `end`
    for (std::int64_t end = groups; end - group > 1;) {
      const std::int64_t middle = (group + end) / 2;
      (first(middle) / kHeight + middle <= index ? group : end) = middle;
    }
    const std::int64_t row = (index - first(group) / kHeight - group) * kHeight;
    return {group, row, row < 0 ? 0 : count(group) - row};
  }
  unsigned tiles(int height) const { return static_cast<unsigned>(rows / height + groups); }
};

/// The same products on tensor cores, for matrices of bf16 that are vectorizable(). `expected`: the rows of all groups.
void mma_grouped_gemm(const Launch& launch, bool trans_b, const Matrix& a, const Matrix& b, const Matrix& offsets,
                      const Matrix& c, std::int64_t expected);
void mma_grouped_gemm_gradient(const Launch& launch, const Matrix& a, const Matrix& b, const Matrix& offsets,
                               const Matrix& c, bool accumulate);

}  // namespace weft::cuda
