#include "train/config/idle_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "train/config/config_table.h"
#include "train/config/saved_model.h"

namespace weft::train {
namespace {

struct Idle {
  std::string_view key;  // its name, or how several names begin, followed by *
  bool (*here)(const RunConfig&);
  std::string_view because, expected;
};

bool on_cpu(const RunConfig& config) {
  return config.device == DeviceKind::cpu;
}
bool may_use_nccl(const RunConfig& config) {
  return config.communicator == CommunicatorKind::automatic || config.communicator == CommunicatorKind::nccl;
}
bool unscaled(const RunConfig& config) {
  return config.model.rope_scaling_factor == 1.0F && config.model.rotary_factor() == 1.0F;
}

constexpr Idle kIdle[] = {
    {"model.rope*", [](const RunConfig& c) { return c.model.parts().learned_positions; },
     "in a model of family gpt2, which has learned positions", "--model.family llama"},
    {"model.rope-low-freq-factor", unscaled, "without a scaling", "--model.rope-scaling-factor above 1"},
    {"model.rope-high-freq-factor", unscaled, "without a scaling", "--model.rope-scaling-factor above 1"},
    {"model.rope-original-context", unscaled, "without a scaling", "--model.rope-scaling-factor above 1"},
    {"model.rope-attention-factor", [](const RunConfig& c) { return c.model.rope_scaling != ops::RopeKind::yarn; },
     "with another scaling than yarn", "--model.rope-scaling yarn"},
    {"model.rope-truncate", [](const RunConfig& c) { return c.model.rope_scaling != ops::RopeKind::yarn; },
     "with another scaling than yarn", "--model.rope-scaling yarn"},
    {"model.window-from", [](const RunConfig& c) { return c.model.window == 0; }, "without a window",
     "--model.window N"},
    {"model.init-std", [](const RunConfig& c) { return !c.init_from.empty() && !c.model.lora.used(); },
     "with init-from, which gives all weights", "no --init-from"},
    {"expert-load", [](const RunConfig& c) { return c.model.experts > 0 && c.grid.expert == 1 && !c.grid_auto; },
     "on a grid without expert=P, whose ranks all compute with all experts", "--grid with expert=P"},
    {"expert-load", [](const RunConfig& c) { return c.machine.empty() && c.profile.empty(); },
     "without a machine: it is about costs", "--machine"},
    {"bf16-products", [](const RunConfig& c) { return c.dtype != DType::bf16; }, "with dtype fp32", "--dtype bf16"},
    {"bf16-products", [](const RunConfig& c) { return !on_cpu(c); }, "with device cuda", "--device cpu"},
    {"cuda-graph", on_cpu, "with device cpu", "--device cuda"},
    {"attention-workspace", on_cpu, "with device cpu", "--device cuda"},
    {"attention-gradient", on_cpu, "with device cpu", "--device cuda"},
    {"attention-gradient", [](const RunConfig& c) { return c.dtype != DType::bf16; }, "with dtype fp32",
     "--dtype bf16"},
    {"tf32", on_cpu, "with device cpu", "--device cuda"},
    {"gpu-kernels", on_cpu, "with device cpu", "--device cuda"},
    {"tf32", [](const RunConfig& c) { return c.dtype != DType::f32; }, "with dtype bf16", "--dtype fp32"},
    {"nccl", on_cpu, "with device cpu", "--device cuda"},
    {"nccl", [](const RunConfig& c) { return !on_cpu(c) && !may_use_nccl(c); }, "with another communicator",
     "--communicator nccl, or auto"},
    {"checkpoint-copy", on_cpu, "with device cpu", "--device cuda"},
    {"trace-every", on_cpu, "with device cpu", "--device cuda"},
    {"min-lr", [](const RunConfig& c) { return c.schedule == Schedule::constant; }, "with schedule constant",
     "another --schedule"},
    {"checkpoint-copy", [](const RunConfig& c) { return !c.save; }, "without checkpoints", "no --no-save"},
    {"save-every", [](const RunConfig& c) { return !c.save; }, "without checkpoints", "no --no-save"},
    {"keep-last", [](const RunConfig& c) { return !c.save; }, "without checkpoints", "no --no-save"},
    {"keep-every", [](const RunConfig& c) { return !c.save; }, "without checkpoints", "no --no-save"},
    {"val-split", [](const RunConfig& c) { return !c.val_data.empty(); }, "with val-data, which is held out",
     "no --val-data"}};

bool is_about(const Idle& idle, std::string_view key) {
  return idle.key.ends_with('*') ? key.starts_with(idle.key.substr(0, idle.key.size() - 1)) : key == idle.key;
}

}  // namespace

void refuse_idle_keys(const RunConfig& config, std::span<const Setting> settings, KeyUse use) {
  const auto first = std::ranges::find_if(settings, [](const Setting& setting) {
    return std::ranges::any_of(kIdle, [&](const Idle& idle) { return is_about(idle, table_name(setting.key)); });
  });
  if (first == settings.end()) return;
  RunConfig meant = config;
  try {
    take_saved_model(meant);
  } catch (const UserError&) {
    return;  // is refused for what it is when it is filled in
  }
  if (use.tries_grids) meant.grid_auto = true;
  if (use.takes_laptop && meant.machine.empty()) meant.machine = "laptop";
  for (const Setting& setting : settings) {
    const ConfigKey& key = find_key(setting.key, setting.source);
    if (key.get(config) == key.default_value) continue;
    for (const Idle& idle : kIdle) {
      if (!is_about(idle, key.name) || !idle.here(meant)) continue;
      throw UserError(fmt::format("{} = {} has no effect {}", key.name, key.get(config), idle.because),
                      fmt::format("{} for it", idle.expected), fmt::format("leave {} out", key.name));
    }
  }
}

}  // namespace weft::train
