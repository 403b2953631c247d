#include "tools/command_line/shared_options.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/text/text_table.h"
#include "study/policy_step.h"

namespace weft::tools {

CommandOption number_option(std::string names, OptionTarget target, std::string help, double least, double most) {
  const char* const value = std::holds_alternative<double*>(target) ? "X" : "N";
  return {.names = std::move(names),
          .target = std::move(target),
          .value = value,
          .help = std::move(help),
          .least = least,
          .most = most};
}

CommandOption word_option(std::string names, OptionTarget target, std::string value, std::string help,
                          std::vector<std::string> suggestions) {
  return {.names = std::move(names),
          .target = std::move(target),
          .value = std::move(value),
          .help = std::move(help),
          .suggestions = std::move(suggestions)};
}

CommandOption choice_option(std::string names, OptionTarget target, std::string value, std::string help,
                            std::vector<std::string> choices) {
  CommandOption option = word_option(std::move(names), std::move(target), std::move(value), std::move(help));
  option.choices = std::move(choices);
  return option;
}

CommandOption path_option(std::string names, OptionTarget target, std::string value, std::string help, Paths paths) {
  CommandOption option = word_option(std::move(names), std::move(target), std::move(value), std::move(help));
  option.paths = paths;
  return option;
}

CommandOption required(CommandOption option) {
  option.required = true;
  return option;
}

CommandOption repeated(CommandOption option) {
  option.arity = Arity::each;
  return option;
}

CommandOption output_option(std::string& target, std::string value, std::string help) {
  const Paths paths = value == "FOLDER" ? Paths::folders : Paths::files;
  return path_option("-o,--output", &target, std::move(value), std::move(help), paths);
}

CommandOption accept_option(std::vector<std::string>& target, std::vector<std::string> keys) {
  return repeated(choice_option("--accept", &target, "KEY",
                                "go on although this differs from the saved run; may be given again", std::move(keys)));
}

CommandOption svg_option(std::string& target, std::string help) {
  return path_option("--svg", &target, "FILE.svg", std::move(help));
}

CommandOption noise_option(double& noise) {
  return number_option("--noise", &noise, "relative standard deviation of every task's time; all ranks are simulated",
                       0, 10);
}

CommandOption seeds_option(std::int64_t& seeds) {
  return number_option("--seeds", &seeds, "draws of the noise; the first has the configuration's seed", 1, 100'000);
}

int print_result(bool as_json, const JsonObject& json, const StyledText& text) {
  say(stdout, as_json ? StyledText(json.text() + "\n") : text);
  return 0;
}

int print_result(bool as_json, const JsonObject& json, std::string_view text) {
  return print_result(as_json, json, StyledText(study::fitted(std::string(text), output_width())));
}

CommandOption jobs_option(int& jobs, int most) {
  return number_option("--jobs", &jobs, "threads; 0: all cores", 0, most);
}

int threads_of(int jobs) {
  return jobs > 0 ? jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace weft::tools
