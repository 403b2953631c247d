#include "text/bpe/bpe_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <span>

#include "base/error.h"
#include "text/unicode/characters.h"

namespace weft::text {
namespace {

constexpr std::uint64_t kNoPair = std::numeric_limits<std::uint64_t>::max();
constexpr std::int32_t kNoRank = std::numeric_limits<std::int32_t>::max();
constexpr std::string_view kBlank = "\xE2\x96\x81";  // "▁", SentencePiece's space
constexpr std::size_t kShort = 64;                   // symbols up to which a walk over all pairs is faster than a heap

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

/// Whether "▁" stands behind another character.
bool crosses_blank(std::string_view text) {
  while (text.starts_with(kBlank)) text.remove_prefix(kBlank.size());
  return text.find(kBlank) != std::string_view::npos;
}

std::size_t slot_of(std::uint64_t key, std::size_t mask) {
  const std::uint64_t mixed = key * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(mixed >> 29) & mask;
}

}  // namespace

BpeModel::BpeModel(std::vector<BpeToken> tokens, BpeOptions options)
    : tokens_(std::move(tokens)), options_(std::move(options)) {
  ids_.reserve(tokens_.size());
  for (const BpeToken& token : tokens_) {
    ids_.emplace(token.text, token.id);
    longest_ = std::max(longest_, token.text.size());
  }
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char text = static_cast<char>(byte);
    const std::string name = fmt::format("<0x{:02X}>", byte);
    byte_ids_[byte] = find(options_.bytes ? std::string_view(&text, 1) : std::string_view(name)).value_or(-1);
  }
  if (!options_.unknown) return;
  unknown_id_ = find(*options_.unknown);
  if (!unknown_id_) {
    throw UserError(
        fmt::format("{}: the token for unknown characters, '{}', isn't in it", options_.place, *options_.unknown),
        "a token of the vocabulary", "copy or make the file again");
  }
}

BpeModel::BpeModel(std::vector<BpeToken> tokens, const Merges& merges, BpeOptions options)
    : BpeModel(std::move(tokens), std::move(options)) {
  std::vector<std::pair<std::uint64_t, Merge>> pairs;
  pairs.reserve(merges.size());
  std::string joined;
  cuts_at_blanks_ = !options_.bytes && find(kBlank);
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    joined.assign(left).append(right);
    const auto left_id = find(left), right_id = find(right), id = find(joined);
    if (!left_id || !right_id || !id) {
      throw UserError(fmt::format("{}: merge {} joins '{}' and '{}', and '{}' isn't a token", options_.place, rank + 1,
                                  left, right, !left_id ? left : (!right_id ? right : joined)),
                      "merges of tokens to tokens", "copy or make the file again");
    }
    pairs.push_back({key_of(*left_id, *right_id), {static_cast<std::int32_t>(rank), *id}});
    cuts_at_blanks_ = cuts_at_blanks_ && !crosses_blank(joined);
  }
  make_pairs(pairs);
}

BpeModel BpeModel::of_ranks(std::vector<BpeToken> tokens, BpeOptions options) {
  BpeModel model(std::move(tokens), std::move(options));
  std::vector<std::pair<std::uint64_t, Merge>> pairs;
  for (const BpeToken& token : model.tokens_) {
    const std::string_view text = token.text;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = model.find(text.substr(0, cut));
      if (!left) continue;
      if (const auto right = model.find(text.substr(cut))) {
        pairs.push_back({key_of(*left, *right), {token.id, token.id}});
      }
    }
  }
  model.make_pairs(pairs);
  return model;
}

void BpeModel::make_pairs(const std::vector<std::pair<std::uint64_t, Merge>>& pairs) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(16, pairs.size() * 2));
  keys_.assign(size, kNoPair);
  values_.resize(size);
  for (const auto& [key, merge] : pairs) {
    std::size_t slot = slot_of(key, size - 1);
    while (keys_[slot] != kNoPair && keys_[slot] != key) slot = (slot + 1) & (size - 1);
    keys_[slot] = key;  // of a merge that is there twice, the later one counts
    values_[slot] = merge;
  }
}

const BpeModel::Merge* BpeModel::merge_of(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = key_of(left, right);
  const std::size_t mask = keys_.size() - 1;
  for (std::size_t slot = slot_of(key, mask);; slot = (slot + 1) & mask) {
    if (keys_[slot] == key) return &values_[slot];
    if (keys_[slot] == kNoPair) return nullptr;
  }
}

std::int32_t BpeModel::rank_of(std::int32_t left, std::int32_t right) const {
  const Merge* merge = merge_of(left, right);
  return merge == nullptr ? kNoRank : merge->rank;
}

std::optional<std::int32_t> BpeModel::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

void BpeModel::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& out) const {
  if (word.empty()) return;
  if (word.size() > WordCache::kMostBytes) {
    encode_uncached(word, scratch, out);
    return;
  }
  const std::uint64_t hash = std::hash<std::string_view>()(word);
  if (const auto known = scratch.cache.find(word, hash); !known.empty()) {
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  const std::size_t begin = out.size();
  encode_uncached(word, scratch, out);
  scratch.cache.put(word, hash, std::span(out).subspan(begin));
}

void BpeModel::encode_text(std::string_view text, Scratch& scratch, std::vector<std::int32_t>& out) const {
  if (!cuts_at_blanks_) {
    encode(text, scratch, out);
    return;
  }
  if (options_.ignore_merges && text.size() <= longest_) {
    if (const auto whole = find(text)) {
      out.push_back(*whole);
      return;
    }
  }
  std::size_t begin = 0;
  for (std::size_t at = text.find(kBlank); at != std::string_view::npos; at = text.find(kBlank, at)) {
    if (at > begin) encode(text.substr(begin, at - begin), scratch, out);
    begin = at;
    while (text.substr(at).starts_with(kBlank)) at += kBlank.size();
  }
  encode(text.substr(begin), scratch, out);
}

void BpeModel::encode_uncached(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& out) const {
  if (options_.ignore_merges && word.size() <= longest_) {
    if (const auto whole = find(word)) {
      out.push_back(*whole);
      return;
    }
  }
  scratch.ids.clear();
  begin_word(word, scratch.ids);
  scratch.ids.size() <= kShort ? merge_short(scratch) : merge_long(scratch);
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
}

void BpeModel::begin_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (!options_.bytes) {
    begin_characters(word, ids);
    return;
  }
  bool unknown = false;
  for (const char c : word) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(c)];
    if (id >= 0) {
      ids.push_back(id);
    } else if (unknown_id_ && !(unknown && options_.fuse_unknown)) {
      ids.push_back(*unknown_id_);
    }
    unknown = id < 0;
  }
}

/// The unknown token of a character is kept until a known character follows, as in the package `tokenizers`: so bytes
/// of a character in between come before it.
void BpeModel::begin_characters(std::string_view word, std::vector<std::int32_t>& ids) const {
  bool pending = false;
  while (!word.empty()) {
    const std::string_view character = word.substr(0, decode_valid(word.data()).length);
    word.remove_prefix(character.size());
    if (const auto id = find(character)) {
      if (pending) ids.push_back(*unknown_id_);
      pending = false;
      ids.push_back(*id);
      continue;
    }
    const auto has_token = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)] >= 0; };
    if (options_.byte_fallback && std::all_of(character.begin(), character.end(), has_token)) {
      for (const char c : character) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    } else if (unknown_id_) {
      if (pending && !options_.fuse_unknown) ids.push_back(*unknown_id_);
      pending = true;
    }
  }
  if (pending) ids.push_back(*unknown_id_);
}

void BpeModel::merge_short(Scratch& scratch) const {
  std::vector<std::int32_t>&ids = scratch.ids, &ranks = scratch.ranks;
  if (ids.size() < 2) return;
  ranks.resize(ids.size() - 1);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) ranks[i] = rank_of(ids[i], ids[i + 1]);
  while (!ranks.empty()) {
    const auto least = std::min_element(ranks.begin(), ranks.end());
    if (*least == kNoRank) return;
    const auto at = static_cast<std::size_t>(least - ranks.begin());
    ids[at] = merge_of(ids[at], ids[at + 1])->id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    ranks.erase(least);
    if (at > 0) ranks[at - 1] = rank_of(ids[at - 1], ids[at]);
    if (at < ranks.size()) ranks[at] = rank_of(ids[at], ids[at + 1]);
  }
}

/// A heap of ranks and places; entries whose pair has changed since are passed over.
void BpeModel::merge_long(Scratch& scratch) const {
  std::vector<std::int32_t>&ids = scratch.ids, &ranks = scratch.ranks, &next = scratch.next, &back = scratch.previous;
  std::vector<std::uint64_t>& heap = scratch.heap;
  const auto size = static_cast<std::int32_t>(ids.size());
  ranks.assign(ids.size(), kNoRank), next.resize(ids.size()), back.resize(ids.size());
  heap.clear();
  const auto at = [](std::int32_t i) { return static_cast<std::size_t>(i); };
  const auto entry = [&](std::int32_t i) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(ranks[at(i)])) << 32 | static_cast<std::uint32_t>(i);
  };
  const auto rate = [&](std::int32_t i) {
    ranks[at(i)] = next[at(i)] < size ? rank_of(ids[at(i)], ids[at(next[at(i)])]) : kNoRank;
    return ranks[at(i)] != kNoRank;
  };
  for (std::int32_t i = 0; i < size; ++i) next[at(i)] = i + 1, back[at(i)] = i - 1;
  for (std::int32_t i = 0; i < size; ++i) {
    if (rate(i)) heap.push_back(entry(i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto rate_and_push = [&](std::int32_t i) {
    if (!rate(i)) return;
    heap.push_back(entry(i));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t top = heap.back();
    heap.pop_back();
    const auto i = static_cast<std::int32_t>(top & 0xFFFFFFFFU);
    if (ids[at(i)] < 0 || static_cast<std::int32_t>(top >> 32) != ranks[at(i)]) continue;
    const std::int32_t gone = next[at(i)];
    ids[at(i)] = merge_of(ids[at(i)], ids[at(gone)])->id;
    ids[at(gone)] = -1;
    next[at(i)] = next[at(gone)];
    if (next[at(i)] < size) back[at(next[at(i)])] = i;
    rate_and_push(i);
    if (back[at(i)] >= 0) rate_and_push(back[at(i)]);
  }
  std::erase(ids, -1);
}

}  // namespace weft::text
