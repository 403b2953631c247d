// The key of low-rank adapters: "rank=8,alpha=16,on=qkv+out+mlp".
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "train/config/config_table.h"
#include "train/config/key_kinds.h"

namespace weft::train {
namespace {

constexpr const char* kLoraForm = "rank=N,alpha=X,on=qkv+out+mlp, as far as they differ from rank=8,alpha=16, or none";
constexpr const char* kExample = "rank=8,alpha=16,on=qkv+out+mlp";
constexpr std::string_view kNone = "none";

void set_layers(ops::LoraConfig& lora, std::string_view layers, std::string_view where) {
  lora.qkv = lora.out = lora.mlp = false;
  for (const std::string_view layer : parts_of(layers, '+')) {
    bool* const member = layer == "qkv" ? &lora.qkv : layer == "out" ? &lora.out : layer == "mlp" ? &lora.mlp : nullptr;
    if (member == nullptr || *member) {
      throw UserError(fmt::format("{}: on={} {} \"{}\"", where, layers, member == nullptr ? "names" : "repeats", layer),
                      "qkv, out, mlp or several of them", "write on=qkv+out+mlp, or leave some out");
    }
    *member = true;
  }
}

ops::LoraConfig parse_lora(std::string_view value, std::string_view where) {
  ops::LoraConfig lora;
  if (value.empty() || value == kNone) return lora;
  lora.rank = 8;
  const MemberForm form{{"rank", "alpha", "on"}, "member", "a member and its value", kLoraForm, kExample};
  for (const auto& [name, setting] : members_of(value, where, form)) {
    const std::string place = fmt::format("{}: {}", where, name);
    if (name == "rank") lora.rank = parse_number<std::int64_t>(setting, place, 1, 1 << 20);
    if (name == "alpha") lora.alpha = parse_number<float>(setting, place, 1e-6, 1e6);
    if (name == "on") set_layers(lora, setting, where);
  }
  return lora;
}

}  // namespace

ConfigKey lora_key() {
  return {"lora",
          ValueKind::text,
          "rank=N,alpha=X,on=LAYERS",
          "train low-rank adapters of the layers qkv, out and mlp, and nothing else, over the weights of init-from; "
          "without rank, alpha or on: rank=8,alpha=16,on=qkv+out+mlp; none: train all weights",
          [](RunConfig& config, std::string_view value, std::string_view where) {
            config.model.lora = parse_lora(value, where);
          },
          [](const RunConfig& config) {
            const ops::LoraConfig& lora = config.model.lora;
            return lora.used() ? ops::to_string(lora) : std::string(kNone);
          }};
}

}  // namespace weft::train
