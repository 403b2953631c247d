// Low-rank adapters as a configuration describes them: the modules that have one, their ranks and scales.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::ops {

/// The linear layers of a block that may have an adapter: queries, keys, values and output of attention; gate, up and
/// down of the MLP.
enum class LoraModule : std::uint8_t { q, k, v, out, gate, up, down };

inline constexpr std::array kLoraModules = {LoraModule::q,    LoraModule::k,  LoraModule::v,   LoraModule::out,
                                            LoraModule::gate, LoraModule::up, LoraModule::down};

std::string_view to_string(LoraModule module);

/// A set of modules.
using LoraModules = std::bitset<kLoraModules.size()>;

inline constexpr LoraModules kLoraQkv{0b000'0111}, kLoraOut{0b000'1000}, kLoraMlp{0b111'0000}, kLoraAll{0b111'1111};

/// The set of one.
constexpr LoraModules only(LoraModule module) {
  return LoraModules{std::uint64_t{1} << static_cast<unsigned>(module)};
}

/// Sets of modules that have a name: "qkv", "out", "mlp".
struct LoraGroup {
  std::string_view name;
  LoraModules modules;
};
inline constexpr std::array kLoraGroups = {LoraGroup{"qkv", kLoraQkv}, LoraGroup{"out", kLoraOut},
                                           LoraGroup{"mlp", kLoraMlp}};

/// Low-rank adapters (LoRA, Hu et al. 2021) of linear layers: y = x·Wᵀ + scale · (x·Aᵀ)·Bᵀ, A [rank, in], B [out,
/// rank]. The scale is alpha/rank, or alpha/√rank (rsLoRA, Kalajdzievski 2023). A model with adapters trains them
/// alone.
struct LoraConfig {
  std::int64_t rank = 0;  // 0: no adapters
  float alpha = 16.0F;
  LoraModules on = kLoraAll;  // the modules that have one
  bool rslora = false;
  // What single modules have instead of `rank` and `alpha`; 0: these.
  std::array<std::int64_t, kLoraModules.size()> own_rank = {};
  std::array<float, kLoraModules.size()> own_alpha = {};

  bool used() const { return rank > 0; }
  bool has(LoraModule module) const { return on.test(static_cast<std::size_t>(module)); }
  std::int64_t rank_of(LoraModule module) const;
  float alpha_of(LoraModule module) const;
  float scale_of(LoraModule module) const;
  /// Whether every module has the same rank and alpha, and `on` consists of groups: what a run of any version has.
  bool is_plain() const;
  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

/// "qkv+out", "q+v".
std::string to_string(const LoraModules& modules);

/// "rank=8,alpha=16,on=qkv+out+mlp", "rank=8,alpha=16,on=q+v,rslora=true,rank.v=4,alpha.v=32".
std::string to_string(const LoraConfig& lora);

}  // namespace weft::ops
