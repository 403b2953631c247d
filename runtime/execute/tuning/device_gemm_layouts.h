// The layouts in which a product is tried on a GPU.
#pragma once

#include <vector>

#include "runtime/execute/tuning/gemm_tuning.h"

namespace weft::execute {

/// Besides the product's own. None for small products and those of few rows or columns: the copies would take longer
/// than they could save. None for products with an epilogue.
std::vector<cpu::GemmLayout> device_gemm_layouts(const GemmProblem& problem);

}  // namespace weft::execute
