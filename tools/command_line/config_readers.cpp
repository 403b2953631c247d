#include "tools/command_line/config_readers.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/config/config.h"

namespace weft::tools {
namespace {

using train::KeyGroup;

struct Reader {
  std::string_view command;
  std::vector<KeyGroup> groups;
  std::vector<std::string_view> keys;          // single ones of other groups
  bool graph_files = false;                    // takes an open graph in place of a configuration
  std::vector<std::string_view> without = {};  // keys of the groups that have no effect: policies are named otherwise
  train::KeyUse use = {};
};

/// Of a step that is compiled and simulated.
std::vector<KeyGroup> planning_groups() {
  return {KeyGroup::model, KeyGroup::sizes, KeyGroup::step, KeyGroup::grid, KeyGroup::plan, KeyGroup::machine};
}

/// The graph of a step has a task for clipping, and the plan depends on what the device's products read. Policies draw
/// by the seed.
std::vector<std::string_view> simulated(std::vector<std::string_view> more = {}) {
  more.insert(more.end(), {"seed", "clip", "device", "bf16-products"});
  return more;
}

/// Of a step that runs on this machine.
std::vector<std::string_view> measured() {
  return simulated({"threads", "bind", "communicator", "cuda-graph", "attention-workspace", "attention-gradient",
                    "tf32", "gpu-kernels", "nccl", "watchdog", "peer-timeout", "network", "token-file"});
}

/// Plan files and drawn tasks have the numbers of their operations.
std::vector<std::string_view> written() {
  return simulated({"beta1", "beta2", "eps", "weight-decay"});
}

constexpr train::KeyUse kGrids{.tries_grids = true}, kSimulates{.takes_laptop = true},
    kSearches{.tries_grids = true, .takes_laptop = true};

const std::vector<Reader>& readers() {
  static const std::vector<Reader> list = {
      {"train",
       {KeyGroup::model, KeyGroup::sizes, KeyGroup::step, KeyGroup::data, KeyGroup::optimizer, KeyGroup::grid,
        KeyGroup::plan, KeyGroup::machine, KeyGroup::device, KeyGroup::run},
       {}},
      {"eval",
       {KeyGroup::data},
       {"ranks", "grid", "threads", "micro-batch", "eval-sequences", "dtype", "seq-len", "gemm-tuning", "bf16-products",
        "peer-timeout", "network", "token-file"}},
      {"graph", planning_groups(), written(), true},
      {"timeline", planning_groups(), simulated(), true, {}, kSimulates},
      {"plan", planning_groups(), written(), true},
      {"memory", planning_groups(), simulated({"attention-workspace", "communicator"}), false, {}, kGrids},
      {"simulate", planning_groups(), simulated(), true, {}, kSimulates},
      {"search", planning_groups(), simulated(), false, {"policy"}, kSearches},
      {"sweep", planning_groups(), simulated()},
      {"study scaling", planning_groups(), simulated(), false, {}, kSearches},
      {"compare", planning_groups(), measured(), true, {"policy"}, kSimulates},
      {"explain", planning_groups(), simulated(), true, {}, kSimulates},
      {"profile", planning_groups(), measured()},
      {"tune", planning_groups(), measured()},
      {"machine measure", {}, {"peer-timeout", "network", "token-file"}}};
  return list;
}

/// nullptr: no such key.
const train::ConfigKey* find_key(std::string_view key) {
  const std::vector<train::ConfigKey>& keys = train::config_keys();
  const auto found = std::ranges::find(keys, key, &train::ConfigKey::name);
  return found == keys.end() ? nullptr : &*found;
}

bool reads(const Reader& reader, const train::ConfigKey& key) {
  if (std::ranges::find(reader.without, key.name) != reader.without.end()) return false;
  return std::ranges::find(reader.groups, key.group) != reader.groups.end() ||
         std::ranges::find(reader.keys, key.name) != reader.keys.end();
}

}  // namespace

bool is_config_key(std::string_view key) {
  return find_key(key) != nullptr;
}

bool takes_graph_files(std::string_view command) {
  const auto reader = std::ranges::find(readers(), command, &Reader::command);
  return reader != readers().end() && reader->graph_files;
}

bool reads_key(std::string_view command, std::string_view key) {
  const auto reader = std::ranges::find(readers(), command, &Reader::command);
  const train::ConfigKey* known = find_key(key);
  return reader != readers().end() && known != nullptr && reads(*reader, *known);
}

train::KeyUse use_of_keys(std::string_view command) {
  const auto reader = std::ranges::find(readers(), command, &Reader::command);
  return reader == readers().end() ? train::KeyUse{} : reader->use;
}

std::vector<std::string> readers_of(std::string_view key) {
  std::vector<std::string> names;
  const train::ConfigKey* known = find_key(key);
  for (const Reader& reader : readers()) {
    if (known != nullptr && reads(reader, *known)) names.emplace_back(reader.command);
  }
  return names;
}

UserError key_not_read(std::string_view called, std::string_view given, std::string_view key) {
  const std::vector<std::string> names = readers_of(key);
  return {fmt::format("{} doesn't read {}", called, given), "",
          fmt::format("leave it out: only {} read{} it; a configuration file may still have it", join(names),
                      names.size() == 1 ? "s" : "")};
}

}  // namespace weft::tools
