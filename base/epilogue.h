// What a matrix product does with its sums besides writing them.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// gelu: gelu(C) is written too. gelu_gradient: the sums are multiplied by gelu′(x) before they are written as C.
enum class Epilogue : std::uint8_t { none, gelu, gelu_gradient };

constexpr std::string_view to_string(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return "none";
    case Epilogue::gelu:
      return "gelu";
    case Epilogue::gelu_gradient:
      return "gelu_gradient";
  }
  return "?";
}

}  // namespace weft
