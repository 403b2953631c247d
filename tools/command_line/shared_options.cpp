#include "tools/command_line/shared_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/text/text_table.h"
#include "study/policy_step.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

/// The command that writes files with such an ending, for the fix of a refusal.
std::string_view writer_of(std::string_view ending) {
  if (ending == ".html") return "; `weft report` writes pages";
  if (ending == ".svg" || ending == ".png") return "; --svg, `weft timeline` and `weft graph` draw";
  return "";
}

/// Refuses a name whose ending promises another form than the option's word for its value: "FILE.toml", "FOLDER".
void expect_ending(std::string_view flag, std::string_view word, const std::string& output) {
  constexpr std::array<std::string_view, 10> kForms = {".html", ".svg", ".png", ".pdf", ".dot",
                                                       ".json", ".gz",  ".csv", ".md",  ".toml"};
  const fs::path path = output;
  const std::string ending = path.extension().string();
  const std::size_t own = std::min(word.find('.'), word.size());
  const bool folder = word == "FOLDER", any = own == word.size() && !folder;
  if (any || std::ranges::find(kForms, ending) == kForms.end() || word.find(ending) != std::string_view::npos) return;
  std::error_code hidden;  // what can't be seen counts as absent
  if (folder && fs::is_directory(path, hidden)) return;
  throw UserError(
      fmt::format("{} {}: the name ends as another form does", flag, output),
      folder ? "a folder's name, without such an ending" : fmt::format("{}, or a name without an ending", word),
      fmt::format("{} {}{}{}", flag, (path.parent_path() / path.stem()).string(),
                  word.substr(own, word.find('[') - own), writer_of(ending)));
}

/// Stores the name of a file or folder to write, once its ending suits.
CommandOption written_option(std::string names, std::string& target, std::string value, std::string help) {
  const Paths paths = value == "FOLDER" ? Paths::folders : Paths::files;
  const auto store = [&target, flag = names.substr(0, names.find(',')), value](const std::string& output) {
    expect_ending(flag, value, output);
    target = output;
  };
  CommandOption option = path_option(std::move(names), store, std::move(value), std::move(help), paths);
  option.default_text = target;
  return option;
}

}  // namespace

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
  return written_option("-o,--output", target, std::move(value), std::move(help));
}

CommandOption accept_option(std::vector<std::string>& target, std::vector<std::string> keys) {
  return repeated(choice_option("--accept", &target, "KEY",
                                "go on although this differs from the saved run; may be given again", std::move(keys)));
}

CommandOption adapter_option(std::string& target) {
  return path_option("--adapter", &target, "FOLDER", "low-rank adapters over the model's weights, as PEFT saves them",
                     Paths::folders);
}

CommandOption svg_option(std::string& target, std::string help) {
  return written_option("--svg", target, "FILE.svg", std::move(help));
}

CommandOption noise_option(double& noise) {
  return number_option("--noise", &noise,
                       "relative standard deviation of every task's time; all ranks are simulated; 0: no noise", 0, 10);
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
