// Byte-pair encoding: the ids of a word by a vocabulary and merges in the order of their ranks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::text {

struct BpeOptions {
  std::string place = "the vocabulary";  // opens messages
  bool bytes = false;                    // words are bytes, else characters
  bool byte_fallback = false;            // a character that the vocabulary lacks becomes tokens such as <0x0A>
  bool ignore_merges = false;            // a word that is a token is taken whole
  bool fuse_unknown = false;             // unknown characters side by side become one token
  std::optional<std::string> unknown;    // the token of characters that the vocabulary lacks; without: left out
};

/// A token; of a vocabulary of bytes, its bytes.
struct BpeToken {
  std::string text;
  std::int32_t id = 0;
};

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

/// From the first rank on, the texts of two tokens each.
using Merges = std::vector<std::pair<std::string, std::string>>;

/// Immutable; any number of threads may encode, each with a scratch of its own.
class BpeModel {
 public:
  struct Merge {
    std::int32_t rank = 0, id = 0;
  };
  /// What encoding a word needs beside the model, kept for the next word.
  struct Scratch {
    WordCache cache;
    std::vector<std::int32_t> ids, ranks, next, previous;
    std::vector<std::uint64_t> heap;
  };

  /// Throws UserError, naming the merge, if a token is missing.
  BpeModel(std::vector<BpeToken> tokens, const Merges& merges, BpeOptions options);

  /// tiktoken's rule: two tokens side by side merge if their bytes are a token, whose id is the rank.
  static BpeModel of_ranks(std::vector<BpeToken> tokens, BpeOptions options);

  /// Appends the ids of a word; nothing for an empty one.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& out) const;
  /// The same for a text without a splitter, in which words may be cut apart that no merge joins (SentencePiece's "▁").
  void encode_text(std::string_view text, Scratch& scratch, std::vector<std::int32_t>& out) const;

  std::optional<std::int32_t> find(std::string_view text) const;
  const BpeOptions& options() const { return options_; }

 private:
  BpeModel(std::vector<BpeToken> tokens, BpeOptions options);

  void make_pairs(const std::vector<std::pair<std::uint64_t, Merge>>& pairs);
  const Merge* merge_of(std::int32_t left, std::int32_t right) const;
  std::int32_t rank_of(std::int32_t left, std::int32_t right) const;
  void encode_uncached(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& out) const;
  void begin_word(std::string_view word, std::vector<std::int32_t>& ids) const;
  void begin_characters(std::string_view word, std::vector<std::int32_t>& ids) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  std::vector<BpeToken> tokens_;
  BpeOptions options_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // of views into tokens_
  std::size_t longest_ = 0;                                 // bytes of the longest token
  std::array<std::int32_t, 256> byte_ids_{};                // −1: no token
  std::optional<std::int32_t> unknown_id_;
  bool cuts_at_blanks_ = false;
  std::vector<std::uint64_t> keys_;  // a hash table of pairs; kNoPair where there is none
  std::vector<Merge> values_;
};

}  // namespace weft::text
