// Grouped products over the packed engine; see grouped_gemm.h. It needs no preparation, and reads each matrix once.
#include "kernels/cpu/experts/grouped_gemm.h"

#include <algorithm>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// Up to this many rows, x·Wᵀ reads each weight once, at memory speed, instead of packing it first.
constexpr std::int64_t kDotRows = 4;

// Of a slice. A group has few rows, so that reading them again for every slice would take as long as the product.
constexpr std::int64_t kSliceCols = 384;

Matrix rows_of(const Matrix& matrix, std::int64_t first, std::int64_t rows) {
  Matrix part = matrix;
  part.data = static_cast<std::byte*>(matrix.data) +
              first * matrix.row_stride * static_cast<std::int64_t>(size_of(matrix.dtype));
  part.rows = rows;
  return part;
}

void multiply_few_rows(Workers& workers, const GemmShape& shape, const GemmArguments& as) {
  with_element_type(common_dtype(as.a, as.b, as.c), [&]<class T>(std::type_identity<T>) {
    for_rows(workers, shape.n, shape.k, [&](std::int64_t col) {
      for (std::int64_t row = 0; row < shape.m; ++row) {
        elements<T>(as.c, row)[col] = T(sum_of(
            shape.k, [](Floats x, Floats w) { return x * w; }, static_cast<const T*>(elements<T>(as.a, row)),
            static_cast<const T*>(elements<T>(as.b, col))));
      }
    });
  });
}

PackedGemm packed(const GemmShape& shape, const GemmArguments& as, PackedUnit unit) {
  return {shape, as, shape.m <= kPackedRowsAtOnce ? shape.m : 64, kSliceCols, unit};
}

void multiply(Workers& workers, const GemmShape& shape, const GemmArguments& as, PackedUnit bf16) {
  if (!shape.trans_a && shape.trans_b && shape.m <= kDotRows) return multiply_few_rows(workers, shape, as);
  packed(shape, as, packed_unit(as.a.dtype, bf16)).run(workers);
}

// Enough for products of n columns with at most so many rows and so deep. Buffers grow with the rows until they are
// divided (kPackedRowsAtOnce), and with the depth until it is.
Scratch most_scratch(const GemmShape& most, DType inputs, DType output, PackedUnit bf16) {
  Scratch scratch;
  if (most.m == 0 || most.k == 0) return scratch;
  const PackedUnit unit = packed_unit(inputs, bf16);
  GemmArguments arguments{};
  arguments.a.dtype = arguments.b.dtype = inputs, arguments.c.dtype = output;
  for (const std::int64_t rows : {std::min(most.m, kPackedRowsAtOnce), std::min(most.m, 2 * kPackedRowsAtOnce)}) {
    for (const std::int64_t depth :
         {most.k, std::min(most.k, packed_block(unit)), std::min(most.k, kPackedBlocks * packed_block(unit))}) {
      GemmShape shape = most;
      shape.m = rows, shape.k = depth;
      scratch = larger(scratch, packed(shape, arguments, unit).scratch());
    }
  }
  return scratch;
}

template <class Group>
void for_groups(const Matrix& offsets, const Group& group) {
  const std::int32_t* const begin = offsets.i32();
  for (std::int64_t g = 0; g + 1 < offsets.cols; ++g) group(g, begin[g], begin[g + 1] - begin[g]);
}

}  // namespace

void grouped_gemm(Workers& workers, bool trans_b, const Matrix& a, const Matrix& b, const Matrix& offsets,
                  const Matrix& c, PackedUnit bf16) {
  const std::int64_t b_rows = trans_b ? c.cols : a.cols;
  for_groups(offsets, [&](std::int64_t g, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    multiply(workers, {rows, c.cols, a.cols, false, trans_b},
             {rows_of(a, first, rows), rows_of(b, g * b_rows, b_rows), rows_of(c, first, rows), {}}, bf16);
  });
}

Scratch grouped_gemm_scratch(std::int64_t rows, std::int64_t n, std::int64_t k, DType dtype, PackedUnit bf16) {
  return most_scratch({rows, n, k}, dtype, dtype, bf16);
}

void grouped_gemm_gradient(Workers& workers, const Matrix& a, const Matrix& b, const Matrix& offsets, const Matrix& c,
                           bool accumulate, PackedUnit bf16) {
  for_groups(offsets, [&](std::int64_t g, std::int64_t first, std::int64_t rows) {
    const Matrix gradient = rows_of(c, g * a.cols, a.cols);
    if (rows > 0) {
      multiply(workers, {a.cols, b.cols, rows, true, false, accumulate},
               {rows_of(a, first, rows), rows_of(b, first, rows), gradient, {}}, bf16);
    } else if (!accumulate) {
      zero(workers, gradient);
    }
  });
}

Scratch grouped_gemm_gradient_scratch(std::int64_t rows, std::int64_t m, std::int64_t n, DType dtype, PackedUnit bf16) {
  return most_scratch({m, n, rows, true}, dtype, DType::f32, bf16);
}

}  // namespace weft::cpu
