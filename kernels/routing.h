// A token's choice among the logits of its experts, and how near it is to another one: for kernels on any device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/host_device.h"

namespace weft::kernels {

/// The experts of the largest logits, in ascending order. Of equal logits the first stays before the others. A NaN
/// among them still gives a valid choice.
WEFT_HOST_DEVICE inline void choose(const float* logits, std::int64_t experts, std::int32_t* chosen,
                                    std::int64_t choices) {
  std::int64_t count = 0;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    if (count == choices && !(logits[expert] > logits[chosen[count - 1]])) continue;
    std::int64_t place = count < choices ? count++ : choices - 1;
    for (; place > 0 && logits[expert] > logits[chosen[place - 1]]; --place) chosen[place] = chosen[place - 1];
    chosen[place] = static_cast<std::int32_t>(expert);
  }
  for (std::int64_t j = 1; j < choices; ++j) {
    const std::int32_t expert = chosen[j];
    std::int64_t place = j;
    for (; place > 0 && chosen[place - 1] > expert; --place) chosen[place] = chosen[place - 1];
    chosen[place] = expert;
  }
}

/// The difference of logits between a choice and the next one, and how many of the chosen the logits wouldn't choose.
struct Nearness {
  float margin = std::numeric_limits<float>::max();
  std::int32_t flips = 0;

  WEFT_HOST_DEVICE void take(const Nearness& other) {
    margin = std::min(margin, other.margin);
    flips += other.flips;
  }
};

/// Of a row whose choice isn't the logits' own, or has a tie at its border.
WEFT_HOST_DEVICE inline Nearness nearness_of_other(const float* logits, std::int64_t experts,
                                                   const std::int32_t* chosen, std::int64_t choices) {
  Nearness found;
  float last = 0.0F, next = 0.0F;
  for (std::int64_t e = 0, j = 0; e < experts; ++e) {
    std::int64_t place = 0;  // among the logits from the largest down
    for (std::int64_t f = 0; f < experts; ++f) {
      place += (logits[f] > logits[e] || (logits[f] == logits[e] && f < e)) ? 1 : 0;
    }
    if (place == choices - 1) last = logits[e];
    if (place == choices) next = logits[e];
    if (j == choices || chosen[j] != e) continue;
    ++j;
    found.flips += place >= choices ? 1 : 0;
  }
  found.margin = last - next;
  return found;
}

/// Of any row. `chosen` is in ascending order.
WEFT_HOST_DEVICE inline Nearness nearness_of(const float* logits, std::int64_t experts, const std::int32_t* chosen,
                                             std::int64_t choices) {
  if (choices == experts) return {};
  float least = std::numeric_limits<float>::infinity(), most = -least;
  for (std::int64_t e = 0, j = 0; e < experts; ++e) {
    const float logit = logits[e];
    const bool is_chosen = j < choices && chosen[j] == e;
    j += is_chosen ? 1 : 0;
    // Not std::min() and max(): their references would put the numbers into a GPU's local memory.
    least = is_chosen && logit < least ? logit : least;
    most = !is_chosen && logit > most ? logit : most;
  }
  if (least > most) return {least - most};
  return nearness_of_other(logits, experts, chosen, choices);
}

}  // namespace weft::kernels
