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

}  // namespace weft::text
