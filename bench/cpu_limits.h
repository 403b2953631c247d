// For benchmarks of CPU kernels: memory for their arguments, and the rate of multiply-adds that bounds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "base/buffer.h"
#include "bench/multiply_adds.h"
#include "bench/program.h"
#include "kernels/cpu/chunks.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// Operations a second of multiply-adds in registers on all workers, measured for about 4 ms.
inline double fma_rate(Workers& workers) {
  constexpr std::int64_t kRepeats = 100000;
  const std::int64_t chunks = std::int64_t{16} * workers.threads();
  const bench::Stopwatch watch;
  workers.run(chunks, [&](std::int64_t) { bench::multiply_add(kRepeats); });
  return static_cast<double>(chunks * kRepeats) * bench::kFlopsARepeat / watch.seconds();
}

/// Memory for the arguments of one case at a time, in large pages like a program's tensors.
class CasePool {
 public:
  explicit CasePool(std::int64_t bytes) : memory_(bytes) {}

  std::size_t used() const { return used_; }
  void release(std::size_t used) { used_ = used; }
  std::byte* take(std::int64_t bytes) {
    std::byte* part = memory_.data() + used_;
    // The offset keeps rows of two arguments out of the same cache sets.
    used_ += static_cast<std::size_t>(round_up(bytes, 4096) + 2112);
    if (used_ > static_cast<std::size_t>(memory_.size())) throw std::bad_alloc();
    return part;
  }

  /// Random numbers between −3 and 3, or between 0 and 3 if `positive`.
  Matrix floats(DType dtype, std::int64_t rows, std::int64_t cols, bool positive = false) {
    const Matrix matrix{take(rows * cols * static_cast<std::int64_t>(size_of(dtype))), rows, cols, cols, dtype};
    std::uint32_t state = 12345;
    constexpr std::int64_t kPeriod = 1 << 16;
    std::vector<float> pattern(kPeriod);
    for (float& value : pattern) {
      state = state * 1664525U + 1013904223U;
      value = (static_cast<float>(state >> 8) * 0x1p-24F - (positive ? 0.0F : 0.5F)) * (positive ? 3.0F : 6.0F);
    }
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      if (dtype == DType::f32) matrix.f32()[i] = pattern[static_cast<std::size_t>(i % kPeriod)];
      if (dtype == DType::bf16) matrix.b16()[i] = bf16(pattern[static_cast<std::size_t>(i % kPeriod)]);
    }
    return matrix;
  }

  Matrix integers(std::int64_t count, std::int64_t below) {
    const Matrix matrix{take(count * 4), 1, count, count, DType::i32};
    for (std::int64_t i = 0; i < count; ++i) {
      matrix.i32()[i] = static_cast<std::int32_t>((i * 2654435761 + i / 7) % below);
    }
    return matrix;
  }

 private:
  Buffer memory_;
  std::size_t used_ = 0;
};

}  // namespace weft::cpu
