// The options of subcommands that take a whole configuration: a TOML file, one flag a key, --set and --dump-config.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weft::tools {

/// Declares the flag of one key, which adds to `settings` when it is parsed; the last of several counts.
/// `settings` outlives the parsing; `default_text` is what the help shows.
CLI::Option* add_key_flag(CLI::App& command, const train::ConfigKey& key, std::vector<train::Setting>& settings,
                          std::string_view default_text);

/// Declares --policy for a command that reads a run's configuration, whose libraries aren't loaded unless named here.
CLI::Option* add_policy_flag(CLI::App& command, std::vector<train::Setting>& settings);

/// Prints the configuration as TOML after checking that it resolves; what is left open stays open in it. Returns 0.
int print_config(const train::RunConfig& config);

/// Made from config_keys(), so that a key exists as a flag as soon as it is in the table.
class ConfigOptions {
 public:
  explicit ConfigOptions(CLI::App& command);

  /// The file's keys, then those of --set, then the flags, not yet resolved. Without a file, a run that is to be
  /// resumed gives the base. Throws UserError.
  train::RunConfig load() const;
  /// The file that was named, "" if none; a command that reads other files in its place looks before it loads.
  const std::string& file() const;
  /// Whether --dump-config was given; then the caller prints and leaves.
  bool dump() const;

 private:
  struct Given;
  std::shared_ptr<Given> given_;  // the parser's callbacks write to it
};

}  // namespace weft::tools
