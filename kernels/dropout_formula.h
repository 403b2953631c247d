// The elements that dropout drops (Srivastava et al. 2014), for kernels of all devices: eight elements share a quad of
// Philox words, sixteen bits each.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/philox.h"
#include "kernels/host_device.h"

namespace weft::kernels {

constexpr std::uint32_t kDropoutElements = 8;  // in a quad

/// The sixteen bits of element `element` mod 8 in the words of its quad. It uses selections, because GPUs can't keep an
/// array in registers if an index is unknown at compile time.
WEFT_HOST_DEVICE inline std::uint32_t dropout_bits(const PhiloxBlock& words, std::uint32_t element) {
  const std::uint32_t low = (element & 2) != 0 ? words[1] : words[0], high = (element & 2) != 0 ? words[3] : words[2];
  const std::uint32_t word = (element & 4) != 0 ? high : low;
  return (element & 1) != 0 ? word >> 16 : word & 0xffffU;
}

/// A probability p in [0, 1) in steps of 2⁻¹⁶. Elements whose bits are below `threshold` are dropped; the others are
/// multiplied by `scale`, so that the mean stays.
struct DropoutChance {
  std::uint32_t threshold;
  float scale;
};

inline DropoutChance dropout_chance(float p) {
  constexpr std::uint32_t kSteps = 1U << 16;
  const std::uint32_t threshold = std::min(static_cast<std::uint32_t>(std::lround(p * 0x1p16F)), kSteps - 1);
  return {threshold, 0x1p16F / static_cast<float>(kSteps - threshold)};
}

}  // namespace weft::kernels
