// A visitor made of one lambda for each alternative: std::visit(Overloaded{[](const Gemm&) {…}, …}, operation).
#pragma once

namespace weft {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace weft
