#include "runtime/plan/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/overloaded.h"
#include "base/units.h"

namespace weft::plan {
namespace {

constexpr std::string_view kBucket = "bucket", kSplit = "split-collective", kHalves = "ar-to-rs-ag",
                           kReshard = "reshard", kRecompute = "recompute", kPack = "pack-weights", kFuse = "fuse-gelu",
                           kFuseResidual = "fuse-residual", kFuseBias = "fuse-bias-gradient";
constexpr std::int64_t kMostBucketBytes = std::int64_t{1} << 40;
constexpr std::int32_t kMostLayers = 100'000;
constexpr std::int64_t kMostUses = 1'000'000;

std::string layers_text(const std::vector<std::int32_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "=" : ",", layers[i]);
    if (end - i > 1) text += fmt::format("-{}", layers[end - 1]);
    i = end;
  }
  return text;
}

[[noreturn]] void refuse(std::string_view entry, std::string_view expected, std::string_view fix) {
  throw UserError(fmt::format("rewrite \"{}\"", entry), expected, fix);
}

std::int64_t parse_bytes(std::string_view entry, std::string_view value) {
  std::int64_t unit = 1;
  std::string_view digits = value;
  for (const auto& [ending, bytes] :
       {std::pair{"KB", std::int64_t{1} << 10}, {"MB", std::int64_t{1} << 20}, {"GB", std::int64_t{1} << 30}}) {
    if (!value.ends_with(ending)) continue;
    unit = bytes;
    digits.remove_suffix(2);
  }
  const auto count = number_in<std::int64_t>(digits);
  if (!count || *count < 1 || *count > kMostBucketBytes / unit) {
    refuse(entry, "a number of bytes from 1 to 1024GB, as in 4096, 64KB or 25MB", "write it as in bucket=25MB");
  }
  return *count * unit;
}

std::vector<std::int32_t> parse_layers(std::string_view entry, std::string_view value) {
  std::vector<std::int32_t> layers;
  while (true) {
    const std::string_view part = value.substr(0, value.find(','));
    const std::size_t dash = part.find('-');
    const auto first = number_in<std::int32_t>(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_in<std::int32_t>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMostLayers) {
      refuse(entry, fmt::format("layers from 0 to {} and ranges of them", kMostLayers - 1),
             "write them as in recompute=0-3,7");
    }
    for (std::int32_t layer = *first; layer <= *last; ++layer) layers.push_back(layer);
    if (part.size() == value.size()) break;
    value.remove_prefix(part.size() + 1);
    if (layers.size() > static_cast<std::size_t>(kMostLayers)) refuse(entry, "each layer once", "leave some out");
  }
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

std::int64_t parse_uses(std::string_view entry, std::string_view value) {
  const auto uses = number_in<std::int64_t>(value);
  if (!uses || *uses < 1 || *uses > kMostUses) {
    refuse(entry, fmt::format("a number of products from 1 to {}", kMostUses), "write it as in pack-weights=2");
  }
  return *uses;
}

PackWeights parse_packing(std::string_view entry, std::string_view value) {
  const std::size_t comma = value.find(',');
  PackWeights packing{parse_uses(entry, value.substr(0, comma))};
  if (comma == std::string_view::npos) return packing;
  const std::string_view unit = value.substr(comma + 1);
  const auto* const known = std::ranges::find(kPackedUnits, unit, [](const auto& each) { return each.first; });
  if (known == kPackedUnits.end()) {
    refuse(entry, "fp32, pairs or amx as the unit for bf16", "write it as in pack-weights=2,fp32");
  }
  packing.bf16 = known->second;
  return packing;
}

Rewrite parse_rewrite(std::string_view entry) {
  const std::size_t equals = entry.find('=');
  const std::string_view name = entry.substr(0, equals);
  std::optional<std::string_view> value;
  if (equals != std::string_view::npos) value = entry.substr(equals + 1);
  if (name == kBucket) return value ? BucketAllReduces{parse_bytes(entry, *value)} : BucketAllReduces{};
  if (name == kSplit) return value ? SplitAllReduces{parse_bytes(entry, *value)} : SplitAllReduces{};
  if (name == kReshard) return ReshardAfterForward{value ? parse_layers(entry, *value) : std::vector<std::int32_t>()};
  if (name == kRecompute) return RecomputeLayers{value ? parse_layers(entry, *value) : std::vector<std::int32_t>()};
  if (name == kPack) return value ? parse_packing(entry, *value) : PackWeights{};
  for (const Rewrite& plain :
       {Rewrite(ReduceScatterAllGather{}), Rewrite(FuseGelu{}), Rewrite(FuseResidual{}), Rewrite(FuseBiasGradient{})}) {
    if (name != to_string(plain)) continue;
    if (value) refuse(entry, "no value", fmt::format("write {}", name));
    return plain;
  }
  const std::vector<std::string> names = {std::string(kBucket),  std::string(kSplit),        std::string(kHalves),
                                          std::string(kReshard), std::string(kRecompute),    std::string(kPack),
                                          std::string(kFuse),    std::string(kFuseResidual), std::string(kFuseBias)};
  const std::string nearest = nearest_name(name, names);
  throw UserError(fmt::format("unknown rewrite \"{}\"", name),
                  fmt::format("one of {}, separated by semicolons", join(names)),
                  nearest.empty() ? "write them as in \"bucket=25MB;reshard\"" : fmt::format("write {}", nearest));
}

}  // namespace

bool packs_weights(std::span<const Rewrite> rewrites) {
  return std::ranges::any_of(rewrites, [](const Rewrite& each) { return std::holds_alternative<PackWeights>(each); });
}

bool fuses_gelu(std::span<const Rewrite> rewrites) {
  return std::ranges::any_of(rewrites, [](const Rewrite& each) { return std::holds_alternative<FuseGelu>(each); });
}

bool is_fusion(const Rewrite& rewrite) {
  return std::holds_alternative<FuseGelu>(rewrite) || std::holds_alternative<FuseResidual>(rewrite) ||
         std::holds_alternative<FuseBiasGradient>(rewrite);
}

std::string to_string(const Rewrite& rewrite) {
  return std::visit(
      Overloaded{[](const BucketAllReduces& r) { return fmt::format("{}={}", kBucket, r.bytes); },
                 [](const SplitAllReduces& r) { return fmt::format("{}={}", kSplit, r.bytes); },
                 [](const ReduceScatterAllGather&) { return std::string(kHalves); },
                 [](const ReshardAfterForward& r) { return fmt::format("{}{}", kReshard, layers_text(r.layers)); },
                 [](const RecomputeLayers& r) { return fmt::format("{}{}", kRecompute, layers_text(r.layers)); },
                 [](const PackWeights& r) {
                   return fmt::format("{}={}{}", kPack, r.uses, r.bf16 ? fmt::format(",{}", to_string(*r.bf16)) : "");
                 },
                 [](const FuseGelu&) { return std::string(kFuse); },
                 [](const FuseResidual&) { return std::string(kFuseResidual); },
                 [](const FuseBiasGradient&) { return std::string(kFuseBias); }},
      rewrite);
}

std::string to_string(std::span<const Rewrite> rewrites) {
  std::string text;
  for (const Rewrite& rewrite : rewrites) text += (text.empty() ? "" : ";") + to_string(rewrite);
  return text;
}

std::vector<Rewrite> parse_rewrites(std::string_view text) {
  std::vector<Rewrite> rewrites;
  if (text.empty()) return rewrites;
  while (true) {
    const std::string_view entry = text.substr(0, text.find(';'));
    rewrites.push_back(parse_rewrite(entry));
    if (entry.size() == text.size()) return rewrites;
    text.remove_prefix(entry.size() + 1);
  }
}

}  // namespace weft::plan
