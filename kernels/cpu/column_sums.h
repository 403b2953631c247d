// Sums over rows (gradients of biases and norm weights): row chunks make partial sums, which are then added in chunk
// order. The chunks depend on the number of rows only.
#pragma once

#include <cstdint>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {

/// Partial sums of `sums` vectors of `cols` floats each, in Workers::shared_scratch().
///
///   ColumnSums sums(workers, rows, cols, 2);
///   sums.accumulate([&](std::int64_t row, float* partial) { add to partial[0 .. 2·cols) });
///   sums.combine(0, dweight, accumulate);  sums.combine(1, dbias, accumulate);
class ColumnSums {
 public:
  static Scratch scratch(std::int64_t rows, std::int64_t cols, std::int64_t sums) {
    return {0, static_cast<std::size_t>(ceil_div(rows, rows_per_chunk(rows))) * ScratchParts::bytes(sums * cols)};
  }

  ColumnSums(Workers& workers, std::int64_t rows, std::int64_t cols, std::int64_t sums)
      : workers_(workers),
        rows_(rows),
        cols_(cols),
        stride_(round_up(sums * cols, kLanes)),
        partials_(ScratchParts(workers.shared_scratch()).floats(0)) {}

  /// Calls add(row, partial) for each row, in order within a chunk.
  template <class Add>
  void accumulate(const Add& add) {
    const std::int64_t per_chunk = rows_per_chunk(rows_);
    workers_.run(ceil_div(rows_, per_chunk), [&](std::int64_t chunk) {
      float* partial = partials_ + chunk * stride_;
      std::fill_n(partial, stride_, 0.0F);
      const std::int64_t end = std::min(rows_, (chunk + 1) * per_chunk);
      for (std::int64_t row = chunk * per_chunk; row < end; ++row) add(row, partial);
    });
  }

  /// out[cols] (+)= vector `which` of the partial sums.
  void combine(std::int64_t which, float* out, bool accumulate) {
    const std::int64_t chunks = ceil_div(rows_, rows_per_chunk(rows_));
    constexpr std::int64_t kColumns = 1024;
    workers_.run(ceil_div(cols_, kColumns), [&](std::int64_t block) {
      const std::int64_t begin = block * kColumns;
      const float* partial = partials_ + which * cols_ + begin;
      for_vectors(std::min(kColumns, cols_ - begin), [&](std::int64_t i, auto lanes) {
        Floats total = lanes.load(partial + i);
        for (std::int64_t chunk = 1; chunk < chunks; ++chunk) total += lanes.load(partial + chunk * stride_ + i);
        lanes.store(out + begin + i, accumulate ? lanes.load(out + begin + i) + total : total);
      });
    });
  }

 private:
  static std::int64_t rows_per_chunk(std::int64_t rows) { return std::max<std::int64_t>(16, ceil_div(rows, 32)); }

  Workers& workers_;
  std::int64_t rows_, cols_, stride_;
  float* partials_;
};

}  // namespace weft::cpu
