// The shape of a product and the layout of its operands: as they are, or with operands copied transposed for a library.
// Libraries can be several times slower in one layout than in another.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/epilogue.h"
#include "kernels/cpu/matrix.h"

namespace weft::cpu {

/// C[m,n] from op(A) [m,k] and op(B) [k,n]. A is stored [k,m] if trans_a, B [n,k] if trans_b.
struct GemmShape {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  bool accumulate = false;  // add to the values in C

  bool operator==(const GemmShape&) const = default;
};

/// The properties of a matrix product that determine its speed, and which of a library's algorithms exist.
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false, accumulate = false, has_bias = false;
  DType inputs = DType::f32, output = DType::f32;
  std::array<std::int64_t, 3> strides = {};  // elements between the rows of A, B and C as they are stored
  Epilogue epilogue = Epilogue::none;        // the CPU's products are asked for without
  bool tf32 = false;                         // of a GPU: inputs of f32 are rounded to TF32

  auto operator<=>(const GemmProblem&) const = default;  // NOLINT(modernize-use-nullptr): see base/id.h
  GemmShape shape() const { return {m, n, k, trans_a, trans_b, accumulate}; }
};

/// The layout in which a library reads the operands: `own` as they are; otherwise A and B as named (n: as in op(), t:
/// transposed), after copying an operand whose layout differs. There is no "tt": libraries are slowest with both
/// transposed.
enum class GemmLayout : std::uint8_t { own, nn, nt, tn };

/// The suffix of a method's name: " nn", " nt", " tn", or nothing for a product's own layout.
std::string_view layout_suffix(GemmLayout layout);
/// Removes the layout suffix from `name`; own if there is none.
GemmLayout take_layout_suffix(std::string_view& name);

/// The product in the layout that a library reads.
GemmShape shown_as(GemmLayout layout, GemmShape shape);

/// A copy in scratch memory: `matrix` as the library reads it, without data, and `offset` in bytes from the start, a
/// multiple of 256. Rows are a multiple of 128 bytes apart, but don't all fall into the same cache set.
struct GemmCopy {
  std::int64_t offset;
  Matrix matrix;
};
struct GemmCopies {
  std::optional<GemmCopy> a, b;
  std::int64_t bytes = 0;
};
GemmCopies copies_for(GemmLayout layout, const GemmShape& shape, DType inputs);

/// Whether a product may use this layout. Its own layout must be called "own"; another layout fits if its copies take
/// at most 256 MiB, since they are reserved for the whole run.
bool layout_fits(GemmLayout layout, const GemmShape& shape, DType inputs);

/// The limits above which copies can be worth their time.
struct CopyRule {
  std::int64_t least_uses;  // of each copied element: n for an element of A, m for B
  double least_flops;       // of the product
};
/// The other layouts in which a product may be tried.
std::vector<GemmLayout> other_layouts(const GemmShape& shape, DType inputs, const CopyRule& rule);

}  // namespace weft::cpu
