// Sums over rows (gradients of biases and norm weights). Each chunk of rows makes partial sums, which are then added in
// chunk order. The chunks depend only on the number of rows.
#pragma once

#include <cstdint>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

inline std::int64_t column_sum_rows(std::int64_t rows) {
  return std::max<std::int64_t>(16, ceil_div(rows, 32));
}
/// The distance between two vectors of partial sums: `cols` rounded up to whole pairs of vectors.
inline std::int64_t column_sum_stride(std::int64_t cols) {
  return round_up(cols, 2 * kLanes);
}
inline Scratch column_sums_scratch(std::int64_t rows, std::int64_t cols, std::int64_t sums) {
  return {0, static_cast<std::size_t>(ceil_div(rows, column_sum_rows(rows))) *
                 ScratchParts::bytes(sums * column_sum_stride(cols))};
}

/// Partial sums of `sums` vectors of `cols` floats each over rows of T, in Workers::shared_scratch().
///
///   ColumnSums<T> sums(workers, rows, cols, 2);
///   sums.accumulate([&](std::int64_t first, std::int64_t end, float* partial) {
///     for each row: sums.add_to(partial, f, row of x); sums.add_to(partial + sums.stride(), g, row of x, row of y)
///   });
///   sums.combine(0, dweight, accumulate);  sums.combine(1, dbias, accumulate);
///
/// Partial sums are in load_pair's order of elements, which combine() undoes; columns past the end are never read.
template <class T>
class ColumnSums {
 public:
  ColumnSums(Workers& workers, std::int64_t rows, std::int64_t cols, std::int64_t sums)
      : workers_(workers),
        rows_(rows),
        cols_(cols),
        stride_(sums * column_sum_stride(cols)),
        partials_(ScratchParts(workers.shared_scratch()).floats(0)) {}

  /// The distance from one vector of a chunk to the next.
  std::int64_t stride() const { return column_sum_stride(cols_); }

  /// Calls add(first row, end row, partial) for each chunk of rows; its partial sums begin as zero.
  template <class Add>
  void accumulate(const Add& add) {
    const std::int64_t per_chunk = column_sum_rows(rows_);
    workers_.run(ceil_div(rows_, per_chunk), [&](std::int64_t chunk) {
      float* partial = partials_ + chunk * stride_;
      std::fill_n(partial, stride_, 0.0F);
      add(chunk * per_chunk, std::min(rows_, (chunk + 1) * per_chunk), partial);
    });
  }

  /// out[cols] (+)= vector `which` of the partial sums.
  void combine(std::int64_t which, float* out, bool accumulate) {
    const std::int64_t chunks = ceil_div(rows_, column_sum_rows(rows_));
    constexpr std::int64_t kColumns = 1024;
    workers_.run(ceil_div(cols_, kColumns), [&](std::int64_t block) {
      const std::int64_t begin = block * kColumns, end = std::min(cols_, begin + kColumns);
      for (std::int64_t i = begin; i < end; i += 2 * kLanes) {
        const float* partial = partials_ + which * stride() + i;
        Pair total = load_pair(partial);
        for (std::int64_t chunk = 1; chunk < chunks; ++chunk) {
          const Pair more = load_pair(partial + chunk * stride_);
          total.first += more.first, total.second += more.second;
        }
        if (i + 2 * kLanes <= end) total = in_element_order(total, static_cast<const T*>(nullptr));
        alignas(64) float sums[2 * kLanes];
        store_pair(sums, total);
        for_vectors(std::min(2 * kLanes, end - i), [&](std::int64_t j, auto lanes) {
          lanes.store(out + i + j, accumulate ? lanes.load(out + i + j) + lanes.load(sums + j) : lanes.load(sums + j));
        });
      }
    });
  }

  /// partial[j] += f(values of column j in `rows…`); f maps Floats to Floats.
  template <class Function>
  void add_to(float* partial, const Function& f, const auto*... rows) const {
    const auto step = [&](std::int64_t i, int, auto... values) {
      store(partial + i, load(partial + i) + f(values...));
    };
    for_pairs(cols_, step, rows...);
  }

 private:
  Workers& workers_;
  std::int64_t rows_, cols_, stride_;
  float* partials_;
};

}  // namespace weft::cpu
