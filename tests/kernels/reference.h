// Shared by the kernel tests: typed matrices that detect stray writes, comparison with double-precision references, and
// the check that one thread and many give the same bits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/gemm/gemm_method.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu::testing {

using Values = std::vector<double>;

/// The first n numbers that a seed draws from a normal distribution. Drawn numbers are kept: drawing them again for
/// each tensor would take most of the time of tests.
inline Values normal_values(std::int64_t n, std::uint32_t seed, double scale = 1.0) {
  struct Drawn {
    std::mt19937 generator;
    std::normal_distribution<double> normal;
    Values values;
  };
  thread_local std::map<std::uint32_t, Drawn> by_seed;
  auto& [generator, normal, drawn] = by_seed.try_emplace(seed, Drawn{std::mt19937(seed), {}, {}}).first->second;
  while (std::ssize(drawn) < n) drawn.push_back(normal(generator));
  Values values(drawn.begin(), drawn.begin() + n);
  for (double& value : values) value *= scale;
  return values;
}

/// A rows × cols matrix that owns its memory. Every byte begins as 0xff, which is NaN in both float types. This shows a
/// kernel that reads memory which it should only write, and a write into the `padding` elements after each row.
class Tensor {
 public:
  Tensor(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding = 0)
      : dtype_(dtype),
        rows_(rows),
        cols_(cols),
        stride_(cols + padding),
        bytes_(static_cast<std::size_t>(rows * stride_) * size_of(dtype), std::byte{0xff}) {}

  Tensor(DType dtype, std::int64_t rows, std::int64_t cols, const Values& values, std::int64_t padding = 0)
      : Tensor(dtype, rows, cols, padding) {
    assign(values);
  }

  static Tensor random(DType dtype, std::int64_t rows, std::int64_t cols, std::uint32_t seed, double scale = 1.0,
                       std::int64_t padding = 0) {
    return {dtype, rows, cols, normal_values(rows * cols, seed, scale), padding};
  }

  static Tensor integers(DType dtype, const std::vector<std::int64_t>& values) {
    Tensor tensor(dtype, 1, static_cast<std::int64_t>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::i32) tensor.view().i32()[i] = static_cast<std::int32_t>(values[i]);
      if (dtype == DType::i64) tensor.view().i64()[i] = values[i];
    }
    return tensor;
  }

  Matrix view() { return {bytes_.data(), rows_, cols_, stride_, dtype_}; }
  /// Columns [first, first + cols) of all rows.
  Matrix columns(std::int64_t first, std::int64_t cols) {
    return {bytes_.data() + static_cast<std::size_t>(first) * size_of(dtype_), rows_, cols, stride_, dtype_};
  }

  void assign(const Values& values) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t col = 0; col < cols_; ++col) {
        const auto value = static_cast<float>(values[static_cast<std::size_t>(row * cols_ + col)]);
        if (dtype_ == DType::f32) view().f32(row)[col] = value;
        if (dtype_ == DType::bf16) view().b16(row)[col] = bf16(value);
      }
    }
  }

  /// The elements as stored, rounded to the dtype.
  Values values() {
    Values values;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t col = 0; col < cols_; ++col) {
        values.push_back(dtype_ == DType::f32 ? view().f32(row)[col] : static_cast<float>(view().b16(row)[col]));
      }
    }
    return values;
  }

  bool padding_untouched() const {
    const std::size_t used = static_cast<std::size_t>(cols_) * size_of(dtype_);
    const std::size_t stride = static_cast<std::size_t>(stride_) * size_of(dtype_);
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (i % stride >= used && bytes_[i] != std::byte{0xff}) return false;
    }
    return true;
  }

  std::vector<std::byte>& bytes() { return bytes_; }
  DType dtype() const { return dtype_; }

 private:
  DType dtype_;
  std::int64_t rows_, cols_, stride_;
  std::vector<std::byte> bytes_;
};

/// Runs kernel(workers) on one thread and on three, each time from the same contents of `outputs`. The bits must be
/// equal and the padding untouched. The result stays in `outputs`.
template <class Kernel>
void run_on_one_and_three_threads(const Scratch& scratch, const std::vector<Tensor*>& outputs, const Kernel& kernel) {
  std::vector<std::vector<std::byte>> before, first;
  for (Tensor* output : outputs) before.push_back(output->bytes());
  Workers one(1), three(3);
  one.reserve(scratch);
  three.reserve(scratch);
  kernel(one);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    first.push_back(outputs[i]->bytes());
    std::copy(before[i].begin(), before[i].end(), outputs[i]->bytes().begin());
  }
  kernel(three);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(first[i], outputs[i]->bytes()) << "output " << i << " depends on the number of threads";
    EXPECT_TRUE(outputs[i]->padding_untouched()) << "output " << i << " is written outside its view";
  }
}

struct Tolerance {
  double relative, absolute;
  double of_terms = 0;  // of the sum of the absolute values of an element's terms
};

/// fp32: a few rounding errors of sums. bf16: one unit in the last place (rounding itself takes half of it).
inline Tolerance tolerance_of(DType dtype, double absolute = 1e-5) {
  return dtype == DType::bf16 ? Tolerance{0x1p-8, absolute} : Tolerance{1e-5, absolute};
}

/// For attention's output. With pairs of bf16, probabilities are rounded too, by up to 2⁻⁸ of each: of Σ p|v|.
inline Tolerance attention_tolerance(DType dtype, PackedUnit bf16 = widest_bf16_unit()) {
  Tolerance tolerance = tolerance_of(dtype);
  if (dtype == DType::bf16 && bf16 == PackedUnit::pairs) tolerance.of_terms = 0x1p-8;
  return tolerance;
}

/// `terms`: by element, if the tolerance is of them.
inline void expect_close(const Values& actual, const Values& expected, const Tolerance& tolerance,
                         const std::string& what = "", const Values& terms = {}) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  ASSERT_TRUE(tolerance.of_terms == 0 || terms.size() == expected.size()) << what;
  int failures = 0;
  for (std::size_t i = 0; i < actual.size() && failures < 5; ++i) {
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(expected[i]) +
                           (tolerance.of_terms > 0 ? tolerance.of_terms * terms[i] : 0.0);
    const bool close = std::abs(actual[i] - expected[i]) <= allowed;
    EXPECT_TRUE(close) << what << " element " << i << ": " << actual[i] << ", expected " << expected[i];
    failures += close ? 0 : 1;
  }
}

/// C of a product in double precision; `before` holds C's previous values. The inner loop goes along a row, so that its
/// sums don't wait for each other.
inline Values product_in_double(const GemmShape& shape, const Values& a, const Values& b, const Values* bias,
                                const Values& before) {
  const auto m = static_cast<std::size_t>(shape.m), n = static_cast<std::size_t>(shape.n);
  const auto k = static_cast<std::size_t>(shape.k);
  Values result = shape.accumulate ? before : Values(m * n), right = b;
  for (std::size_t i = 0; shape.trans_b && i < right.size(); ++i) right[i] = b[i % n * k + i / n];
  for (std::size_t i = 0; i < m; ++i) {
    double* sums = result.data() + i * n;
    for (std::size_t j = 0; bias != nullptr && j < n; ++j) sums[j] += (*bias)[j];
    for (std::size_t p = 0; p < k; ++p) {
      const double left = a[shape.trans_a ? p * m + i : i * k + p];
      for (std::size_t j = 0; j < n; ++j) sums[j] += left * right[p * n + j];
    }
  }
  return result;
}

/// For each of batch·seq tokens, the position in its sequence at which its document starts. Documents of these lengths
/// follow each other, again and again; they go on from one sequence to the next. Empty without lengths.
inline std::vector<std::int32_t> starts_of_documents(std::int64_t batch, std::int64_t seq,
                                                     const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> starts;
  std::size_t document = 0;
  std::int64_t of_document = 0;
  for (std::int64_t row = 0; !lengths.empty() && row < batch * seq; ++row, ++of_document) {
    if (of_document == lengths[document]) document = (document + 1) % lengths.size(), of_document = 0;
    starts.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, row % seq - of_document)));
  }
  return starts;
}

inline double dot(const Values& a, const Values& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

inline Values plus(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// Tests run for both element types.
class ForFloatTypes : public ::testing::TestWithParam<DType> {};

inline auto both_float_types() {
  return ::testing::Values(DType::f32, DType::bf16);
}
inline std::string type_name(const ::testing::TestParamInfo<DType>& info) {
  return std::string(to_string(info.param));
}

}  // namespace weft::cpu::testing
