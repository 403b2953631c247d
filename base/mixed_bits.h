// A mixer of numbers, equal on every machine and run.
#pragma once

#include <cstdint>

namespace weft {

/// SplitMix64's function of its state (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014):
/// equal numbers give equal bits, and others give bits that look random. mixed_bits(0) is 0xe220a8397b1dcdaf.
constexpr std::uint64_t mixed_bits(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15ULL;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

}  // namespace weft
