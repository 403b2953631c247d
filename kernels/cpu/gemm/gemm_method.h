// The method of a matrix product: an engine, the size of the slices that workers take, and the layout in which the
// engine's library reads the operands. All methods give the same product up to rounding; the fastest depends on the
// shape and the machine.
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

/// The output is computed in row_blocks × col_blocks slices of at most rows × cols elements. k is never divided.
struct GemmSlices {
  std::int64_t rows, cols, row_blocks, col_blocks;
};

/// At least about eight slices, once each is worth starting, and at most ~250 MFLOP each. Their proportions minimise
/// how much of A and B the libraries copy ("pack"). Depends only on the shape.
GemmSlices gemm_slices(std::int64_t m, std::int64_t n, std::int64_t k);

struct GemmMethod {
  enum class Engine : std::uint8_t {
    sgemm,   // oneDNN's sgemm, one thread for each slice; bf16 slices are first converted to fp32
    matmul,  // oneDNN's matmul primitives, one for each slice; bf16 by the CPU's own instructions
    packed,  // Weft's own: A and B are copied once, in the order in which register tiles read them (packed_gemm.h)
  };
  Engine engine = Engine::sgemm;
  std::int64_t rows = 0, cols = 0;      // of a slice; the last slices may be smaller
  GemmLayout layout = GemmLayout::own;  // packed: always the product's own layout, since it copies both operands anyway

  bool operator==(const GemmMethod&) const = default;
};

/// "sgemm 128x768 nn": engine, rows and columns of a slice, and the layout unless it is the product's own.
std::string to_string(const GemmMethod& method);

/// The inverse of to_string; no other spelling is accepted. Rows and columns are at least 1.
std::optional<GemmMethod> parse_gemm_method(std::string_view text);

/// The method of a product for which none is given. It depends on shape, dtypes, the CPU's features and the unit that
/// multiplies bf16, so all workers and all equal machines choose the same.
GemmMethod default_gemm_method(const GemmShape& shape, DType inputs, DType output,
                               PackedUnit bf16 = widest_bf16_unit());

/// All methods worth a trial on this CPU: the default first, without duplicates; at most about thirty.
std::vector<GemmMethod> gemm_methods(const GemmShape& shape, DType inputs, DType output,
                                     PackedUnit bf16 = widest_bf16_unit());

/// Whether PreparedGemm accepts `method` for this product on this CPU. Slices have at least one element. All engines
/// except packed take at most 4096 slices, because each costs memory. matmul takes bf16 only with AVX-512. A layout
/// other than the product's own needs layout_fits() and an engine other than packed.
bool can_run(const GemmMethod& method, const GemmShape& shape, DType inputs, DType output);

/// Whether the CPU can multiply pairs of bf16 (AVX512_BF16) and has no AMX. pairs_gain() tells whether pairs are
/// faster.
bool bf16_in_pairs();

/// Whether the CPU has AMX units for bf16, supported by operating system and oneDNN.
bool bf16_in_amx();

}  // namespace weft::cpu
