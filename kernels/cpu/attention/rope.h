// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) in Hugging Face's half-split layout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/matrix.h"
#include "kernels/cpu/parallel.h"

namespace weft::cpu {

/// Scaling of frequencies as transformers' `rope_type` of the same name computes it; factor 1 changes nothing.
struct RopeScaling {
  enum class Kind : std::uint8_t { llama3, linear, yarn };

  float factor = 1.0F, low_freq_factor = 1.0F, high_freq_factor = 4.0F, original_context = 8192.0F;
  Kind kind = Kind::llama3;
  bool fractional = false;  // yarn's bounds aren't rounded to whole pairs
};

/// Frequency, in radians per position, of each pair j < head_dim/2: f = θ^(−2j/head_dim), scaled.
///   llama3  context/wavelength t = context·f/2π: t < low gives f/factor, t > high gives f; between them the two are
///           blended linearly in t
///   linear  f/factor
///   yarn    (Peng et al. 2023, arXiv:2309.00071) as llama3, but linear in j between the pairs at which t is high and
///           low
std::vector<float> rope_frequencies(std::int64_t head_dim, float theta, const RopeScaling& scaling);

/// Rotates x [rows, heads·head_dim] in place: pair (a, b) = elements (j, j + head_dim/2) of each head becomes (a·cos −
/// b·sin, b·cos + a·sin)·factor with angle position·frequency[j], position = offset + row mod seq_len. `inverse`
/// rotates the other way, which makes it the adjoint. x has a float dtype.
void rope(Workers& workers, std::span<const float> frequencies, std::int64_t heads, std::int64_t seq_len,
          std::int64_t offset, bool inverse, const Matrix& x, float factor = 1.0F);
Scratch rope_scratch(std::int64_t head_dim);

}  // namespace weft::cpu
