// What each rank of a world has.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "runtime/comm/communicator.h"

namespace weft::comm {

/// Every rank's number, by rank. Collective over the world.
inline std::vector<double> of_ranks(World& world, double own) {
  std::vector<double> all;
  for (const std::uint64_t bits : world.all_gather(std::bit_cast<std::uint64_t>(own))) {
    all.push_back(std::bit_cast<double>(bits));
  }
  return all;
}

/// Every rank's text or vector of numbers, by rank; lengths may differ. Collective over the world.
template <class Values>
requires std::is_trivially_copyable_v<typename Values::value_type> std::vector<Values> of_ranks(World& world,
                                                                                                const Values& own) {
  std::vector<Values> all;
  for (const auto& bytes : world.all_gather_bytes(std::as_bytes(std::span(own)))) {
    Values& values = all.emplace_back();
    values.resize(bytes.size() / sizeof(typename Values::value_type));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  return all;
}

}  // namespace weft::comm
