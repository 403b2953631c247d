// Random numbers of policies. Unlike std::uniform_int_distribution, they are equal with every standard library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace weft::policy {

class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : generator_(seed) {}
  /// In [0, n), n > 0.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(generator_() % n); }
  /// In [0, 1), a multiple of 2⁻⁵³.
  double unit() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 generator_;
};

}  // namespace weft::policy
