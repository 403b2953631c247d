// The next token from a row of logits, under temperature, top-k and top-p.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft::train {

struct SamplerOptions {
  double temperature = 1.0;  // 0: the largest logit, lowest id on ties
  std::int64_t top_k = 0;    // only the k largest logits; 0: all
  double top_p = 1.0;        // only the fewest most probable tokens that hold this much probability together
  std::uint64_t seed = 42;
};

/// A pure function of (options, logits, position), so a text can be repeated with its seed. It is a class because it
/// keeps its scratch memory: after the first call of a vocabulary size nothing is allocated.
///
/// The filters work in this order: logits / temperature, top-k, softmax over what is left, top-p over that softmax.
/// Ties at either cut keep the lower id.
class Sampler {
 public:
  /// Throws UserError on a negative or non-finite temperature, a negative k, or p outside (0, 1].
  explicit Sampler(const SamplerOptions& options);

  /// `logits`: one float a token id, without vocabulary padding. `position`: index of the drawn token in its text.
  /// Throws RuntimeFault on a NaN or +inf logit (a broken model), naming the id; −inf is a token never drawn.
  std::int32_t sample(std::span<const float> logits, std::uint64_t position);

 private:
  struct Candidate {
    std::int32_t id = 0;
    double weight = 0;  // logit, then unnormalised probability
  };

  SamplerOptions options_;
  std::vector<Candidate> candidates_;
};

}  // namespace weft::train
