// Reading a configuration from TOML; errors name the line.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "train/config/config.h"
#include "train/config/config_table.h"

namespace weft::train {

namespace {

std::string example(const ConfigKey& entry) {
  static const RunConfig defaults;
  const std::string value = entry.get(defaults);
  if (entry.kind == ValueKind::paths)
    return fmt::format(R"({} = "a.txt", or {} = ["a.txt", "b.txt"])", entry.name, entry.name);
  return fmt::format("{} = {}", entry.name, entry.kind == ValueKind::text ? fmt::format("\"{}\"", value) : value);
}

std::string integer_text(const DocumentValue& value) {
  return fmt::format("{}", value.integer(INT64_MIN, INT64_MAX));
}

/// A path is taken as it is written, whatever it looks like.
PathList list_of_paths(const DocumentValue& value) {
  if (value.is_text()) return value.text();
  PathList list;
  for (const DocumentValue& item : value.items()) {
    if (item.text().empty()) item.refuse("a path");
    list.add(item.text());
  }
  return list;
}

/// A value as set_key takes it; the TOML type must be the key's, so `steps = "100"` is refused.
std::string value_text(const ConfigKey& entry, const DocumentValue& value) {
  const bool numeric = entry.kind == ValueKind::integer || entry.kind == ValueKind::number;
  if (numeric && value.is_integer()) return integer_text(value);
  if (entry.kind == ValueKind::number && value.is_number()) return fmt::format("{}", value.any_number());
  const bool takes_truth =
      entry.kind == ValueKind::boolean || std::ranges::find(entry.words, "on") != entry.words.end();
  if (takes_truth && value.is_boolean()) return value.boolean() ? "true" : "false";
  if (entry.kind == ValueKind::text && value.is_text()) return value.text();
  if (entry.kind == ValueKind::paths && (value.is_text() || value.is_list())) return to_text(list_of_paths(value));
  throw UserError(fmt::format("{} is {}", value.place(), value.shown()), entry.type,
                  "write it as in " + example(entry));
}

/// Is it a former key with the value that had no effect, or is its replacement set by `over`?
bool means_nothing(const std::string& key, const DocumentValue& value, std::span<const Setting> over) {
  const FormerKey* former = former_key(table_name(key));
  if (former == nullptr) return false;
  // As older builds stored it.
  const std::string stored = value.is_integer() ? integer_text(value) : "";
  return stored == former->neutral ||
         std::ranges::any_of(over, [&](const Setting& setting) { return table_name(setting.key) == former->now; });
}

std::vector<Setting> settings_of(const DocumentValue& root, std::span<const Setting> over) {
  std::vector<Setting> settings;
  const auto add = [&](const std::string& key, const DocumentValue& value) {
    if (means_nothing(key, value, over)) return;
    const ConfigKey& entry = find_key(key, value.where());
    settings.push_back({entry.name, value_text(entry, value), value.where()});
  };
  for (const auto& [key, value] : root.members()) {
    if (!value.is_object()) {
      add(key, value);
    } else if (key == "model") {
      for (const auto& [size, of_model] : value.members()) add("model." + size, of_model);
    } else {
      throw UserError(fmt::format("{}: unknown table [{}]", value.where(), key),
                      "keys at the top of the file and sizes under [model]",
                      "move its keys above the first table's line");
    }
  }
  return settings;
}

constexpr const char* kFixOfFile = "`weft train --dump-config` prints a file to start from";

}  // namespace

void load_toml_text(RunConfig& config, std::string_view text, const std::string& name, std::span<const Setting> over) {
  apply_settings(config, settings_of(read_toml(text, name, kFixOfFile).root(), over));
}

void load_toml(RunConfig& config, const std::string& path) {
  std::error_code ignored;
  std::string file = path;
  if (std::filesystem::is_directory(path, ignored)) {
    file = (std::filesystem::path(path) / "config.toml").string();
    if (!std::filesystem::is_regular_file(file, ignored)) {
      throw UserError(fmt::format("{} is a folder without config.toml", path), "a TOML file or a run folder",
                      kFixOfFile);
    }
  }
  const std::string text = read_text_file(file, "the configuration file", kLargestToml, "a TOML file", kFixOfFile);
  if (text.empty()) throw UserError(fmt::format("the configuration file {} is empty", file), "a TOML file", kFixOfFile);
  load_toml_text(config, text, file);
}

}  // namespace weft::train
