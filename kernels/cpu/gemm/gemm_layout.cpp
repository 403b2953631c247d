// Names of layouts, and the copies that they need; see gemm_layout.h.
#include "kernels/cpu/gemm/gemm_layout.h"

#include <array>
#include <utility>

#include "kernels/cpu/chunks.h"

namespace weft::cpu {
namespace {

constexpr double kMostCopiedBytes = 256.0 * (1 << 20);

constexpr std::array<std::pair<GemmLayout, std::string_view>, 3> kSuffixes = {{
    {GemmLayout::nn, " nn"},
    {GemmLayout::nt, " nt"},
    {GemmLayout::tn, " tn"},
}};

struct Copied {
  bool a, b;
};
Copied copied(GemmLayout layout, const GemmShape& shape) {
  const GemmShape shown = shown_as(layout, shape);
  return {shown.trans_a != shape.trans_a, shown.trans_b != shape.trans_b};
}

// Rows whose length is a power of two would all compete for few cache sets.
std::int64_t copied_stride(std::int64_t cols, std::int64_t element) {
  constexpr std::int64_t kLine = 128, kSets = 1024;  // bytes
  const std::int64_t bytes = round_up(cols * element, kLine);
  return (bytes % kSets == 0 ? bytes + kLine : bytes) / element;
}

}  // namespace

std::string_view layout_suffix(GemmLayout layout) {
  for (const auto& [known, suffix] : kSuffixes) {
    if (known == layout) return suffix;
  }
  return "";
}

GemmLayout take_layout_suffix(std::string_view& name) {
  for (const auto& [layout, suffix] : kSuffixes) {
    if (!name.ends_with(suffix)) continue;
    name.remove_suffix(suffix.size());
    return layout;
  }
  return GemmLayout::own;
}

GemmShape shown_as(GemmLayout layout, GemmShape shape) {
  if (layout == GemmLayout::own) return shape;
  shape.trans_a = layout == GemmLayout::tn;
  shape.trans_b = layout == GemmLayout::nt;
  return shape;
}

GemmCopies copies_for(GemmLayout layout, const GemmShape& shape, DType inputs) {
  constexpr std::int64_t kBoundary = 256;
  const auto element = static_cast<std::int64_t>(size_of(inputs));
  GemmCopies copies;
  const auto add = [&](bool transposed, std::int64_t rows, std::int64_t cols) {
    if (transposed) std::swap(rows, cols);
    const Matrix matrix{nullptr, rows, cols, copied_stride(cols, element), inputs};
    const GemmCopy copy{copies.bytes, matrix};
    copies.bytes += round_up(rows * matrix.row_stride * element, kBoundary);
    return copy;
  };
  const GemmShape shown = shown_as(layout, shape);
  const auto [a, b] = copied(layout, shape);
  if (a) copies.a = add(shown.trans_a, shape.m, shape.k);
  if (b) copies.b = add(shown.trans_b, shape.k, shape.n);
  return copies;
}

bool layout_fits(GemmLayout layout, const GemmShape& shape, DType inputs) {
  if (layout == GemmLayout::own) return true;
  const auto [a, b] = copied(layout, shape);
  if (!a && !b) return false;
  // In floating point, since a file may hold sizes whose product overflows an integer. Rows are padded to a multiple of
  // 128 bytes, plus 128 bytes more.
  const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  const auto element = static_cast<double>(size_of(inputs));
  const auto bytes = [&](bool transposed, double rows, double cols) {
    if (transposed) std::swap(rows, cols);
    return rows * (cols * element + 256);
  };
  const GemmShape shown = shown_as(layout, shape);
  return (a ? bytes(shown.trans_a, m, k) : 0) + (b ? bytes(shown.trans_b, k, n) : 0) <= kMostCopiedBytes;
}

std::vector<GemmLayout> other_layouts(const GemmShape& shape, DType inputs, const CopyRule& rule) {
  const double flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  std::vector<GemmLayout> layouts;
  for (const GemmLayout layout : {GemmLayout::nn, GemmLayout::nt, GemmLayout::tn}) {
    const auto [a, b] = copied(layout, shape);
    const bool used = (!a || shape.n >= rule.least_uses) && (!b || shape.m >= rule.least_uses);
    if (used && flops >= rule.least_flops && layout_fits(layout, shape, inputs)) layouts.push_back(layout);
  }
  return layouts;
}

}  // namespace weft::cpu
