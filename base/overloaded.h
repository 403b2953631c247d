// A visitor made of lambdas, one an alternative: std::visit(Overloaded{[](const Gemm&) {…}, …}, operation).
#pragma once

namespace weft {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace weft
