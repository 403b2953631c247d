// The epilogue of a matrix product: elementwise work on the product before or while it is written.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// gelu: writes gelu(C) as well as C. gelu_gradient: multiplies the product by gelu′(x) before it is written as C. add:
/// adds another matrix to the product before it is written as C. bias_gradient: writes the sums of op(A)'s rows too.
enum class Epilogue : std::uint8_t { none, gelu, gelu_gradient, add, bias_gradient };

constexpr std::string_view to_string(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return "none";
    case Epilogue::gelu:
      return "gelu";
    case Epilogue::gelu_gradient:
      return "gelu_gradient";
    case Epilogue::add:
      return "add";
    case Epilogue::bias_gradient:
      return "bias_gradient";
  }
  return "?";
}

}  // namespace weft
