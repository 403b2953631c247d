// Filters over a list of candidates, then one Philox draw.
#include "train/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"

namespace weft::train {
namespace {

/// Uniform in [0, 1) with 53 bits; its own Philox site, so that it repeats no draw of the training step.
double draw(std::uint64_t seed, std::uint64_t position) {
  constexpr std::uint32_t kSite = 0x5A3B1E00U;
  const PhiloxBlock block = philox_quad(seed, 0, kSite, position);
  return static_cast<double>(((std::uint64_t{block[0]} << 32) | block[1]) >> 11) * 0x1p-53;
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    throw UserError(fmt::format("temperature {}", options.temperature), "a number from 0 up", "0 is greedy, 1 neutral");
  }
  if (options.top_k < 0)
    throw UserError(fmt::format("top-k {}", options.top_k), "a count; 0 keeps all tokens", "give 0 or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw UserError(fmt::format("top-p {}", options.top_p), "a number in (0, 1]; 1 keeps all tokens", "give 1 or less");
  }
}

std::int32_t Sampler::sample(std::span<const float> logits, std::uint64_t position) {
  std::size_t largest = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id]) || logits[id] == HUGE_VALF) {
      throw RuntimeFault(fmt::format("the logit of token {} is {}: the model's weights are broken", id, logits[id]));
    }
    if (logits[id] > logits[largest]) largest = id;
  }
  if (logits.empty() || std::isinf(logits[largest])) throw RuntimeFault("no token has a finite logit");
  if (options_.temperature == 0) return static_cast<std::int32_t>(largest);

  candidates_.clear();
  for (std::size_t id = 0; id < logits.size(); ++id) {
    candidates_.push_back({static_cast<std::int32_t>(id), static_cast<double>(logits[id])});
  }
  const auto more_probable = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  };
  const auto k = static_cast<std::size_t>(options_.top_k);
  if (k > 0 && k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k) - 1, candidates_.end(),
                     more_probable);
    candidates_.resize(k);
  }
  // Order decides rounding and the draw: most probable first for top-p, by id without it.
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  std::sort(candidates_.begin(), candidates_.end(), by_id);
  double total = 0;
  for (Candidate& candidate : candidates_) {
    // Subtracted before dividing, because a quotient by a tiny temperature may overflow.
    candidate.weight = std::exp((candidate.weight - static_cast<double>(logits[largest])) / options_.temperature);
    total += candidate.weight;
  }
  if (options_.top_p < 1) {
    std::sort(candidates_.begin(), candidates_.end(), more_probable);
    double kept = 0;
    std::size_t count = 0;
    while (count < candidates_.size() && kept < options_.top_p * total) kept += candidates_[count++].weight;
    candidates_.resize(count);
    total = kept;
    std::sort(candidates_.begin(), candidates_.end(), by_id);
  }
  double left = draw(options_.seed, position) * total;
  std::int32_t chosen =
      static_cast<std::int32_t>(largest);  // chosen if rounding leaves a remainder after the last candidate
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight <= 0) continue;
    chosen = candidate.id;
    if (left < candidate.weight) break;
    left -= candidate.weight;
  }
  return chosen;
}

}  // namespace weft::train
