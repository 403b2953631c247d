// A 64-bit FNV-1a hash for fingerprints of graphs and plans: equal on every machine and run.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
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

}  // namespace weft
