// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) in Hugging Face's half-split layout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/gemm/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// Llama 3's scaling of long wavelengths; factor 1 changes nothing.
struct RopeScaling {
  float factor = 1.0F, low_freq_factor = 1.0F, high_freq_factor = 4.0F, original_context = 8192.0F;
};

/// Frequency, in radians per position, of each pair j < head_dim/2: f = θ^(−2j/head_dim). With the wavelength w = 2π/f:
/// w > context/low gives f/factor, w < context/high gives f; between them the two are blended linearly in context/w
/// (transformers, `rope_type` "llama3").
std::vector<float> rope_frequencies(std::int64_t head_dim, float theta, const RopeScaling& scaling);

/// Rotates x [rows, heads·head_dim] in place: pair (a, b) = elements (j, j + head_dim/2) of each head becomes (a·cos −
/// b·sin, b·cos + a·sin) with angle position·frequency[j], position = offset + row mod seq_len. `inverse` rotates back.
/// x has a float dtype.
void rope(Workers& workers, std::span<const float> frequencies, std::int64_t heads, std::int64_t seq_len,
          std::int64_t offset, bool inverse, const Matrix& x);
Scratch rope_scratch(std::int64_t head_dim);

}  // namespace weft::cpu
