// Options that several commands have, or several options of a kind, each described once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "base/text/json_object.h"
#include "tools/command_line/command.h"

namespace weft::tools {

/// A number from `least` to `most`; in help texts N if it is whole, X if it isn't.
CommandOption number_option(std::string names, OptionTarget target, std::string help, double least, double most = 9e18);

/// A value that is written as it is.
CommandOption word_option(std::string names, OptionTarget target, std::string value, std::string help,
                          std::vector<std::string> suggestions = {});

/// One of `choices`, or several of them.
CommandOption choice_option(std::string names, OptionTarget target, std::string value, std::string help,
                            std::vector<std::string> choices);

/// A file or a folder.
CommandOption path_option(std::string names, OptionTarget target, std::string value, std::string help,
                          Paths paths = Paths::files);

/// The same option, which must be given, or which may be given again.
CommandOption required(CommandOption option);
CommandOption repeated(CommandOption option);

/// -o,--output: the file to write, or the folder if `value` is "FOLDER". A name that ends as another form than
/// `value`'s does ("FILE.toml", "FILE.json[.gz]") is refused, unless `value` has no ending.
CommandOption output_option(std::string& target, std::string value, std::string help);

/// --adapter: a folder of PEFT whose adapters the model then has.
CommandOption adapter_option(std::string& target);

/// --accept: differences from a saved run with which the command goes on, of `keys`.
CommandOption accept_option(std::vector<std::string>& target, std::vector<std::string> keys);

/// --svg: a picture to write, whose name ends in .svg or has no other form's ending.
CommandOption svg_option(std::string& target, std::string help);

/// --noise and --seeds of simulations.
CommandOption noise_option(double& noise);
CommandOption seeds_option(std::int64_t& seeds);

/// Prints a command's result, as one JSON object if --json was given. Returns 0.
int print_result(bool as_json, const JsonObject& json, const StyledText& text);
int print_result(bool as_json, const JsonObject& json, std::string_view text);

/// --jobs: threads that simulate or search.
CommandOption jobs_option(int& jobs, int most = 4096);
/// The number of threads that a flag asks for; 0: all cores.
int threads_of(int jobs);

}  // namespace weft::tools
