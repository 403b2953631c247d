#include "ops/lora_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace weft::ops {

std::string_view to_string(LoraModule module) {
  constexpr std::array<std::string_view, kLoraModules.size()> kNames = {"q", "k", "v", "out", "gate", "up", "down"};
  return kNames.at(static_cast<std::size_t>(module));
}

std::int64_t LoraConfig::rank_of(LoraModule module) const {
  const std::int64_t own = own_rank.at(static_cast<std::size_t>(module));
  return own > 0 ? own : rank;
}

float LoraConfig::alpha_of(LoraModule module) const {
  const float own = own_alpha.at(static_cast<std::size_t>(module));
  return own > 0 ? own : alpha;
}

float LoraConfig::scale_of(LoraModule module) const {
  const auto divisor = static_cast<float>(rank_of(module));
  return alpha_of(module) / (rslora ? std::sqrt(divisor) : divisor);
}

bool LoraConfig::is_plain() const {
  const bool in_groups = std::ranges::all_of(kLoraGroups, [&](const LoraGroup& group) {
    const LoraModules common = on & group.modules;
    return common.none() || common == group.modules;
  });
  return in_groups && !rslora && own_rank == LoraConfig().own_rank && own_alpha == LoraConfig().own_alpha;
}

std::string to_string(const LoraModules& modules) {
  std::vector<std::string_view> names;
  for (const LoraGroup& group : kLoraGroups) {
    if ((modules & group.modules) == group.modules) {
      names.push_back(group.name);
      continue;
    }
    for (const LoraModule module : kLoraModules) {
      if ((modules & group.modules & only(module)).any()) names.push_back(to_string(module));
    }
  }
  return fmt::format("{}", fmt::join(names, "+"));
}

std::string to_string(const LoraConfig& lora) {
  std::string text = fmt::format("rank={},alpha={},on={}", lora.rank, lora.alpha, to_string(lora.on));
  if (lora.rslora) text += ",rslora=true";
  for (const LoraModule module : kLoraModules) {
    const auto i = static_cast<std::size_t>(module);
    if (lora.own_rank.at(i) > 0) text += fmt::format(",rank.{}={}", to_string(module), lora.own_rank.at(i));
    if (lora.own_alpha.at(i) > 0) text += fmt::format(",alpha.{}={}", to_string(module), lora.own_alpha.at(i));
  }
  return text;
}

}  // namespace weft::ops
