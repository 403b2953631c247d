#include "tools/input/config_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "inspect/formats/graph_file.h"
#include "inspect/formats/known_file.h"
#include "ops/model_config.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/policy/catalog/policies.h"
#include "study/search/search.h"
#include "study/search/step_setup.h"
#include "tools/command_line/config_readers.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/step_input.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/config/idle_keys.h"
#include "train/config/saved_model.h"
#include "train/data/tokenized_texts.h"

namespace weft::tools {

namespace {

/// How the help and completion speak of a key's value, where its type says too little.
struct KeyValue {
  std::string_view key, value;
  Paths paths = Paths::none;
  std::vector<std::string> suggestions = {};
};

const std::vector<KeyValue>& key_values() {
  static const std::vector<KeyValue> values = {
      {"model", "NAME|FOLDER", Paths::folders, ops::model_names()},
      {"init-from", "PATH", Paths::files},
      {"adapter", "FOLDER", Paths::folders},
      {"data", "PATH", Paths::files},
      {"val-data", "PATH", Paths::files},
      {"grid", "AXES"},
      {"axis-order", "AXES"},
      {"policy", "POLICY", Paths::files, policy_words()},
      {"rewrites", "LIST"},
      {"machine",
       "MACHINE",
       Paths::files,
       {"laptop", "hgx-h100", "dgx-h100", "grand-teton", "dgx-a100", "perlmutter", "mi250x", "frontier", "alps",
        "tpu-v4", "p4d", "ethernet-10g", "ethernet-1g"}},
      {"profile", "FILE", Paths::files},
      {"expert-load", "balanced|zipf:S|FILE", Paths::files, {"balanced"}},
      {"gemm-tuning", "FILE", Paths::files, {"auto", "none"}},
      {"run-dir", "FOLDER", Paths::folders},
      {"resume", "FOLDER", Paths::folders, {std::string(train::kResumeAuto)}}};
  return values;
}

constexpr std::string_view kMachinePrefix = "machine.";

/// Keys that most command lines are about.
constexpr std::array<std::string_view, 14> kCommon = {"model",  "global-batch", "micro-batch", "seq-len", "dtype",
                                                      "data",   "lr",           "machine",     "ranks",   "grid",
                                                      "policy", "steps",        "run-dir",     "resume"};

std::string value_word(const train::ConfigKey& key) {
  if (key.is_switch) return "";
  return key.type == "integer" ? "N" : key.type == "number" ? "X" : key.type;
}

/// Adds a path to those that the same flag named before.
void add_path(std::vector<train::Setting>& settings, train::Setting setting) {
  const auto before = std::ranges::find_if(
      settings, [&](const train::Setting& s) { return s.key == setting.key && s.source == setting.source; });
  if (before == settings.end()) {
    settings.push_back(std::move(setting));
    return;
  }
  train::PathList paths = train::paths_of(before->value, setting.source);
  const train::PathList more = train::paths_of(setting.value, setting.source);
  for (const std::string& path : more.paths()) paths.add(path);
  before->value = train::to_text(paths);
}

CommandOption key_option(const train::ConfigKey& key, std::vector<train::Setting>& settings,
                         std::string_view default_text) {
  const std::string flag = "--" + key.name;
  CommandOption option{.names = flag,
                       .target = [&settings, name = key.name, flag, list = key.is_list](const std::string& value) {
                         list ? add_path(settings, {name, value, flag}) : settings.push_back({name, value, flag});
                       }};
  option.value = value_word(key);
  option.help = key.help;
  option.default_text = default_text.empty() ? key.default_value : std::string(default_text);
  option.group = title_of(key.group);
  option.suggestions = key.words;
  option.arity = key.is_switch ? Arity::none : key.is_list ? Arity::each : Arity::one;
  option.common = std::ranges::find(kCommon, key.name) != kCommon.end();
  const auto described = std::ranges::find(key_values(), key.name, &KeyValue::key);
  if (described == key_values().end()) return option;
  option.value = described->value;
  option.paths = described->paths;
  option.suggestions = described->suggestions;
  return option;
}

}  // namespace

std::vector<std::string> policy_words(std::vector<std::string> before) {
  for (std::string& name : policy::policy_names()) before.push_back(std::move(name));
  return before;
}

void add_keys(Command& command, std::string_view reader, std::vector<train::Setting>& settings,
              std::string_view default_text) {
  std::vector<train::ConfigKey> keys = train::config_keys();
  std::ranges::stable_sort(keys, {}, &train::ConfigKey::group);
  for (const train::ConfigKey& key : keys) {
    if (!reads_key(reader, key.name)) continue;
    CommandOption option = key_option(key, settings, default_text);
    if (key.name == "grid" && reader == "train") {
      option.value += "|auto";
      option.suggestions = {"auto"};
    }
    command.add(std::move(option));
  }
}

CommandOption policy_option(std::vector<train::Setting>& settings) {
  const std::vector<train::ConfigKey>& keys = train::config_keys();
  CommandOption option = key_option(*std::ranges::find(keys, "policy", &train::ConfigKey::name), settings, "the run's");
  option.help = "in place of the configuration's; a library (./mine.so) is loaded only if it is named here";
  option.group.clear();
  return option;
}

int print_config(const train::RunConfig& config, OpenGrid open) {
  train::RunConfig checked = config, printed = config;
  if (config.grid_auto && open == OpenGrid::accepted) {
    (void)study::open_search(config);
  } else {
    train::fill_in(checked, 0);
  }
  train::take_saved_model(printed);
  say("{}", train::dump_toml(printed));
  return 0;
}

struct ConfigOptions::Given {
  std::string command;  // "graph"
  std::string file;
  OpenFlags open;
  std::vector<std::string> assignments;
  std::vector<train::Setting> flags;
  std::vector<std::string> accepted;
  bool dump = false;

  /// Of --set, then the flags.
  std::vector<train::Setting> settings(MachineNumbers numbers) const {
    std::vector<train::Setting> list;
    for (const std::string& assignment : assignments) {
      const std::size_t equals = assignment.find('=');
      if (equals == std::string::npos) {
        throw UserError("--set " + assignment + " has no value", "a key and its value",
                        "--set " + assignment + "=VALUE");
      }
      std::string key = assignment.substr(0, equals);
      std::replace(key.begin(), key.end(), '_', '-');
      if (key.starts_with(kMachinePrefix) && numbers == MachineNumbers::refused) {
        throw UserError(fmt::format("--set {}: weft {} reads no numbers of the machine", assignment, command), "",
                        "change a copy of the machine's file: --machine FILE.toml");
      }
      if (is_config_key(key) && !reads_key(command, key)) throw key_not_read("weft " + command, "--set " + key, key);
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
    const std::vector<train::Setting> list = settings(MachineNumbers::refused);
    std::string resume = last(list, "resume");
    if (resume == train::kResumeAuto) {
      const std::string run_dir = last(list, "run-dir");
      resume = train::latest_checkpoint(run_dir) ? run_dir : "";
    }
    // A start from weights as well is a contradiction, which is refused as one.
    const bool starts = resume.empty() || (resume != train::kResumeAuto && !last(list, "init-from").empty());
    if (starts || !file.empty()) return {};
    train::RunConfig config = train::config_to_resume(resume, list);
    // They are the run's own, which suited its ranks: `--grid auto` for other ranks may choose them anew.
    for (const std::string& key : study::searched_keys()) config.given.erase(key);
    return config;
  }
};

ConfigOptions::ConfigOptions(Command& command, std::string_view reader) : given_(std::make_shared<Given>()) {
  given_->command = reader.empty() ? command.name : reader;
  command.add(path_option("config", &given_->file, "",
                          takes_graph_files(given_->command)
                              ? "a TOML file or a run folder: keys and values, which flags override; or a graph file "
                                "(NAME.graph.json)"
                              : "a TOML file or a run folder: keys and values, which flags override"));
  command.add(repeated(word_option(
      "--set", [given = given_.get()](const std::string& value) { given->assignments.push_back(value); }, "KEY=VALUE",
      "set any key: --set model.layers=6; may be given again")));
  if (takes_graph_files(given_->command)) {
    for (CommandOption& option : open_options(given_->open)) command.add(std::move(option));
  }
  command.add({.names = "--dump-config",
               .target = &given_->dump,
               .help = "print the checked configuration as TOML, and leave"});
  add_keys(command, given_->command, given_->flags);
  if (reads_key(given_->command, "resume")) {
    CommandOption accept = accept_option(given_->accepted, {train::kAcceptable.begin(), train::kAcceptable.end()});
    accept.group = title_of(train::KeyGroup::run);
    command.add(std::move(accept));
  }
}

train::RunConfig ConfigOptions::load() const {
  train::RunConfig config = given_->base();
  if (!given_->file.empty()) train::load_toml(config, given_->file);
  const std::vector<train::Setting> settings = given_->settings(MachineNumbers::refused);
  train::apply_command_line(config, settings);
  train::take_vocabulary(config);
  train::refuse_idle_keys(config, settings, use_of_keys(given_->command));
  if (!config.machine.empty()) {
    const cost::Machine machine = cost::find_machine(config.machine, cost::machine_folders());
    for (const std::string& line : cost::implausible_numbers(machine))
      Log(LogTopic::plan).warning("{}: {}", machine.name, line);
    if (const std::string text = cost::unmeasured_text(machine); !text.empty())
      Log(LogTopic::plan).warning("{}: {}", machine.name, text);
  }
  config.accepted.insert(given_->accepted.begin(), given_->accepted.end());
  return config;
}

std::pair<train::RunConfig, std::vector<train::Setting>> ConfigOptions::layers(MachineNumbers numbers) const {
  train::RunConfig config;
  if (!given_->file.empty()) train::load_toml(config, given_->file);
  train::take_vocabulary(config);
  return {std::move(config), given_->settings(numbers)};
}

int ConfigOptions::on_config(train::RunConfig& config, const std::function<int()>& body, OpenGrid open) const {
  config = load();
  return dump() ? print_config(config, open) : body();
}

int ConfigOptions::on_step(StepSource& source, const std::function<int()>& body) const {
  source.open = open_graph();
  return source.open ? body() : on_config(source.config, body);
}

std::optional<OpenSettings> ConfigOptions::open_graph() const {
  if (!takes_graph_files(given_->command) || !inspect::is_graph_file(given_->file)) {
    if (takes_graph_files(given_->command)) inspect::refuse_trace(given_->file);
    refuse_without_graph_file(given_->open);
    return std::nullopt;
  }
  if (given_->dump) refuse_for_open_graph("--dump-config", "a configuration, which a graph file isn't");
  return OpenSettings{given_->file, given_->open, given_->settings(MachineNumbers::refused)};
}

const std::string& ConfigOptions::file() const {
  return given_->file;
}

bool ConfigOptions::dump() const {
  return given_->dump;
}

}  // namespace weft::tools
