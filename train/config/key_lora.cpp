#include "train/config/key_lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text/parse_number.h"

namespace weft::train {
namespace {

constexpr const char* kLoraForm = "rank=N,alpha=X,on=qkv+out+mlp, as far as they differ from rank=8,alpha=16, or none";
constexpr std::string_view kNone = "none";

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void set_layers(ops::LoraConfig& lora, std::string_view layers, std::string_view where) {
  lora.qkv = lora.out = lora.mlp = false;
  for (const std::string_view layer : split(layers, '+')) {
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
  std::set<std::string_view> seen;
  for (const std::string_view part : split(value, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const std::string_view setting = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    const std::string place = fmt::format("{}: {}", where, name);
    const bool known = name == "rank" || name == "alpha" || name == "on";
    if (!known || equals == std::string_view::npos || !seen.insert(name).second) {
      throw UserError(fmt::format("{} = \"{}\" has {} \"{}\"", where, value,
                                  known && equals != std::string_view::npos ? "a second" : "the part", part),
                      kLoraForm, "write rank=8,alpha=16,on=qkv+out+mlp");
    }
    if (name == "rank") lora.rank = parse_number<std::int64_t>(setting, place, 1, 1 << 20);
    if (name == "alpha") lora.alpha = parse_number<float>(setting, place, 1e-6, 1e6);
    if (name == "on") set_layers(lora, setting, where);
  }
  return lora;
}

}  // namespace

ConfigEntry lora_key() {
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
