// A 64-bit FNV-1a hash for fingerprints of graphs and plans, and a mixer of numbers: equal on every machine and run.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

class Fingerprint {
 public:
  Fingerprint& add_bytes(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < size; ++i) state_ = (state_ ^ bytes[i]) * 0x100000001b3ULL;
    return *this;
  }
  Fingerprint& add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    return add_bytes(text.data(), text.size());
  }
  template <class T>
  requires std::integral<T> || std::floating_point<T> Fingerprint& add(T value) {
    return add_bytes(&value, sizeof value);
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

inline constexpr std::string_view kHexFingerprint = "0x and 16 hex digits";

/// As files write a fingerprint: 0x and 16 lower-case hexadecimal digits.
std::string hex_fingerprint(std::uint64_t value);
/// Nothing unless `text` has the form that hex_fingerprint() writes.
std::optional<std::uint64_t> parse_hex_fingerprint(std::string_view text);

/// SplitMix64's function of its state (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014):
/// equal numbers give equal bits, and others give bits that look random. mixed_bits(0) is 0xe220a8397b1dcdaf.
constexpr std::uint64_t mixed_bits(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15ULL;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

}  // namespace weft
