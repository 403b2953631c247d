#include "tools/config_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/printable.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/config/saved_model.h"

namespace weft::tools {

CLI::Option* add_key_flag(CLI::App& command, const train::ConfigKey& key, std::vector<train::Setting>& settings,
                          std::string_view default_text) {
  const std::string flag = "--" + key.name;
  const std::string help = default_text.empty() ? key.help : fmt::format("{} [{}]", key.help, default_text);
  const bool truth_value = key.type == "true or false";
  const auto store = [&settings, name = key.name, flag, truth_value](const std::string& value) {
    settings.push_back({name, truth_value && value.empty() ? "true" : value, flag});  // given alone it is true
  };
  CLI::Option* option = command.add_option_function<std::string>(flag, store, help)->type_name(key.type)->take_last();
  if (truth_value) option->expected(0, 1);
  return option;
}

CLI::Option* add_policy_flag(CLI::App& command, std::vector<train::Setting>& settings) {
  const std::vector<train::ConfigKey>& keys = train::config_keys();
  train::ConfigKey key = *std::ranges::find(keys, "policy", &train::ConfigKey::name);
  key.help = "in place of the configuration's; a library (./mine.so) is loaded only if it is named here";
  return add_key_flag(command, key, settings, "");
}

int print_config(const train::RunConfig& config) {
  train::RunConfig checked = config, printed = config;
  train::fill_in(checked, 0);
  train::take_saved_model(printed);
  say("{}", train::dump_toml(printed));
  return 0;
}

struct ConfigOptions::Given {
  std::string file;
  std::vector<std::string> assignments;
  std::vector<train::Setting> flags;
  bool dump = false;

  /// Of --set, then the flags.
  std::vector<train::Setting> settings() const {
    std::vector<train::Setting> list;
    for (const std::string& assignment : assignments) {
      const std::size_t equals = assignment.find('=');
      if (equals == std::string::npos) {
        throw UserError("--set " + assignment + " has no value", "a key and its value",
                        "--set " + assignment + "=VALUE");
      }
      std::string key = assignment.substr(0, equals);
      std::replace(key.begin(), key.end(), '_', '-');
      list.push_back({std::move(key), assignment.substr(equals + 1), "--set"});
    }
    list.insert(list.end(), flags.begin(), flags.end());
    return list;
  }

  /// The last value of a key, "" if it isn't set.
  static std::string last(const std::vector<train::Setting>& settings, std::string_view key) {
    const auto found =
        std::find_if(settings.rbegin(), settings.rend(), [&](const train::Setting& s) { return s.key == key; });
    return found == settings.rend() ? "" : found->value;
  }

  /// The configuration of the run that goes on, if this command line names one and no file; else the defaults.
  train::RunConfig base() const {
    const std::vector<train::Setting> list = settings();
    std::string resume = last(list, "resume");
    if (resume == train::kResumeAuto) {
      const std::string run_dir = last(list, "run-dir");
      resume = train::latest_checkpoint(run_dir) ? run_dir : "";
    }
    // A start from weights as well is a contradiction, which is refused as one.
    const bool starts = resume.empty() || (resume != train::kResumeAuto && !last(list, "init-from").empty());
    return starts || !file.empty() ? train::RunConfig() : train::config_to_resume(resume, list);
  }
};

ConfigOptions::ConfigOptions(CLI::App& command) : given_(std::make_shared<Given>()) {
  command.add_option("config", given_->file, "a TOML file with the same keys as the flags, which override it");
  command.add_option("--set", given_->assignments, "set any key: --set model.layers=6 (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.add_flag("--dump-config", given_->dump, "print the configuration as TOML, checked, and leave");
  for (const train::ConfigKey& key : train::config_keys()) {
    add_key_flag(command, key, given_->flags, key.default_value)
        ->group(key.name.starts_with("model.") ? "Sizes of the model" : "Configuration");
  }
}

train::RunConfig ConfigOptions::load() const {
  train::RunConfig config = given_->base();
  if (!given_->file.empty()) train::load_toml(config, given_->file);
  train::apply_command_line(config, given_->settings());
  return config;
}

const std::string& ConfigOptions::file() const {
  return given_->file;
}

bool ConfigOptions::dump() const {
  return given_->dump;
}

}  // namespace weft::tools
