// How kernels divide their work: rules from shapes to chunks, and views shared by several arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <type_traits>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

/// The approximate number of elements that one chunk of an elementwise kernel touches: tens of microseconds of work, so
/// that starting a chunk costs little and communication progresses often.
inline constexpr std::int64_t kChunkElements = 32768;

/// First element of a row. T is the matrix's element type: float, bf16 or an integer.
template <class T>
T* elements(const Matrix& matrix, std::int64_t row = 0) {
  return static_cast<T*>(matrix.data) + row * matrix.row_stride;
}

inline std::int64_t count(const Matrix& matrix) {
  return matrix.rows * matrix.cols;
}
inline bool contiguous(const Matrix& matrix) {
  return matrix.rows == 1 || matrix.row_stride == matrix.cols;
}

/// The dtype of all matrices. Throws std::logic_error on mixtures: the builder never makes them.
template <class... Others>
DType common_dtype(const Matrix& first, const Others&... others) {
  if (((others.dtype != first.dtype) || ...)) throw std::logic_error("a kernel's arguments differ in dtype");
  return first.dtype;
}

/// Calls visit(std::type_identity<T>{}) with float or bf16. Throws std::logic_error on integers.
template <class Visit>
void with_element_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::f32:
      return visit(std::type_identity<float>{});
    case DType::bf16:
      return visit(std::type_identity<bf16>{});
    case DType::i32:
    case DType::i64:
      break;
  }
  throw std::logic_error("a kernel's argument is an integer where a float is needed");
}

/// Calls row(r) for every row of a rows × cols kernel; rows are grouped into chunks.
template <class Row>
void for_rows(Workers& workers, std::int64_t rows, std::int64_t cols, const Row& row) {
  if (rows > 0 && rows * std::max<std::int64_t>(1, cols) <= kChunkElements) {  // a single chunk by this rule
    workers.run(1, [&](std::int64_t) {
      for (std::int64_t r = 0; r < rows; ++r) row(r);
    });
    return;
  }
  const std::int64_t per_chunk = std::max<std::int64_t>(1, kChunkElements / std::max<std::int64_t>(1, cols));
  workers.run(ceil_div(rows, per_chunk), [&](std::int64_t chunk) {
    const std::int64_t end = std::min(rows, (chunk + 1) * per_chunk);
    for (std::int64_t r = chunk * per_chunk; r < end; ++r) row(r);
  });
}

/// Calls piece(row, first column, columns) so that the pieces cover rows × cols; long rows are divided.
template <class Piece>
void for_pieces(Workers& workers, std::int64_t rows, std::int64_t cols, const Piece& piece) {
  if (rows == 0 || cols == 0) return;
  if (cols <= kChunkElements) {
    for_rows(workers, rows, cols, [&](std::int64_t row) { piece(row, std::int64_t{0}, cols); });
    return;
  }
  const std::int64_t per_row = ceil_div(cols, kChunkElements);
  workers.run(rows * per_row, [&](std::int64_t chunk) {
    const std::int64_t begin = chunk % per_row * kChunkElements;
    piece(chunk / per_row, begin, std::min(kChunkElements, cols - begin));
  });
}

/// The same matrices with one common shape, for elementwise kernels: one row if all are contiguous, else the shape of
/// the first matrix that isn't. Throws std::logic_error if their element counts differ.
template <class... Matrices>
std::array<Matrix, sizeof...(Matrices)> common_shape(const Matrices&... matrices) {
  std::array<Matrix, sizeof...(Matrices)> views = {matrices...};
  std::int64_t rows = 1, cols = count(views[0]);
  for (const Matrix& view : views) {
    if (count(view) != count(views[0])) throw std::logic_error("elementwise arguments differ in size");
    if (rows == 1 && !contiguous(view)) rows = view.rows, cols = view.cols;
  }
  for (Matrix& view : views) {
    if (contiguous(view)) {
      view.rows = rows, view.cols = cols, view.row_stride = cols;
    } else if (view.rows != rows) {
      throw std::logic_error("elementwise arguments differ in shape");
    }
  }
  return views;
}

/// Calls piece(n, pointers…) with n adjacent elements at one place of each matrix, so that the pieces cover them all.
/// The matrices have one float dtype and equal element counts.
template <class Piece, class... Matrices>
void for_elements(Workers& workers, const Piece& piece, const Matrices&... matrices) {
  const auto views = common_shape(matrices...);
  with_element_type(common_dtype(matrices...), [&]<class T>(std::type_identity<T>) {
    for_pieces(workers, views[0].rows, views[0].cols, [&](std::int64_t row, std::int64_t begin, std::int64_t n) {
      std::apply([&](const auto&... view) { piece(n, (elements<T>(view, row) + begin)...); }, views);
    });
  });
}

/// Hands out 64-byte aligned parts of a scratch area; null pointers, to add up the bytes, where there is no area yet.
class ScratchParts {
 public:
  explicit ScratchParts(std::byte* begin) : begin_(begin) {}
  float* floats(std::int64_t count) {
    auto* part = begin_ != nullptr ? reinterpret_cast<float*>(begin_ + used_) : nullptr;
    used_ += bytes(count);
    return part;
  }
  std::size_t used() const { return used_; }
  /// Of a part.
  static constexpr std::size_t bytes(std::int64_t floats) {
    return static_cast<std::size_t>(round_up(floats, 16)) * sizeof(float);
  }

 private:
  std::byte* begin_;
  std::size_t used_ = 0;
};

}  // namespace weft::cpu
