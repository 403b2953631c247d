#include "graph/tensor.h"

#include <array>
#include <functional>
#include <numeric>

namespace weft::graph {

std::string_view to_string(Role role) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"parameter", "gradient", "optimizer_state", "scalar", "input", "cache", "activation", "gathered", "workspace"});
  static_assert(kNames.size() == kRoles);
  return kNames.at(static_cast<std::size_t>(role));
}

std::int64_t Tensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t Tensor::bytes() const {
  return elements() * static_cast<std::int64_t>(size_of(dtype));
}

namespace {

// Two views as column windows of one matrix whose rows are `stride` elements apart.
struct Window {
  std::int64_t row_begin, row_end, col_begin, col_end;
};

bool as_window(const View& view, std::int64_t stride, Window& window) {
  const std::int64_t col = view.offset % stride;
  if (col + view.cols > stride) return false;
  if (view.rows > 1 && view.row_stride != stride) return false;
  window = {view.offset / stride, view.offset / stride + view.rows, col, col + view.cols};
  return true;
}

bool as_windows(const View& a, const View& b, Window& wa, Window& wb) {
  const std::int64_t stride = a.rows > 1 ? a.row_stride : b.row_stride;
  return stride > 0 && as_window(a, stride, wa) && as_window(b, stride, wb);
}

}  // namespace

bool overlaps(const View& a, const View& b) {
  if (a.tensor != b.tensor || a.elements() == 0 || b.elements() == 0) return false;
  if (a.offset >= b.end() || b.offset >= a.end()) return false;
  if (a.contiguous() && b.contiguous()) return true;
  Window wa, wb;
  if (!as_windows(a, b, wa, wb)) return true;
  return wa.row_begin < wb.row_end && wb.row_begin < wa.row_end && wa.col_begin < wb.col_end &&
         wb.col_begin < wa.col_end;
}

bool covers(const View& outer, const View& inner) {
  if (outer.tensor != inner.tensor) return false;
  if (inner.elements() == 0) return true;
  if (outer.offset > inner.offset || outer.end() < inner.end()) return false;
  if (outer.contiguous()) return true;
  Window wo, wi;
  if (!as_windows(outer, inner, wo, wi)) return false;
  return wo.row_begin <= wi.row_begin && wi.row_end <= wo.row_end && wo.col_begin <= wi.col_begin &&
         wi.col_end <= wo.col_end;
}

}  // namespace weft::graph
