#include "train/data/goldfish_mask.h"

#include <cstddef>
#include <limits>

#include "base/hash.h"
#include "base/philox.h"

namespace weft::train {
namespace {

constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;
constexpr std::uint32_t kSite = 0xDA7A0200U;  // of Philox
constexpr std::int32_t kDropped = -1;

/// Thomas Wang's hash, of 32 bits as the paper's code takes it: some of its steps aren't cut to them.
std::uint64_t wang_32(std::uint64_t key) {
  constexpr std::uint64_t kMask = 0xffffffffULL;
  key = (~key + (key << 21)) & kMask;
  key = (key << 21) - key - 1;
  key ^= key >> 24;
  key = (key + (key << 3) + (key << 8)) & kMask;
  key *= 265;
  key ^= key >> 14;
  key = (key + (key << 2) + (key << 4)) & kMask;
  key *= 21;
  key ^= key >> 28;
  return (key + (key << 31)) & kMask;
}

}  // namespace

GoldfishMask::GoldfishMask(const Goldfish& goldfish, std::uint64_t seed, Contexts contexts)
    : goldfish_(goldfish),
      contexts_(contexts),
      seed_(seed),
      k_(static_cast<std::uint64_t>(goldfish.k)),
      oldest_(1),
      h_(static_cast<std::size_t>(goldfish.h)) {
  for (std::size_t i = 0; i < h_; ++i) oldest_ *= kFactor;
}

void GoldfishMask::drop(std::span<const std::int32_t> window, std::span<const std::int32_t> document_starts,
                        std::uint64_t sequence, std::span<std::int32_t> targets) const {
  switch (goldfish_.strategy) {
    case Goldfish::Strategy::hash:
      return drop_by_hash(window, document_starts, targets);
    case Goldfish::Strategy::avalanche:
      return drop_by_product(window, document_starts, targets);
    case Goldfish::Strategy::fixed:
      for (std::size_t t = 0; t < targets.size(); t += k_) targets[t] = kDropped;
      return;
    case Goldfish::Strategy::random:
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const std::uint64_t element = sequence * targets.size() + t;
        const std::uint32_t word = philox_quad(seed_, 0, kSite, element / 4)[element % 4];
        if (word < std::numeric_limits<std::uint32_t>::max() / k_) targets[t] = kDropped;
      }
      return;
  }
}

std::size_t GoldfishMask::tokens_before(std::size_t t, std::span<const std::int32_t> document_starts) const {
  if (contexts_ == Contexts::cross_documents) return t + 1;
  return t + 1 - static_cast<std::size_t>(document_starts[t]);
}

void GoldfishMask::drop_by_hash(std::span<const std::int32_t> window, std::span<const std::int32_t> document_starts,
                                std::span<std::int32_t> targets) const {
  const auto mixed_id = [](std::int32_t id) { return mixed_bits(static_cast<std::uint64_t>(id)); };
  std::uint64_t key = 0;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    key = key * kFactor + mixed_id(window[t]);
    if (t >= h_) key -= oldest_ * mixed_id(window[t - h_]);
    if (tokens_before(t, document_starts) < h_) continue;
    if (mixed_bits(key) < std::numeric_limits<std::uint64_t>::max() / k_) targets[t] = kDropped;
  }
}

void GoldfishMask::drop_by_product(std::span<const std::int32_t> window, std::span<const std::int32_t> document_starts,
                                   std::span<std::int32_t> targets) const {
  const double limit = 4294967295.0 / static_cast<double>(k_);
  for (std::size_t t = h_ - 1; t < targets.size(); ++t) {
    if (tokens_before(t, document_starts) < h_) continue;
    std::uint64_t product = 1;
    for (const std::int32_t id : window.subspan(t + 2 - h_, h_)) product *= static_cast<std::uint64_t>(id);
    if (static_cast<double>(wang_32(product)) < limit) targets[t] = kDropped;
  }
}

}  // namespace weft::train
