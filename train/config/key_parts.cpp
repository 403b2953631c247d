// The keys whose value has parts: the ranks along axes, a pipeline's stages, rewrites, kernels, low-rank adapters,
// NCCL's ways.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/plan/rewrite.h"
#include "train/config/key_kinds.h"

namespace weft::train {

namespace {

constexpr std::string_view kAuto = "auto", kContext = "context", kExpert = "expert", kDefault = "default";

constexpr std::array kSizedAxes = {graph::Axis::x, graph::Axis::y, graph::Axis::z, graph::Axis::data,
                                   graph::Axis::pipe};

std::vector<std::string> names_of(std::span<const graph::Axis> axes) {
  std::vector<std::string> names;
  for (const graph::Axis axis : axes) names.emplace_back(graph::to_string(axis));
  return names;
}

void set_grid(RunConfig& config, std::string_view value, std::string_view where) {
  config.grid_auto = value == kAuto;
  if (config.grid_auto) return;  // the axes that were there say how many ranks, where nothing else does
  std::vector<std::string> names = names_of(kSizedAxes);
  names.insert(names.end(), {std::string(kContext), std::string(kExpert)});
  const MemberForm form{names, "axis", "an axis and its size",
                        "axes of x, y, z, pipe and data with their sizes, as in \"data=2\" or \"x=2,data=4\", and "
                        "context and expert, which divide z",
                        "data=2"};
  graph::Grid grid;
  grid.order = config.grid.order;
  for (const Member& member : members_of(value, where, form)) {
    const auto axis =
        std::ranges::find(kSizedAxes, member.name, [](graph::Axis each) { return graph::to_string(each); });
    std::int64_t& size = member.name == kContext ? grid.context : member.name == kExpert ? grid.expert : grid.on(*axis);
    size = parse_number<std::int64_t>(member.value, fmt::format("{}: {}", where, member.name), 1, 65536);
  }
  config.grid = grid;
}

void set_axis_order(RunConfig& config, std::string_view value, std::string_view where) {
  const std::vector<std::string> names = names_of(graph::kAxes);
  const std::vector<std::string_view> given = parts_of(value, ',');
  if (!std::is_permutation(given.begin(), given.end(), names.begin(), names.end())) {
    throw UserError(fmt::format("{} = \"{}\" isn't an order of the axes", where, value),
                    "x, y, z and data, each once; neighbouring ranks differ in the first", "x,y,z,data is the default");
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto place = std::find(names.begin(), names.end(), given[i]) - names.begin();
    config.grid.order.at(i) = graph::kAxes.at(static_cast<std::size_t>(place));
  }
}

// ---- rewrites, which are parsed when they are set: the graph's, and batch-split, which lowers another graph

constexpr std::string_view kBatchSplit = "batch-split";
constexpr std::int64_t kMostPieces = 1'000'000'000;

/// The pieces that "batch-split=4" asks for; 0 for another rewrite.
std::int64_t batch_split_of(std::string_view rewrite) {
  if (rewrite == kBatchSplit) return 2;
  if (!rewrite.starts_with(fmt::format("{}=", kBatchSplit))) return 0;
  const std::string_view digits = rewrite.substr(kBatchSplit.size() + 1);
  const auto pieces = number_in<std::int64_t>(digits);
  if (!pieces || *pieces < 2 || *pieces > kMostPieces) {
    throw UserError(fmt::format("rewrite \"{}\"", rewrite), "pieces of a micro-batch, from 2",
                    fmt::format("write {}=2", kBatchSplit));
  }
  return *pieces;
}

void set_rewrites(RunConfig& config, std::string_view value, std::string_view where) {
  try {
    std::vector<std::string_view> exact;
    std::int64_t pieces = 1;
    for (const std::string_view entry : parts_of(value, ';')) {
      if (const std::int64_t split = batch_split_of(entry); split == 0) {
        exact.push_back(entry);
      } else if (pieces > 1) {
        throw UserError(fmt::format("rewrite {} is given twice", kBatchSplit), "once", "leave one out");
      } else {
        pieces = split;
      }
    }
    config.rewrites = plan::parse_rewrites(fmt::format("{}", fmt::join(exact, ";")));
    config.batch_split = pieces;
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", where, error.what()), "", "");
  }
}

std::string rewrites_text(const RunConfig& config) {
  std::string exact = plan::to_string(config.rewrites);
  if (config.batch_split == 1) return exact;
  return fmt::format("{}={}{}{}", kBatchSplit, config.batch_split, exact.empty() ? "" : ";", exact);
}

// ---- adapters

constexpr const char* kLoraForm =
    "rank=N,alpha=X,on=qkv+out+mlp, as far as they differ from rank=8,alpha=16, or none; also rslora=true, and "
    "rank.q=N "
    "or alpha.q=X of one module";
constexpr const char* kLoraExample = "rank=8,alpha=16,on=qkv+out+mlp";
constexpr std::string_view kNoLora = "none";

/// The modules that a word means: a group, or one of them.
ops::LoraModules modules_named(std::string_view word) {
  for (const ops::LoraGroup& group : ops::kLoraGroups) {
    if (group.name == word) return group.modules;
  }
  for (const ops::LoraModule module : ops::kLoraModules) {
    if (ops::to_string(module) == word) return ops::only(module);
  }
  return {};
}

ops::LoraModules parse_modules(std::string_view words, std::string_view where) {
  ops::LoraModules modules;
  for (const std::string_view word : parts_of(words, '+')) {
    const ops::LoraModules named = modules_named(word);
    if (named.none() || (modules & named).any()) {
      throw UserError(fmt::format("{}: on={} {} \"{}\"", where, words, named.none() ? "names" : "repeats", word),
                      "qkv, out, mlp or several of them, or of q, k, v, gate, up and down",
                      "write on=qkv+out+mlp, or leave some out");
    }
    modules |= named;
  }
  return modules;
}

/// The members of one module: "rank.q", "alpha.q".
void set_own(ops::LoraConfig& lora, std::string_view name, std::string_view setting, std::string_view place) {
  for (const ops::LoraModule module : ops::kLoraModules) {
    const auto i = static_cast<std::size_t>(module);
    if (name.substr(name.find('.') + 1) != ops::to_string(module)) continue;
    if (name.starts_with("rank.")) lora.own_rank.at(i) = parse_number<std::int64_t>(setting, place, 1, 1 << 20);
    if (name.starts_with("alpha.")) lora.own_alpha.at(i) = parse_number<float>(setting, place, 1e-6, 1e6);
  }
}

bool parse_switch(std::string_view word, std::string_view place) {
  if (word == "true" || word == "false") return word == "true";
  throw UserError(fmt::format("{} = \"{}\"", place, word), "true or false", "write rslora=true, or leave it out");
}

ops::LoraConfig parse_lora(std::string_view value, std::string_view where) {
  ops::LoraConfig lora;
  if (value.empty() || value == kNoLora) return lora;
  lora.rank = 8;
  MemberForm form{{"rank", "alpha", "on", "rslora"}, "member", "a member and its value", kLoraForm, kLoraExample};
  for (const ops::LoraModule module : ops::kLoraModules) {
    form.names.push_back(fmt::format("rank.{}", ops::to_string(module)));
    form.names.push_back(fmt::format("alpha.{}", ops::to_string(module)));
  }
  for (const auto& [name, setting] : members_of(value, where, form)) {
    const std::string place = fmt::format("{}: {}", where, name);
    if (name == "rank") lora.rank = parse_number<std::int64_t>(setting, place, 1, 1 << 20);
    if (name == "alpha") lora.alpha = parse_number<float>(setting, place, 1e-6, 1e6);
    if (name == "on") lora.on = parse_modules(setting, where);
    if (name == "rslora") lora.rslora = parse_switch(setting, place);
    if (name.find('.') != std::string_view::npos) set_own(lora, name, setting, place);
  }
  // Two texts that mean the same are equal.
  for (std::int64_t& own : lora.own_rank) own = own == lora.rank ? 0 : own;
  for (float& own : lora.own_alpha) own = own == lora.alpha ? 0 : own;
  return lora;
}

// ---- NCCL's ways

using execute::NcclSettings;

constexpr const char* kNcclForm =
    "protocol=simple, ll or auto; channels=1 to 64, or auto; gathers=single or grouped; calls=background or "
    "supervised; buffers=plain or registered";
constexpr std::array kProtocols = {"simple", "ll", "auto"};

struct NcclSwitch {
  std::string_view name, off, on;
  bool NcclSettings::*field;
};
constexpr std::array kNcclSwitches = {NcclSwitch{"gathers", "single", "grouped", &NcclSettings::grouped_gathers},
                                      NcclSwitch{"calls", "background", "supervised", &NcclSettings::supervised},
                                      NcclSwitch{"buffers", "plain", "registered", &NcclSettings::registered}};

NcclSettings parse_nccl(std::string_view value, std::string_view where) {
  constexpr std::int64_t kMostChannels = 64;  // MAXCHANNELS of NCCL, which takes more for as many
  NcclSettings settings;
  if (value.empty() || value == kDefault) return settings;
  const MemberForm form{{"protocol", "channels", "gathers", "calls", "buffers"},
                        "setting",
                        "a setting and its value",
                        kNcclForm,
                        "protocol=auto,channels=8"};
  for (const auto& [name, chosen] : members_of(value, where, form)) {
    const std::string place = fmt::format("{}: {}", where, name);
    const auto expect = [&, name = name, chosen = chosen](bool known) {
      if (!known)
        throw UserError(fmt::format("{} = \"{}\"", place, chosen), kNcclForm, fmt::format("leave {} out", name));
    };
    if (name == "protocol") {
      const auto found = std::ranges::find(kProtocols, chosen);
      expect(found != kProtocols.end());
      settings.protocol = static_cast<NcclSettings::Protocol>(found - kProtocols.begin());
    }
    if (name == "channels") {
      settings.channels = chosen == kAuto ? 0 : parse_number<std::int64_t>(chosen, place, 1, kMostChannels);
    }
    for (const NcclSwitch& each : kNcclSwitches) {
      if (name != each.name) continue;
      expect(chosen == each.off || chosen == each.on);
      settings.*each.field = chosen == each.on;
    }
  }
  return settings;
}

std::string nccl_text(const NcclSettings& settings) {
  std::vector<std::string> parts;
  if (settings.protocol != NcclSettings::Protocol::simple) {
    parts.push_back(fmt::format("protocol={}", kProtocols.at(static_cast<std::size_t>(settings.protocol))));
  }
  if (settings.channels > 0) parts.push_back(fmt::format("channels={}", settings.channels));
  for (const NcclSwitch& each : kNcclSwitches) {
    if (settings.*each.field) parts.push_back(fmt::format("{}={}", each.name, each.on));
  }
  return parts.empty() ? std::string(kDefault) : fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace

ConfigKey ranks_key() {
  return with_effect(
      number_key("ranks",
                 "how many ranks to start as threads of this process; 0: as many as the grid has, or as mpirun started",
                 &RunConfig::ranks, 0, 1 << 20),
      [](RunConfig& config, const RunConfig& before) {
        if (config.ranks != before.ranks) config.grid.data = 1;
      });
}

ConfigKey grid_key() {
  return {
      "grid",
      ValueKind::text,
      "text",
      "ranks along each axis, as in x=2,z=2,data=2: x, y and z cut matrices, pipe cuts layers, z and data cut the "
      "batch; context=2 lets two neighbours on z share their sequences, each with half of the rows, and expert=2 lets "
      "two of them share out the experts of each layer. An axis that is left out is 1; data takes the ranks that the "
      "others leave. auto, for `weft train` alone: the fastest grid that `weft search` finds, with axis-order, "
      "micro-batch, recompute, reshard-after-forward and zero-1 as far as they aren't set",
      set_grid,
      [](const RunConfig& config) { return config.grid_auto ? std::string(kAuto) : graph::to_string(config.grid); }};
}

ConfigKey axis_order_key() {
  return {"axis-order",   ValueKind::text,
          "text",         "the order of the axes: neighbouring ranks differ in the first",
          set_axis_order, [](const RunConfig& config) { return join(names_of(config.grid.order), ","); }};
}

ConfigKey stages_key() {
  return parsed_key(
      "stages", ValueKind::text, "text",
      "layers of each pipeline stage in turn, as in 7,8,8,9; empty: the division with the shortest longest stage",
      &RunConfig::stages,
      [](std::string_view value, std::string_view where) {
        std::vector<std::int64_t> layers;
        if (value.empty()) return layers;
        for (const std::string_view part : parts_of(value, ','))
          layers.push_back(parse_number<std::int64_t>(part, where, 1, 65536));
        return layers;
      },
      [](const std::vector<std::int64_t>& layers) { return fmt::format("{}", fmt::join(layers, ",")); });
}

ConfigKey rewrites_key() {
  return {
      "rewrites",
      ValueKind::text,
      "text",
      "changes to the graph, as in \"bucket=25MB;reshard\". reshard=LAYERS, recompute=LAYERS and pack-weights=USES "
      "keep every bit. bucket=BYTES, split-collective=BYTES and ar-to-rs-ag do so too, except over NCCL in groups of "
      "three ranks or more, where sums may round otherwise. fuse-gelu, fuse-residual and fuse-bias-gradient keep every "
      "bit on CPUs; GPUs round otherwise. batch-split=PIECES cuts a micro-batch and changes roundings",
      set_rewrites,
      rewrites_text};
}

ConfigKey gpu_kernels_key() {
  using Kernel = bool execute::GpuKernels::*;
  static const std::vector<Word<Kernel>> names = {{"early-start", &execute::GpuKernels::early_start},
                                                  {"clustered-loss", &execute::GpuKernels::clustered_loss},
                                                  {"masked-mma", &execute::GpuKernels::masked_mma},
                                                  {"grouped-mma", &execute::GpuKernels::grouped_mma}};
  return parsed_key(
      "gpu-kernels", ValueKind::text, "NAME,...",
      "with device cuda: forms of kernels that no GPU has timed yet. early-start: elementwise kernels begin while the "
      "kernel before them ends; clustered-loss: a cluster of blocks shares a row of the loss (both with the same bits, "
      "from compute capability 9.0 on); masked-mma: windows and documents, grouped-mma: products of "
      "experts, in bf16 on tensor cores",
      &RunConfig::gpu_kernels,
      [](std::string_view value, std::string_view where) {
        execute::GpuKernels chosen;
        if (value.empty()) return chosen;
        for (const std::string_view part : parts_of(value, ',')) chosen.*value_of_word(names, part, where) = true;
        return chosen;
      },
      [](const execute::GpuKernels& chosen) {
        std::vector<std::string> on;
        for (const auto& [name, member] : names) {
          if (chosen.*member) on.push_back(name);
        }
        return join(on, ",");
      });
}

ConfigKey lora_key() {
  return parsed_key(
      "lora", ValueKind::text, "rank=N,alpha=X,on=LAYERS",
      "train low-rank adapters of the layers qkv, out and mlp, or of single ones as in on=q+v, and nothing else, over "
      "the weights of init-from; without rank, alpha or on: rank=8,alpha=16,on=qkv+out+mlp; none: train all weights",
      &ops::ModelConfig::lora, parse_lora,
      [](const ops::LoraConfig& lora) { return lora.used() ? ops::to_string(lora) : std::string(kNoLora); });
}

ConfigKey nccl_key() {
  return parsed_key(
      "nccl", ValueKind::text, "SETTINGS",
      "with communicator nccl: how NCCL works, as in protocol=auto,channels=8. protocol=ll or auto (NCCL's choice) and "
      "channels=N change bits, but repeat them. gathers=grouped runs neighbouring gathers as one, calls=supervised "
      "makes calls without a thread for each, buffers=registered lets NCCL know its buffers: the bits stay the same",
      &RunConfig::nccl, parse_nccl, nccl_text);
}

}  // namespace weft::train
