// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11): a pure function from a
// (key, counter) pair to 128 random bits. Weft keys it with seed, step, site and *global* element, so that no random
// number depends on the grid, the schedule or the number of threads.
#pragma once

#include <array>
#include <cstdint>

namespace weft {

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

/// The four random words with index `quad` of `site` at `step`. `site` tells consumers apart (a layer's dropout, a
/// parameter's initial values).
constexpr PhiloxBlock philox_quad(std::uint64_t seed, std::uint32_t step, std::uint32_t site, std::uint64_t quad) {
  return philox4x32({static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(quad >> 32), step, site},
                    static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

}  // namespace weft
