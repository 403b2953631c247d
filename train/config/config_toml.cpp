// Reading a configuration from TOML, with the line of whatever is refused.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>

#include "base/error.h"
#include "train/config/config.h"
#include "train/config/config_table.h"

namespace weft {

namespace {

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return "a date or time";
    case toml::node_type::none:
      break;
  }
  return "nothing";
}

std::string example(const ConfigEntry& entry) {
  static const RunConfig defaults;
  const std::string value = entry.get(defaults);
  return fmt::format("{} = {}", entry.name, entry.kind == ValueKind::text ? fmt::format("\"{}\"", value) : value);
}

/// A value as set_key takes it; the TOML type has to be the key's, so that `steps = "100"` is a mistake that is seen.
std::string value_text(const ConfigEntry& entry, const toml::node& node, const std::string& source) {
  const bool numeric = entry.kind == ValueKind::integer || entry.kind == ValueKind::number;
  if (const auto* integer = node.as_integer(); integer && numeric) return fmt::format("{}", integer->get());
  if (const auto* real = node.as_floating_point(); real && entry.kind == ValueKind::number) {
    return fmt::format("{}", real->get());
  }
  if (const auto* flag = node.as_boolean(); flag && entry.kind == ValueKind::boolean) {
    return flag->get() ? "true" : "false";
  }
  if (const auto* text = node.as_string(); text && entry.kind == ValueKind::text) return text->get();
  throw UserError(fmt::format("{}: {} is {}", source, entry.name, type_name(node)), entry.type,
                  "write it as in " + example(entry));
}

/// As older builds stored it.
std::string stored_value(const toml::node& node) {
  const auto* integer = node.as_integer();
  return integer == nullptr ? "" : fmt::format("{}", integer->get());
}

/// Far above any configuration. It bounds the depth of tables (a.a.a.a…), which toml++ takes down recursively.
constexpr std::size_t kLargestFile = 64 * 1024;

class Reader {
 public:
  Reader(std::string name, std::span<const Setting> over) : name_(std::move(name)), over_(over) {}

  std::vector<Setting> read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      const toml::table* table = node.as_table();
      if (table == nullptr) {
        add(std::string(key.str()), node);
      } else if (key.str() == "model") {
        for (const auto& [size, value] : *table) add("model." + std::string(size.str()), value);
      } else {
        throw UserError(fmt::format("{}: unknown table [{}]", source(node), key.str()),
                        "keys at the top of the file and sizes under [model]",
                        "move its keys above the first table's line");
      }
    }
    return std::move(settings_);
  }

 private:
  std::string source(const toml::node& node) const {
    return fmt::format("{} line {}", name_, node.source().begin.line);
  }
  void add(const std::string& key, const toml::node& node) {
    const std::string where = source(node);
    if (means_nothing(key, node)) return;
    const ConfigEntry& entry = find_entry(key, where);
    settings_.push_back({entry.name, value_text(entry, node, where), where});
  }

  /// A former key at the value where it did nothing, or with the one in its place set over it.
  bool means_nothing(const std::string& key, const toml::node& node) const {
    const FormerKey* former = former_key(table_name(key));
    if (former == nullptr) return false;
    return stored_value(node) == former->neutral ||
           std::ranges::any_of(over_, [&](const Setting& setting) { return table_name(setting.key) == former->now; });
  }

  std::string name_;
  std::span<const Setting> over_;
  std::vector<Setting> settings_;
};

}  // namespace

void load_toml_text(RunConfig& config, std::string_view text, const std::string& name, std::span<const Setting> over) {
  constexpr const char* kFix = "correct that line; `weft train --dump-config` prints a file to start from";
  if (text.size() > kLargestFile) {
    throw UserError(fmt::format("{} is larger than {} bytes", name, kLargestFile), "a configuration in TOML",
                    "`weft train --dump-config` prints one to start from");
  }
  std::vector<Setting> settings;
  try {
    settings = Reader(name, over).read(toml::parse(text, name));
  } catch (const toml::parse_error& error) {
    throw UserError(fmt::format("{} line {}: {}", name, error.source().begin.line, error.description()),
                    "TOML: key = value on each line, text in quotes, sizes under [model]", kFix);
  }
  apply_settings(config, std::move(settings));
}

void load_toml(RunConfig& config, const std::string& path) {
  constexpr const char* kFix = "`weft train --dump-config` prints one to start from";
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::filesystem::path within = std::filesystem::path(path) / "config.toml";
    const bool of_run = std::filesystem::is_regular_file(within, ignored);
    throw UserError(fmt::format("{} is a folder", path), "a TOML file",
                    of_run ? "give the run's configuration: " + within.string() : kFix);
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kLargestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));  // not all of it: it may be any file, or endless
  if (file.bad() || (file.fail() && !file.eof())) {
    throw UserError(fmt::format("the configuration file {} can't be read", path), "a TOML file", kFix);
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty()) throw UserError(fmt::format("the configuration file {} is empty", path), "a TOML file", kFix);
  load_toml_text(config, text, path);
}

}  // namespace weft
