// The table of a level's library, compiled once for each level; see kernel_table.h.
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/kernel_table.h"

namespace weft::cpu {

std::string to_string_of_method(const GemmMethod& method) {
  return to_string(method);
}

PackedUnit fastest_unit_for(PackedUnit widest, std::optional<double> gain) {
  return fastest_bf16_unit(widest, gain);
}

PackedUnit fastest_unit_here() {
  return fastest_bf16_unit();
}

void prepare_gemm(PreparedGemm& gemm, const GemmShape& shape, const GemmArguments& arguments, const GemmMethod& method,
                  PackedUnit bf16) {
  gemm = PreparedGemm(shape, arguments, method, bf16);
}

void release_gemm(PreparedGemm& gemm) noexcept {
  const PreparedGemm last = std::move(gemm);
}

Scratch scratch_of_gemm(const PreparedGemm& gemm) {
  return gemm.scratch();
}

void run_gemm(const PreparedGemm& gemm, Workers& workers) {
  gemm.run(workers);
}

namespace {

constexpr KernelTable kTable = {
#define WEFT_ADDRESS(name, parameters) &cpu::name,
    WEFT_KERNELS(WEFT_ADDRESS) WEFT_NAMED_KERNELS(WEFT_ADDRESS)
#undef WEFT_ADDRESS
};

}  // namespace
}  // namespace weft::cpu

extern "C" [[gnu::visibility("default")]] const weft::cpu::KernelTable* weft_kernel_table(const char* build) {
  return std::strcmp(build, WEFT_KERNEL_BUILD) == 0 ? &weft::cpu::kTable : nullptr;
}
