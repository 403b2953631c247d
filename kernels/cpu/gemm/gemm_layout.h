// A product's shape and how its operands lie: as it is, or as a library is to see it, with operands copied transposed.
// Libraries can be several times slower in one layout than in another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/gemm/matrix.h"

namespace weft::cpu {

/// C[m,n] from op(A) [m,k] and op(B) [k,n]. A is stored [k,m] if trans_a, B [n,k] if trans_b.
struct GemmShape {
  std::int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  bool accumulate = false;  // add to what C holds

  bool operator==(const GemmShape&) const = default;
};

/// What a library is shown: the operands as they are, or A and B each as it is named (n: as op() has it, t:
/// transposed). An operand that lies otherwise is copied first. Both transposed is no choice: libraries do it least
/// well.
enum class GemmLayout : std::uint8_t { own, nn, nt, tn };

/// What the name of a method ends with: " nn", " nt", " tn", nothing for a product's own layout.
std::string_view layout_suffix(GemmLayout layout);
/// Removes such a suffix; own if there is none.
GemmLayout take_layout_suffix(std::string_view& name);

/// The product that a library is shown.
GemmShape shown_as(GemmLayout layout, GemmShape shape);

/// Where copies lie in scratch memory, as the library is shown them: `matrix` without its data, `offset` bytes from the
/// start, a multiple of 256. Rows are a multiple of 128 bytes apart, but not all in the same set of a cache.
struct GemmCopy {
  std::int64_t offset;
  Matrix matrix;
};
struct GemmCopies {
  std::optional<GemmCopy> a, b;
  std::int64_t bytes = 0;
};
GemmCopies copies_for(GemmLayout layout, const GemmShape& shape, DType inputs);

/// Whether a product can be shown so: its own layout by its name "own" alone, another if the copies take at most
/// 256 MiB, since they are reserved for the whole run.
bool layout_fits(GemmLayout layout, const GemmShape& shape, DType inputs);

/// From when on copies can be worth their time.
struct CopyRule {
  std::int64_t least_uses;  // of each copied element: n for A's, m for B's
  double least_flops;       // of the product
};
/// The layouts besides its own that a product may be tried in.
std::vector<GemmLayout> other_layouts(const GemmShape& shape, DType inputs, const CopyRule& rule);

}  // namespace weft::cpu
