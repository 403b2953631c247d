// Setting keys from text, and writing a configuration as TOML.
#include "train/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "train/config/config_table.h"
#include "train/config/path_list.h"

namespace weft::train {

namespace {

std::string dump_line(std::string_view name, const ConfigEntry& entry, const RunConfig& config) {
  const std::string value = entry.get(config);
  const bool quoted = entry.kind == ValueKind::text || (entry.kind == ValueKind::paths && !is_path_list(value));
  return fmt::format("{} = {}\n", name, quoted ? toml_quoted(value) : value);
}

}  // namespace

std::string table_name(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name == "model.name" ? "model" : name;
}

bool ConfigEntry::is_switch() const {
  return std::ranges::find(words, kind == ValueKind::boolean ? "true" : "on") != words.end();
}

std::string key_in_place_of(std::string_view name) {
  const FormerKey* former = former_key(table_name(name));
  return former == nullptr ? "" : std::string(former->now);
}

const ConfigEntry& find_entry(std::string_view key, std::string_view source) {
  const std::string name = table_name(key);
  const std::vector<ConfigEntry>& table = config_table();
  const auto entry = std::find_if(table.begin(), table.end(), [&](const ConfigEntry& e) { return e.name == name; });
  if (entry != table.end()) return *entry;
  if (const FormerKey* former = former_key(name)) {
    throw UserError(fmt::format("{}: {} is no key any more: it {}", source, name, former->reason), "", former->fix);
  }
  std::vector<std::string> names;
  for (const ConfigEntry& known : table) names.push_back(known.name);
  const std::string nearest = nearest_name(name, names);
  throw UserError(fmt::format("{}: unknown key \"{}\"", source, key), "",
                  nearest.empty() ? "`weft train --help` lists the keys" : fmt::format("did you mean {}?", nearest));
}

std::string_view title_of(KeyGroup group) {
  switch (group) {
    case KeyGroup::model:
      return "Model";
    case KeyGroup::sizes:
      return "Sizes of the model";
    case KeyGroup::step:
      return "Batch and precision";
    case KeyGroup::data:
      return "Data";
    case KeyGroup::optimizer:
      return "Optimizer";
    case KeyGroup::grid:
      return "Grid";
    case KeyGroup::plan:
      return "Policy and plan";
    case KeyGroup::machine:
      return "Machine and costs";
    case KeyGroup::device:
      return "Device";
    case KeyGroup::run:
      return "Run and checkpoints";
  }
  return "?";
}

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    RunConfig defaults;
    load_named_model(defaults);
    std::vector<ConfigKey> list;
    for (const ConfigEntry& entry : config_table()) {
      list.push_back({entry.name, entry.type, entry.help, entry.get(defaults), entry.group, entry.words,
                      entry.is_switch() && entry.words.size() == 2, entry.kind == ValueKind::paths});
    }
    return list;
  }();
  return keys;
}

void set_key(RunConfig& config, std::string_view key, std::string_view value, std::string_view source) {
  const ConfigEntry& entry = find_entry(key, source);
  // A flag names its key already.
  const bool names_key = source == "--" + entry.name;
  entry.set(config, value, names_key ? std::string(source) : fmt::format("{}: {}", source, entry.name));
  config.given.insert(entry.name);
  if (entry.name != "model" || value == kCustomModel) return;
  for (const ConfigEntry& size : config_table()) {
    if (size.name.starts_with(kModelPrefix)) config.given.insert(size.name);
  }
}

bool is_addition(std::string_view key) {
  constexpr std::array kAdditions = {"rope-scaling",  "rope-attention-factor",
                                     "rope-truncate", "head-size",
                                     "qkv-bias",      "out-bias",
                                     "mlp-bias",      "qk-norm",
                                     "window",        "window-from"};
  return key.starts_with(kModelPrefix) &&
         std::ranges::find(kAdditions, key.substr(kModelPrefix.size())) != kAdditions.end();
}

bool computes_with(ops::Family family, std::string_view key) {
  if (!key.starts_with(kModelPrefix) || key == "model.init-std") return false;
  return family == ops::Family::llama || !(key.starts_with("model.rope") || is_addition(key));
}

bool is_given(const RunConfig& config, std::string_view key) {
  if (config.given.contains(key)) return true;
  const bool by_key = std::any_of(config.given.begin(), config.given.end(),
                                  [](const std::string& name) { return name.starts_with("model"); });
  return !by_key && key.starts_with(kModelPrefix) && config.model_name != RunConfig().model_name;
}

/// Of one layer; of two, the later counts.
void refuse_steps_with_epochs(const std::vector<Setting>& settings) {
  RunConfig steps, epochs;
  epochs.steps = steps.steps = 0;
  for (const Setting& setting : settings) {
    const std::string name = table_name(setting.key);
    if (name == "steps") set_key(steps, name, setting.value, setting.source);
    if (name == "epochs") set_key(epochs, name, setting.value, setting.source);
  }
  if (steps.steps == 0 || epochs.epochs == 0) return;
  throw UserError(fmt::format("steps = {} and epochs = {}", steps.steps, epochs.epochs),
                  "one of both: either tells how long to train", "leave one out");
}

void apply_settings(RunConfig& config, std::vector<Setting> settings) {
  refuse_steps_with_epochs(settings);
  const std::vector<ConfigEntry>& table = config_table();
  const auto place = [&](const Setting& setting) { return &find_entry(setting.key, setting.source) - table.data(); };
  std::stable_sort(settings.begin(), settings.end(),
                   [&](const Setting& a, const Setting& b) { return place(a) < place(b); });
  for (const Setting& setting : settings) set_key(config, setting.key, setting.value, setting.source);
}

void apply_command_line(RunConfig& config, std::vector<Setting> settings) {
  for (const Setting& setting : settings) {
    if (table_name(setting.key) == "policy") config.libraries.trust(setting.value);
  }
  apply_settings(config, std::move(settings));
}

std::string dump_toml(const RunConfig& config) {
  RunConfig dumped = config;
  load_named_model(dumped);
  std::string top = "# A Weft configuration: `weft train` takes this file.\n";
  std::string model = "\n[model]\n";
  for (const ConfigEntry& entry : config_table()) {
    if (entry.name == "model") {
      model += dump_line("name", entry, dumped);
    } else if (entry.name.starts_with(kModelPrefix)) {
      model += dump_line(entry.name.substr(kModelPrefix.size()), entry, dumped);
    } else {
      top += dump_line(entry.name, entry, dumped);
    }
  }
  return top + model;
}

}  // namespace weft::train
