// How a matrix product is computed: an engine, the size of the slices that workers take, and the layout that the
// engine's library is shown. All methods give the same product up to rounding; which one is fastest depends on shape
// and machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "kernels/cpu/gemm/gemm_layout.h"
#include "kernels/cpu/gemm/packed_unit.h"

namespace weft::cpu {

/// The output is computed in row_blocks × col_blocks slices of at most rows × cols elements. k is never cut.
struct GemmSlices {
  std::int64_t rows, cols, row_blocks, col_blocks;
};

/// About eight slices or more as soon as each is worth starting, at most ~250 MFLOP each, and of such proportions that
/// the libraries copy ("pack") as little of A and B as possible. Depends on the shape only.
GemmSlices gemm_slices(std::int64_t m, std::int64_t n, std::int64_t k);

struct GemmMethod {
  enum class Engine : std::uint8_t {
    sgemm,   // oneDNN's sgemm, one thread a slice; bf16 slices are converted to fp32 first
    matmul,  // oneDNN's matmul primitives, one a slice; bf16 in the CPU's own instructions
    packed,  // Weft's own: A and B copied once into the order in which register tiles read them (packed_gemm.h)
  };
  Engine engine = Engine::sgemm;
  std::int64_t rows = 0, cols = 0;      // of a slice; the last ones may be smaller
  GemmLayout layout = GemmLayout::own;  // packed: always its own, since it copies both operands in any case

  bool operator==(const GemmMethod&) const = default;
};

/// "sgemm 128x768 nn": engine, rows and columns of a slice, and the layout unless it is the product's own.
std::string to_string(const GemmMethod& method);

/// The inverse of to_string, and nothing else: no other spelling is accepted. Rows and columns are at least 1.
std::optional<GemmMethod> parse_gemm_method(std::string_view text);

/// The method that a product uses when none is given. Depends on shape, dtypes, the CPU's features and what multiplies
/// bf16, so all workers and all equal machines choose the same.
GemmMethod default_gemm_method(const GemmShape& shape, DType inputs, DType output,
                               PackedUnit bf16 = widest_bf16_unit());

/// All methods worth a trial on this CPU: the default first, none twice. At most about thirty.
std::vector<GemmMethod> gemm_methods(const GemmShape& shape, DType inputs, DType output,
                                     PackedUnit bf16 = widest_bf16_unit());

/// Whether PreparedGemm takes `method` for this product on this CPU: slices of at least one element, no more than 4096
/// of them where each costs memory (all engines but packed), bf16 by matmul only with AVX-512, and another layout than
/// the product's own only where layout_fits() and the engine isn't packed.
bool can_run(const GemmMethod& method, const GemmShape& shape, DType inputs, DType output);

/// Whether the CPU can multiply pairs of bf16 (AVX512_BF16) and has no AMX. pair_speed.h tells whether it should.
bool bf16_in_pairs();

/// Whether the CPU has AMX units for bf16: CPU, operating system and oneDNN have to support them.
bool bf16_in_amx();

}  // namespace weft::cpu
