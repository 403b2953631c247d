// Which commands read which keys of a configuration. The others refuse a key's flag; in a TOML file, which commands
// share, every key may be set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "train/config/idle_keys.h"

namespace weft::tools {

bool is_config_key(std::string_view key);

bool reads_key(std::string_view command, std::string_view key);

/// Whether a command plans or simulates, and executes nothing: then it takes graph files in place of a configuration.
bool takes_graph_files(std::string_view command);

/// What keys of a command's configuration are for; a command that reads none has the defaults.
train::KeyUse use_of_keys(std::string_view command);

/// The commands that read a key, in the order of the help.
std::vector<std::string> readers_of(std::string_view key);

/// The refusal of a key that a command doesn't read. `called` names the command, `given` the flag.
UserError key_not_read(std::string_view called, std::string_view given, std::string_view key);

}  // namespace weft::tools
