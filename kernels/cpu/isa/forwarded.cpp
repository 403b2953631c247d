// The kernels' functions in a build with all levels: each calls the function of the level in use, which is one of some
// dozens of calls in a task of microseconds. A build for one level has the functions themselves in its place.
#include <cstddef>
#include <tuple>
#include <utility>

#include "kernels/cpu/isa/kernel_table.h"

namespace weft::cpu {
namespace {

template <class Function>
struct Signature;
template <class Returned, class... Parameters>
struct Signature<Returned(Parameters...)> {
  using Result = Returned;
  template <std::size_t kIndex>
  using Parameter = std::tuple_element_t<kIndex, std::tuple<Parameters...>>;
};

}  // namespace

// Each definition takes its types from the function's declaration: a wrong number of parameters is another function,
// which the table hasn't.
#define WEFT_PARAMETER(name, i) Signature<decltype(name)>::Parameter<i> p##i
#define WEFT_PARAMETERS_0(name)
#define WEFT_PARAMETERS_1(name) WEFT_PARAMETER(name, 0)
#define WEFT_PARAMETERS_2(name) WEFT_PARAMETERS_1(name), WEFT_PARAMETER(name, 1)
#define WEFT_PARAMETERS_3(name) WEFT_PARAMETERS_2(name), WEFT_PARAMETER(name, 2)
#define WEFT_PARAMETERS_4(name) WEFT_PARAMETERS_3(name), WEFT_PARAMETER(name, 3)
#define WEFT_PARAMETERS_5(name) WEFT_PARAMETERS_4(name), WEFT_PARAMETER(name, 4)
#define WEFT_PARAMETERS_6(name) WEFT_PARAMETERS_5(name), WEFT_PARAMETER(name, 5)
#define WEFT_PARAMETERS_7(name) WEFT_PARAMETERS_6(name), WEFT_PARAMETER(name, 6)
#define WEFT_PARAMETERS_8(name) WEFT_PARAMETERS_7(name), WEFT_PARAMETER(name, 7)
#define WEFT_VALUES_0
#define WEFT_VALUES_1 p0
#define WEFT_VALUES_2 p0, p1
#define WEFT_VALUES_3 p0, p1, p2
#define WEFT_VALUES_4 p0, p1, p2, p3
#define WEFT_VALUES_5 p0, p1, p2, p3, p4
#define WEFT_VALUES_6 p0, p1, p2, p3, p4, p5
#define WEFT_VALUES_7 p0, p1, p2, p3, p4, p5, p6
#define WEFT_VALUES_8 p0, p1, p2, p3, p4, p5, p6, p7
#define WEFT_FORWARD(name, parameters)                                         \
  Signature<decltype(name)>::Result name(WEFT_PARAMETERS_##parameters(name)) { \
    return kernels().name(WEFT_VALUES_##parameters);                           \
  }
WEFT_KERNELS(WEFT_FORWARD)

std::string to_string(const GemmMethod& method) {
  return kernels().to_string_of_method(method);
}
PackedUnit fastest_bf16_unit(PackedUnit widest, std::optional<double> gain) {
  return kernels().fastest_unit_for(widest, gain);
}
PackedUnit fastest_bf16_unit() {
  return kernels().fastest_unit_here();
}

// Only the level's library knows what a prepared product holds: here it is made, run and given up by the library, and
// the pointer is null whenever this code's own destructor sees it.
struct PreparedGemm::Impl {};

PreparedGemm::PreparedGemm(const GemmShape& shape, const GemmArguments& arguments)
    : PreparedGemm(shape, arguments, default_gemm_method(shape, arguments.a.dtype, arguments.c.dtype)) {}
PreparedGemm::PreparedGemm(const GemmShape& shape, const GemmArguments& arguments, const GemmMethod& method,
                           PackedUnit bf16) {
  kernels().prepare_gemm(*this, shape, arguments, method, bf16);
}
PreparedGemm::~PreparedGemm() {
  if (impl_ != nullptr) kernels().release_gemm(*this);
}
PreparedGemm::PreparedGemm(PreparedGemm&&) noexcept = default;
PreparedGemm& PreparedGemm::operator=(PreparedGemm&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Scratch PreparedGemm::scratch() const {
  return kernels().scratch_of_gemm(*this);
}
void PreparedGemm::run(Workers& workers) const {
  kernels().run_gemm(*this, workers);
}

}  // namespace weft::cpu
