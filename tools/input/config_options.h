// The options of subcommands that take a whole configuration: a TOML file, the keys that the command reads, --set and
// --dump-config.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/command_line/command.h"
#include "tools/input/open_input.h"
#include "train/config/config.h"

namespace weft::tools {

struct StepSource;

/// Adds a flag for each key that `reader` reads (tools/command_line/config_readers.h), which adds to `settings` when it
/// is parsed; the last of several counts. `settings` outlives the parsing. `default_text`: in place of the keys' own
/// default values in the help, unless empty.
void add_keys(Command& command, std::string_view reader, std::vector<train::Setting>& settings,
              std::string_view default_text = "");

/// --policy for a command that reads a run's configuration, whose libraries aren't loaded unless named here.
CommandOption policy_option(std::vector<train::Setting>& settings);

/// `before` and the names of policies, for completion.
std::vector<std::string> policy_words(std::vector<std::string> before = {});

/// Whether a command chooses the grid of a configuration that leaves it open (grid = auto).
enum class OpenGrid : std::uint8_t { refused, accepted };

/// Prints the configuration as TOML after checking that it resolves; what is left open stays open in it. Returns 0.
int print_config(const train::RunConfig& config, OpenGrid open = OpenGrid::refused);

/// Whether --set may name numbers of the machine too: "machine.network.latency".
enum class MachineNumbers : std::uint8_t { refused, taken };

/// Made from config_keys(), so that a key exists as a flag as soon as it is in the table.
class ConfigOptions {
 public:
  /// `reader`: the command's name among the readers of keys (tools/command_line/config_readers.h); "": its own.
  explicit ConfigOptions(Command& command, std::string_view reader = "");

  /// The file's keys, then those of --set, then the flags, not yet resolved. Without a file, a run that is to be
  /// resumed gives the base. Throws UserError.
  train::RunConfig load() const;
  /// The same in two parts, for commands that set keys in between: the file's keys, and the settings of --set and the
  /// flags.
  std::pair<train::RunConfig, std::vector<train::Setting>> layers(MachineNumbers numbers) const;
  /// Loads the step that the command line names and runs `body`; with --dump-config prints the configuration instead.
  int on_step(StepSource& source, const std::function<int()>& body) const;
  /// The same of a command that takes no graph files.
  int on_config(train::RunConfig& config, const std::function<int()>& body, OpenGrid open = OpenGrid::refused) const;
  /// What is said about an open graph, if the file is one; then load() isn't called. Throws UserError with
  /// --dump-config.
  std::optional<OpenSettings> open_graph() const;
  /// The file that was named, "" if none; a command that reads other files in its place looks before it loads.
  const std::string& file() const;
  /// Whether --dump-config was given; then the caller prints and leaves.
  bool dump() const;

 private:
  struct Given;
  std::shared_ptr<Given> given_;  // the options' targets
};

}  // namespace weft::tools
