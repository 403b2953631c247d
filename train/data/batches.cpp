// Permutation, loader thread and evaluation windows.
#include "train/data/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/assertions.h"
#include "base/error.h"
#include "base/philox.h"

namespace weft::train {
namespace {

// Philox sites of this file, so that its draws differ from those of a step.
constexpr std::uint32_t kPermutationSite = 0xDA7A0000U;  // + round
constexpr std::uint32_t kPhaseSite = 0xDA7A0100U;
constexpr std::uint32_t kRounds = 8;  // small domains need more than the theoretical four rounds

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();  // as a wanted step, ends the thread

std::uint64_t word(std::uint64_t seed, std::uint32_t epoch, std::uint32_t site, std::uint64_t counter) {
  const PhiloxBlock block = philox_quad(seed, epoch, site, counter);
  return (std::uint64_t{block[0]} << 32) | block[1];
}

/// The tokens of a sequence that the share's part has.
struct PartOfSequence {
  std::size_t begin, length;
};

PartOfSequence own_part(const BatchShare& share, std::size_t seq_len) {
  const std::size_t length = seq_len / static_cast<std::size_t>(share.parts);
  return {static_cast<std::size_t>(share.part) * length, length};
}

std::uint64_t learnt_targets(const TokenStream& stream, const TokenWindow& window) {
  return stream.learnt(window.begin + 1, std::min(window.begin + window.tokens + 1, stream.size()));
}

}  // namespace

std::uint64_t permuted(std::uint64_t index, std::uint64_t size, std::uint64_t seed, std::uint32_t epoch) {
  if (size <= 1) return 0;
  const int half_bits = (std::bit_width(size - 1) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  do {
    std::uint64_t left = index >> half_bits, right = index & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = left ^ (word(seed, epoch, kPermutationSite + round, right) & mask);
      left = right;
      right = mixed;
    }
    index = (left << half_bits) | right;
  } while (index >= size);
  return index;
}

BatchPlan::BatchPlan(std::uint64_t tokens, std::int64_t seq_len, std::uint64_t seed, Cut cut)
    : seq_len_(static_cast<std::uint64_t>(seq_len)), seed_(seed) {
  if (seq_len < 1 || tokens < seq_len_ + 1) {
    throw UserError(fmt::format("{} training tokens for sequences of {}", tokens, seq_len),
                    "a token more than one sequence", "give more data, or a shorter --seq-len");
  }
  if (cut == Cut::padded) {
    padded_targets_ = tokens - 1;
    windows_ = (padded_targets_ - 1) / seq_len_ + 1;
    phases_ = windows_ * seq_len_ - padded_targets_ + 1;
    return;
  }
  // One window less than fits, so that every phase has the same number of windows.
  windows_ = std::max<std::uint64_t>(1, tokens / seq_len_ - 1);
  phases_ = std::min(seq_len_, tokens - windows_ * seq_len_);
}

BatchPlan::BatchPlan(std::vector<TokenWindow> windows, std::int64_t seq_len, std::uint64_t seed)
    : seq_len_(static_cast<std::uint64_t>(seq_len)),
      seed_(seed),
      windows_(windows.size()),
      phases_(1),
      given_(std::move(windows)) {
  if (given_.empty()) throw std::invalid_argument("BatchPlan: no windows");
}

TokenWindow BatchPlan::window(std::uint64_t sequence) const {
  const auto epoch = static_cast<std::uint32_t>(sequence / windows_);
  const std::uint64_t index = permuted(sequence % windows_, windows_, seed_, epoch);
  if (!given_.empty()) return given_[index];
  const std::uint64_t phase = word(seed_, epoch, kPhaseSite, 0) % phases_;
  if (padded_targets_ == 0) return {phase + seq_len_ * index, seq_len_};
  const std::uint64_t begin = index == 0 ? 0 : seq_len_ * index - phase;
  return {begin, std::min(seq_len_ * (index + 1) - phase, padded_targets_) - begin};
}

std::uint64_t BatchPlan::sequences_without_target(const TokenStream& stream) const {
  if (stream.learnt(0, stream.size()) == stream.size()) return 0;
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < windows_; ++i) count += learnt_targets(stream, window(i)) == 0 ? 1 : 0;
  return count;
}

BatchLoader::BatchLoader(const TokenStream& stream, const BatchPlan& plan, const BatchShare& share,
                         std::int64_t first_step, std::optional<GoldfishMask> mask,
                         std::optional<std::uint64_t> first_sequence)
    : stream_(stream),
      plan_(plan),
      share_(share),
      mask_(mask),
      window_(static_cast<std::size_t>(plan.seq_len()) + 1),
      whole_targets_(static_cast<std::size_t>(plan.seq_len())),
      other_starts_(stream.has_documents() ? whole_targets_.size() : 0) {
  const auto size = static_cast<std::size_t>(share.sequences() * plan.seq_len());
  const std::size_t own = static_cast<std::size_t>(share.sequences()) * own_part(share, whole_targets_.size()).length;
  for (auto& slot : tokens_) slot.resize(own);
  for (auto& slot : targets_) slot.resize(own);
  for (auto& slot : document_starts_) slot.resize(stream.has_documents() ? size : 0);
  if (first_sequence) {
    sequence_of_step_0_ = *first_sequence - static_cast<std::uint64_t>(first_step * share.sequences() * share.ranks);
  }
  start(first_step);
}

BatchLoader::~BatchLoader() {
  stop();
}

void BatchLoader::start(std::int64_t step) {
  next_step_ = step;
  filled_.store(step);
  wanted_.store(step + 2);
  failed_.store(kNever);
  thread_ = std::thread([this, step] {
    for (std::int64_t s = step; failed_.load() == kNever; ++s) {
      for (std::int64_t wanted = wanted_.load(); wanted <= s; wanted = wanted_.load()) wanted_.wait(wanted);
      if (wanted_.load() == kNever) return;
      try {
        fill(s);
      } catch (...) {
        failure_ = std::current_exception();
        failed_.store(s);
      }
      filled_.store(s + 1);
      filled_.notify_one();
    }
  });
}

void BatchLoader::stop() {
  wanted_.store(kNever);
  wanted_.notify_one();
  thread_.join();
}

std::int64_t BatchLoader::read(std::uint64_t sequence, std::span<std::int32_t> targets,
                               std::span<std::int32_t> document_starts) {
  const TokenWindow window = plan_.window(sequence);
  const std::uint64_t count = std::min(window.tokens + 1, stream_.size() - window.begin);
  stream_.copy(window.begin, count, window_.data());
  std::fill(window_.begin() + static_cast<std::ptrdiff_t>(count), window_.end(), 0);
  std::copy_n(window_.begin() + 1, count - 1, targets.begin());
  std::ranges::fill(targets.subspan(count - 1), -1);
  stream_.drop_ignored(window.begin + 1, targets.first(count - 1));
  if (!document_starts.empty()) stream_.document_starts(window.begin, document_starts);
  if (mask_) mask_->drop(window_, document_starts, sequence, targets);
  return std::ranges::count_if(targets, [](std::int32_t target) { return target >= 0; });
}

void BatchLoader::fill(std::int64_t step) {
  const auto slot = static_cast<std::size_t>(step % 2);
  const auto length = static_cast<std::size_t>(plan_.seq_len());
  const PartOfSequence part = own_part(share_, length);
  const auto own = static_cast<std::uint64_t>(share_.sequences());
  const std::uint64_t all = own * static_cast<std::uint64_t>(share_.ranks);
  const std::uint64_t first = sequence_of_step_0_ + static_cast<std::uint64_t>(step) * all;
  const std::uint64_t begin = static_cast<std::uint64_t>(share_.rank) * own;
  counted_[slot] = 0;
  for (std::uint64_t i = 0; i < all; ++i) {
    if (i < begin || i >= begin + own) {
      counted_[slot] += counted_by_others(first + i);
      continue;
    }
    const std::span starts(document_starts_[slot]);
    counted_[slot] +=
        read(first + i, whole_targets_, starts.empty() ? starts : starts.subspan((i - begin) * length, length));
    const auto from = static_cast<std::ptrdiff_t>(part.begin);
    const auto to = static_cast<std::ptrdiff_t>((i - begin) * part.length);
    std::copy_n(window_.begin() + from, part.length, tokens_[slot].begin() + to);
    std::copy_n(whole_targets_.begin() + from, part.length, targets_[slot].begin() + to);
  }
}

std::int64_t BatchLoader::counted_by_others(std::uint64_t sequence) {
  if (mask_) return read(sequence, whole_targets_, other_starts_);
  return static_cast<std::int64_t>(learnt_targets(stream_, plan_.window(sequence)));
}

Batch BatchLoader::next(std::int64_t step) {
  if (step != next_step_) {
    stop();
    start(step);
  }
  // The batch of step - 1 is given back; its slot takes step + 1.
  wanted_.store(step + 2);
  wanted_.notify_one();
  for (std::int64_t filled = filled_.load(); filled <= step; filled = filled_.load()) filled_.wait(filled);
  // The step before a failed one is in its slot.
  if (failed_.load() <= step) std::rethrow_exception(failure_);
  next_step_ = step + 1;
  const auto slot = static_cast<std::size_t>(step % 2);
  return {tokens_[slot], targets_[slot], document_starts_[slot], counted_[slot]};
}

EvalBatches::EvalBatches(const TokenStream& stream, std::int64_t seq_len, const BatchShare& share, std::int64_t limit,
                         std::vector<TokenWindow> windows)
    : stream_(stream), seq_len_(static_cast<std::uint64_t>(seq_len)), share_(share), given_(std::move(windows)) {
  if (seq_len < 1 || stream.size() < 2) {
    throw UserError(fmt::format("{} held-out tokens for sequences of {}", stream.size(), seq_len),
                    "2 or more: a token and its target", "give more data, or --val-data");
  }
  targets_ = stream.size() - 1;
  std::uint64_t all = given_.empty() ? (targets_ - 1) / seq_len_ + 1 : given_.size();
  if (limit > 0) all = std::min(all, static_cast<std::uint64_t>(limit));
  const TokenWindow last = window(all - 1);
  targets_ = last.begin + last.tokens;
  if (stream.learnt(1, 1 + targets_) == 0) {
    throw UserError(fmt::format("no completion and no message of the assistant in {} held-out tokens", targets_),
                    "tokens that count in the loss", "give more data, or --val-data; or raise --eval-sequences");
  }
  // Windows of one micro-batch on every rank.
  const std::uint64_t round = static_cast<std::uint64_t>(share.ranks) * static_cast<std::uint64_t>(share.micro_batch);
  micro_batches_ = static_cast<std::int64_t>((all - 1) / round + 1);
}

TokenWindow EvalBatches::window(std::uint64_t index) const {
  TokenWindow found{index * seq_len_, seq_len_};
  if (!given_.empty()) found = index < given_.size() ? given_[index] : TokenWindow{targets_, 0};
  if (found.begin >= targets_) return {targets_, 0};
  found.tokens = std::min(found.tokens, targets_ - found.begin);
  return found;
}

void EvalBatches::fill(std::int64_t index, std::span<std::int32_t> tokens, std::span<std::int32_t> targets,
                       std::span<std::int32_t> document_starts) const {
  const auto batch = static_cast<std::uint64_t>(share_.micro_batch);
  assert_that("a micro-batch of this rank, and spans of its size", [&] {
    return index >= 0 && index < micro_batches_ && tokens.size() == ids_per_batch() && targets.size() == tokens.size();
  });
  std::fill(tokens.begin(), tokens.end(), 0);
  std::fill(targets.begin(), targets.end(), -1);
  std::ranges::fill(document_starts, 0);
  const std::uint64_t first = static_cast<std::uint64_t>(index * share_.ranks + share_.rank) * batch;
  const PartOfSequence part = own_part(share_, seq_len_);
  for (std::uint64_t i = 0; i < batch; ++i) {
    const TokenWindow found = window(first + i);
    const std::uint64_t at = i * part.length, from = found.begin + std::min<std::uint64_t>(part.begin, found.tokens);
    const std::uint64_t count = std::min<std::uint64_t>(part.length, found.begin + found.tokens - from);
    stream_.copy(from, count, tokens.data() + at);
    stream_.copy(from + 1, count, targets.data() + at);
    stream_.drop_ignored(from + 1, targets.subspan(at, count));
    if (found.tokens == 0 || document_starts.empty()) continue;
    stream_.document_starts(found.begin, document_starts.subspan(i * seq_len_, seq_len_));
  }
}

std::vector<TokenWindow> document_windows(const TokenStream& stream, std::int64_t seq_len) {
  const auto most = static_cast<std::uint64_t>(seq_len);
  const std::span<const std::uint64_t> begins = stream.document_begins();
  std::vector<TokenWindow> windows;
  TokenWindow open;
  const auto close = [&] {
    if (open.tokens > 0) windows.push_back(open);
    open = {open.begin + open.tokens, 0};
  };
  for (std::size_t i = 0; i < begins.size(); ++i) {
    std::uint64_t left = (i + 1 < begins.size() ? begins[i + 1] : stream.size()) - begins[i];
    if (open.tokens + left > most) close();
    for (; left > most; left -= most) {
      open.tokens = most;
      close();
    }
    open.tokens += left;
  }
  close();
  return windows;
}

}  // namespace weft::train
