// The ids of words met before: texts repeat their words.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace weft::text {

/// A table with one place for each hash, in which a newer word replaces an older one. One thread at a time uses it.
class WordCache {
 public:
  static constexpr std::size_t kMostBytes = 30, kMostIds = 8;  // with them an entry fills a line of the CPU's cache

  WordCache() : entries_(kEntries) {}

  /// The ids of `word`, of 1 to kMostBytes bytes; empty if they aren't known.
  std::span<const std::int32_t> find(std::string_view word, std::uint64_t hash) const {
    const Entry& entry = entries_[hash % kEntries];
    if (entry.size != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return {};
    return {entry.ids.data(), entry.count};
  }
  /// Keeps ids, unless they are too many.
  void put(std::string_view word, std::uint64_t hash, std::span<const std::int32_t> ids) {
    if (ids.empty() || ids.size() > kMostIds) return;
    Entry& entry = entries_[hash % kEntries];
    entry.size = static_cast<std::uint8_t>(word.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  static constexpr std::size_t kEntries = std::size_t{1} << 15;

  struct alignas(64) Entry {
    std::uint8_t size = 0, count = 0;
    std::array<char, kMostBytes> word;
    std::array<std::int32_t, kMostIds> ids;
  };

  std::vector<Entry> entries_;
};

/// A hash of up to WordCache::kMostBytes bytes, made of two words of 8 bytes at a time.
inline std::uint64_t hash_of_word(std::string_view word) {
  constexpr std::uint64_t kFirst = 0x9E3779B97F4A7C15ULL, kSecond = 0xD6E8FEB86659FD93ULL;
  const auto load = [](const char* at) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  const auto mixed = [](std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  const char* at = word.data();
  std::size_t left = word.size();
  std::uint64_t hash = kFirst ^ left;
  for (; left >= 8; left -= 8, at += 8) hash = mixed(hash ^ load(at), kSecond);
  std::uint64_t last = 0;
  if (left >= 4) {
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, at, sizeof low), std::memcpy(&high, at + left - sizeof high, sizeof high);
    last = static_cast<std::uint64_t>(high) << 32 | low;
  } else if (left > 0) {
    const auto byte = [at](std::size_t i) { return static_cast<std::uint64_t>(static_cast<unsigned char>(at[i])); };
    last = byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16;
  }
  return mixed(hash ^ last, kFirst);
}

}  // namespace weft::text
