// Setting keys from text, and writing a configuration as TOML.
#include "train/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"
#include "train/config/config_table.h"
#include "train/config/key_kinds.h"
#include "train/config/other_names.h"
#include "train/config/path_list.h"

namespace weft::train {

namespace {

std::string dump_line(std::string_view name, const ConfigKey& entry, const RunConfig& config) {
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

void expect_plain_text(std::string_view value, std::string_view where) {
  if (is_utf8(value) && value.find('\0') == std::string_view::npos) return;
  throw UserError(fmt::format("{} = \"{}\" is not plain text", where, value), "UTF-8 without NUL",
                  "rename the file, or give a link to it");
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<Member> members_of(std::string_view text, std::string_view where, const MemberForm& form) {
  const std::string expected(form.expected), example = fmt::format("write it as in {}", form.example);
  std::vector<Member> members;
  if (text.empty()) return members;
  for (const std::string_view part : parts_of(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      throw UserError(fmt::format("{}: \"{}\" is not {}", where, part, form.setting), expected, example);
    const std::string_view name = part.substr(0, equals);
    if (std::ranges::find(form.names, name) == form.names.end()) {
      const std::string nearest = nearest_name(name, form.names);
      throw UserError(fmt::format("{}: unknown {} \"{}\"", where, form.noun, name), expected,
                      nearest.empty() ? example : fmt::format("did you mean \"{}\"?", nearest));
    }
    if (std::ranges::find(members, name, &Member::name) != members.end())
      throw UserError(fmt::format("{}: {} {} is given twice", where, form.noun, name), expected, "leave one out");
    members.push_back({name, part.substr(equals + 1)});
  }
  return members;
}

double parse_seconds(std::string_view value, std::string_view where, double least, double most) {
  constexpr std::array<std::pair<std::string_view, double>, 10> kUnits = {{{"s", 1},
                                                                           {"sec", 1},
                                                                           {"seconds", 1},
                                                                           {"m", 60},
                                                                           {"min", 60},
                                                                           {"minutes", 60},
                                                                           {"h", 3600},
                                                                           {"hours", 3600},
                                                                           {"d", 86400},
                                                                           {"days", 86400}}};
  const std::size_t digits = std::min(value.find_first_not_of("0123456789."), value.size());
  const auto number = number_in<double>(value.substr(0, digits));
  std::string_view unit = value.substr(digits);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const auto* const known = std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  if (number && known != kUnits.end()) {
    throw UserError(fmt::format("{} = \"{}\" has a unit", where, value), "a number of seconds",
                    fmt::format("write {}", *number * known->second));
  }
  return parse_number<double>(value, where, least, most);
}

ConfigKey seconds_key(std::string name, std::string help, double RunConfig::*field, double least, double most) {
  return parsed_key(
      std::move(name), ValueKind::number, "number", std::move(help), field,
      [=](std::string_view value, std::string_view where) { return parse_seconds(value, where, least, most); },
      [](double value) { return fmt::format("{}", value); });
}

std::string key_in_place_of(std::string_view name) {
  const FormerKey* former = former_key(table_name(name));
  return former == nullptr ? "" : std::string(former->now);
}

const ConfigKey& find_key(std::string_view key, std::string_view source) {
  const std::string name = table_name(key);
  const std::vector<ConfigKey>& table = config_keys();
  const auto entry = std::find_if(table.begin(), table.end(), [&](const ConfigKey& e) { return e.name == name; });
  if (entry != table.end()) return *entry;
  if (const FormerKey* former = former_key(name)) {
    throw UserError(fmt::format("{}: {} is no key any more: it {}", source, name, former->reason), "", former->fix);
  }
  std::vector<std::string> names;
  for (const ConfigKey& known : table) names.push_back(known.name);
  const std::string meant = suggestion(name, names);
  throw UserError(fmt::format("{}: unknown key \"{}\"", source, key), "",
                  meant.empty() ? "`weft train --help` lists the keys" : fmt::format("did you mean {}?", meant));
}

std::string_view title_of(KeyGroup group) {
  constexpr std::array<std::string_view, 10> kTitles = {
      "Model", "Sizes of the model", "Batch and precision", "Data",   "Optimizer",
      "Grid",  "Policy and plan",    "Machine and costs",   "Device", "Run and checkpoints"};
  return kTitles.at(static_cast<std::size_t>(group));
}

void set_key(RunConfig& config, std::string_view key, std::string_view value, std::string_view source) {
  const ConfigKey& entry = find_key(key, source);
  // A flag names its key already.
  const bool names_key = source == "--" + entry.name;
  entry.set(config, value, names_key ? std::string(source) : fmt::format("{}: {}", source, entry.name));
  config.given.insert(entry.name);
  if (entry.name == kVocabKey) config.given.emplace(kOwnVocab);
  if (entry.name != "model" || value == kCustomModel) return;
  config.given.erase(std::string(kOwnVocab));
  for (const ConfigKey& size : config_keys()) {
    if (size.name.starts_with(kModelPrefix)) config.given.insert(size.name);
  }
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
  const std::vector<ConfigKey>& table = config_keys();
  const auto place = [&](const Setting& setting) { return &find_key(setting.key, setting.source) - table.data(); };
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
  for (const ConfigKey& entry : config_keys()) {
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
