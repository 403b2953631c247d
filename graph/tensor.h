// Tensors of one rank and the views that tasks take of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/id.h"

namespace weft::graph {

using TensorId = Id<struct TensorTag>;

/// The purpose of a tensor. It decides where the tensor is stored (state outlives a step; everything else shares the
/// scratch arena) and how its memory is reported. `gathered`: a parameter's whole block, while tasks read it.
enum class Role : std::uint8_t {
  parameter,
  gradient,
  optimizer_state,
  scalar,
  input,
  cache,
  activation,
  gathered,
  workspace
};

inline constexpr std::size_t kRoles = 9;

std::string_view to_string(Role role);

/// Whether the tensor's bytes outlive a step: such tensors have fixed addresses outside every plan.
constexpr bool is_state(Role role) {
  return role == Role::parameter || role == Role::optimizer_state || role == Role::scalar || role == Role::input ||
         role == Role::cache;
}

struct Tensor {
  std::string name;  // unique in its graph; state tensors of equal name are one tensor across graphs
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // local to the rank, row-major
  Role role = Role::activation;

  std::int64_t elements() const;
  std::int64_t bytes() const;
};

/// A 2-D window of a tensor's elements: rows × cols, beginning at `offset`, with rows `row_stride` elements apart. A
/// contiguous range of n elements is one row of n.
///
///   QKV output [N, 3C]: K is View{qkv, offset = C, rows = N, cols = C, row_stride = 3C}
struct View {
  TensorId tensor;
  std::int64_t offset = 0;
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;

  bool contiguous() const { return rows == 1 || row_stride == cols; }
  std::int64_t elements() const { return rows * cols; }
  std::int64_t end() const { return rows == 0 ? offset : offset + (rows - 1) * row_stride + cols; }
  friend bool operator==(const View&, const View&) = default;
};

/// Whether the two views may share an element. Exact for contiguous views and for column windows of equal stride;
/// otherwise conservative (true if their ranges intersect).
bool overlaps(const View& a, const View& b);

/// Whether `outer` certainly contains every element of `inner`.
bool covers(const View& outer, const View& inner);

}  // namespace weft::graph
