// Grouped products over the packed engine; see grouped_gemm.h. It needs no preparation, and reads each matrix once.
#include "kernels/cpu/experts/grouped_gemm.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/chunks.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/packed_gemm.h"
#include "kernels/cpu/simd.h"

namespace weft::cpu {
namespace {

// Up to this many rows, x·Wᵀ reads each weight once, at memory speed, instead of packing it first.
constexpr std::int64_t kDotRows = 4;

// Groups run together while they have at most this many rows, each rounded up to whole tiles. Fewer if rows are long,
// since all of a row may be packed.
std::int64_t rows_together(const GemmShape& shape) {
  constexpr std::int64_t kMost = 2048, kLeast = 512, kElements = 4 << 20;
  return shape.trans_a ? kMost : std::clamp(kElements / std::max<std::int64_t>(shape.k, 1), kLeast, kMost);
}

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

// A product that runs by itself.
PackedGemm packed(const GemmShape& shape, const GemmArguments& as, PackedUnit unit) {
  return {shape, as, shape.m <= kPackedRowsAtOnce ? shape.m : 64, 384, unit};
}

// Runs products of groups with `rows` rows: those of few rows wait for others, since threads share several products
// more evenly than one.
class Groups {
 public:
  Groups(Workers& workers, PackedUnit unit) : workers_(workers), unit_(unit) {}

  void add(const GemmShape& shape, const GemmArguments& as, std::int64_t rows) {
    // AMX multiplies so fast that rows of other products, packed before, would leave it waiting for farther caches.
    const bool alone = unit_ == PackedUnit::amx && !shape.trans_a && !shape.trans_b;
    if (alone || rows > kPackedRowsAtOnce) return packed(shape, as, unit_).run(workers_);
    const std::int64_t padded = round_up(rows, tile_shape(unit_).rows);
    const PackedGemm product = PackedGemm::one_of_several(shape, as, unit_);
    const bool full = rows_ + padded > rows_together(shape) || count_ == products_.size();
    if (count_ > 0 && (full || !product.runs_beside(products_[0]))) run();
    products_[count_++] = product, rows_ += padded;
  }
  void run() {
    if (count_ > 0) PackedGemm::run_together(workers_, {products_.data(), count_});
    count_ = 0, rows_ = 0;
  }

 private:
  Workers& workers_;
  PackedUnit unit_;
  std::array<PackedGemm, PackedGemm::kMostTogether> products_;
  std::size_t count_ = 0;
  std::int64_t rows_ = 0;
};

// Enough for products of n columns with at most so many rows and so deep. Buffers grow with the rows until they are
// divided (kPackedRowsAtOnce), and with the depth until it is.
Scratch most_scratch(const GemmShape& most, DType inputs, DType output, PackedUnit bf16) {
  Scratch scratch;
  if (most.m == 0 || most.k == 0) return scratch;
  const PackedUnit unit = packed_unit(inputs, bf16);
  GemmArguments arguments{};
  arguments.a.dtype = arguments.b.dtype = inputs, arguments.c.dtype = output;
  // Of products that run together one buffer lies beside the other; each grows with its group's tiles of rows.
  const std::int64_t tile_rows = tile_shape(unit).rows;
  const std::int64_t tiles = std::min(most.trans_a ? most.k : most.m, rows_together(most) / tile_rows);
  for (const bool trans_b : {false, true}) {
    GemmShape shape = most;
    shape.trans_b = trans_b && !most.trans_a;
    (most.trans_a ? shape.k : shape.m) = tile_rows;
    const Scratch of_tile = PackedGemm::one_of_several(shape, arguments, unit).scratch();
    scratch = larger(scratch, {of_tile.worker_bytes, of_tile.shared_bytes * static_cast<std::size_t>(tiles)});
    for (const std::int64_t rows : {std::min(most.m, kPackedRowsAtOnce), std::min(most.m, 2 * kPackedRowsAtOnce)}) {
      for (const std::int64_t depth :
           {most.k, std::min(most.k, packed_block(unit)), std::min(most.k, kPackedBlocks * packed_block(unit))}) {
        shape.m = rows, shape.k = depth;
        scratch = larger(scratch, packed(shape, arguments, unit).scratch());
        const Scratch of_one = PackedGemm::one_of_several(shape, arguments, unit).scratch();
        scratch = larger(scratch, {of_one.worker_bytes, most.trans_a ? 0 : 2 * of_one.shared_bytes});
      }
    }
    // As many rows as a turned product may have.
    shape.m = std::min(most.m, std::int64_t{512}), shape.k = most.k;
    scratch = larger(scratch, PackedGemm::one_of_several(shape, arguments, unit).scratch());
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
  Groups groups(workers, packed_unit(a.dtype, bf16));
  for_groups(offsets, [&](std::int64_t g, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    const GemmShape shape{rows, c.cols, a.cols, false, trans_b};
    const GemmArguments as{rows_of(a, first, rows), rows_of(b, g * b_rows, b_rows), rows_of(c, first, rows), {}};
    if (trans_b && rows <= kDotRows) return multiply_few_rows(workers, shape, as);
    groups.add(shape, as, rows);
  });
  groups.run();
}

Scratch grouped_gemm_scratch(std::int64_t rows, std::int64_t n, std::int64_t k, DType dtype, PackedUnit bf16) {
  return most_scratch({rows, n, k}, dtype, dtype, bf16);
}

void grouped_gemm_gradient(Workers& workers, const Matrix& a, const Matrix& b, const Matrix& offsets, const Matrix& c,
                           bool accumulate, PackedUnit bf16) {
  Groups groups(workers, packed_unit(a.dtype, bf16));
  for_groups(offsets, [&](std::int64_t g, std::int64_t first, std::int64_t rows) {
    const Matrix gradient = rows_of(c, g * a.cols, a.cols);
    if (rows > 0) {
      groups.add({a.cols, b.cols, rows, true, false, accumulate},
                 {rows_of(a, first, rows), rows_of(b, first, rows), gradient, {}}, rows);
    } else if (!accumulate) {
      zero(workers, gradient);
    }
  });
  groups.run();
}

Scratch grouped_gemm_gradient_scratch(std::int64_t rows, std::int64_t m, std::int64_t n, DType dtype, PackedUnit bf16) {
  return most_scratch({m, n, rows, true}, dtype, DType::f32, bf16);
}

}  // namespace weft::cpu
