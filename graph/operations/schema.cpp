#include "graph/operations/schema.h"

#include <fmt/format.h>

namespace weft::graph {

std::string to_string(const ArgumentShape& shape) {
  switch (shape.form) {
    case ArgumentShape::Form::exact:
      break;
    case ArgumentShape::Form::any_rows:
      return fmt::format("rows of {}", shape.cols);
    case ArgumentShape::Form::any_shape:
      return fmt::format("{} elements", shape.cols);
    case ArgumentShape::Form::any_size:
      return "a range of elements";
  }
  return fmt::format("{} x {}", shape.rows, shape.cols);
}

std::optional<SeenShape> seen_as(const ArgumentShape& shape, std::int64_t rows, std::int64_t cols, bool contiguous) {
  const std::int64_t elements = rows * cols;
  SeenShape wanted{shape.rows, shape.cols};
  switch (shape.form) {
    case ArgumentShape::Form::any_shape:
      if (elements != shape.cols) return std::nullopt;
      return SeenShape{rows, cols};
    case ArgumentShape::Form::any_rows:
      if (shape.cols == 0) return std::nullopt;
      wanted.rows = elements / shape.cols;
      break;
    case ArgumentShape::Form::any_size:
      wanted.cols = elements;
      break;
    case ArgumentShape::Form::exact:
      break;
  }
  if (rows == wanted.rows && cols == wanted.cols) return wanted;
  if (contiguous && elements == wanted.rows * wanted.cols) return wanted;
  return std::nullopt;
}

}  // namespace weft::graph
