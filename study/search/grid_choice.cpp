#include "study/search/grid_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "base/files/input_file.h"
#include "base/log.h"
#include "base/status_line.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "study/search/search.h"
#include "study/search/search_results.h"
#include "train/config/saved_model.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr const char* kSource = "--grid auto";
using Keys = std::set<std::string, std::less<>>;

/// The searched keys that a file or a flag set; a micro-batch of 0 leaves it open.
Keys set_keys(const train::RunConfig& config) {
  Keys keys;
  for (const std::string& key : searched_keys()) {
    const bool open = key == "grid" || (key == "micro-batch" && config.micro_batch == 0);
    if (!open && config.given.contains(key)) keys.insert(key);
  }
  return keys;
}

/// What the run had that goes on, unless it had other ranks, another batch or other values of the `kept` keys.
std::optional<StepSetup> setup_to_resume(const train::RunConfig& config, const Keys& kept, std::int64_t ranks) {
  const std::optional<std::filesystem::path> checkpoint = train::checkpoint_to_resume(config);
  if (!checkpoint) return std::nullopt;
  // Keys of older builds don't matter here.
  const std::array over = {train::Setting{"eval-sequences", "", ""}, train::Setting{"memory", "", ""}};
  train::RunConfig stored;
  train::load_toml_text(stored, train::read_manifest(*checkpoint).info.config_toml,
                        fmt::format("the configuration in {}", in_quotes(*checkpoint)), over);
  if (stored.grid.ranks() != ranks || stored.global_batch != config.global_batch) return std::nullopt;
  const std::vector<train::Setting> had = settings_of(setup_of(stored), kSource);
  const std::vector<train::Setting> asked = settings_of(setup_of(config), kSource);
  for (std::size_t i = 0; i < had.size(); ++i) {
    if (kept.contains(had[i].key) && had[i].value != asked[i].value) return std::nullopt;
  }
  return setup_of(stored);
}

/// Refuses what is bound to one grid, and a setup by numbers of another device.
void expect_choosable(const train::RunConfig& config) {
  if (config.policy.starts_with("file:")) {
    throw UserError(fmt::format("grid = auto with policy = {}", config.policy),
                    "a policy that orders the step of any grid", "leave the policy out, or give the plan's own grid");
  }
  if (config.device == train::DeviceKind::cuda && config.machine.empty()) {
    throw UserError("grid = auto with device = cuda and no machine", "the machine whose GPUs these are",
                    "--machine dgx-h100, or a file that `weft machine measure --device cuda` wrote");
  }
}

SearchOptions options_of(const train::ResolvedRun& run, Keys kept, std::int64_t ranks) {
  SearchOptions options;
  options.ranks = ranks;
  options.kept = std::move(kept);
  options.policies = {run.policy};
  options.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return options;
}

/// The setting that keeps a plan within `bytes`, if the chosen step would take more without it: a search plans under a
/// limit, and a run without a machine under none.
std::optional<train::Setting> memory_setting_of(train::RunConfig config, const std::vector<train::Setting>& chosen,
                                                std::int64_t bytes) {
  train::apply_settings(config, chosen);
  config.ranks = 0;  // the grid's; if they aren't those of the world, the run refuses them
  const train::ResolvedRun run = train::resolve(std::move(config), 0);
  const simulate::Report report = simulate::report_plan(train::planning_problem(run), run.policy);
  if (!report.planned() || report.memory_bytes() <= bytes) return std::nullopt;
  return train::Setting{"memory", exact_bytes(bytes), kSource};
}

/// `text`: lines for a person; `records`: the same for the log.
void tell_choice(Verbosity verbosity, const StyledText& text, const StyledText& records) {
  if (verbosity == Verbosity::choice) tell(text.plain());
  std::istringstream lines(records.plain());
  for (std::string line; std::getline(lines, line);) {
    Log(LogTopic::plan, 0).info("{}", line.substr(std::min(line.find_first_not_of(' '), line.size())));
  }
}

}  // namespace

std::vector<train::Setting> choose_grid(const train::RunConfig& config, const train::RankCount& ranks,
                                        Verbosity verbosity) {
  const Keys kept = set_keys(config);
  if (const std::optional<StepSetup> had = setup_to_resume(config, kept, ranks.all)) {
    const StyledText text(fmt::format("{:<10} {}, as the run has it that goes on\n", "grid", to_string(*had)));
    tell_choice(verbosity, text, text);
    return settings_of(*had, kSource);
  }
  train::ResolvedRun run = open_search(config);
  run.config.machine = config.machine;  // none stays none, as in the run: weights may be packed
  expect_choosable(run.config);
  // Their model is read. A search fills in many configurations, each of which would read it again.
  run.config.resume.clear();
  run.config.init_from.clear();
  run.config.adapter.clear();
  const bool own_limit = !run.config.memory && run.config.machine.empty();
  if (own_limit) run.config.memory = static_cast<std::int64_t>(machine_memory_bytes()) / ranks.on_node;
  const SearchOptions options = options_of(run, kept, ranks.all);
  const SearchResult result = [&] {
    StatusLine line(verbosity == Verbosity::choice);
    return search_configurations(run, options, [&](const Status& status) { line.show(status); });
  }();
  std::vector<train::Setting> chosen = settings_of(result.configurations.front().setup, kSource);
  StyledText text = setup_text(result, kept, told_width());
  StyledText records = setup_text(result, kept, std::nullopt);
  if (own_limit) {
    if (const std::optional<train::Setting> limit = memory_setting_of(config, chosen, *run.config.memory)) {
      const std::string note =
          fmt::format("{:<10} memory {}, this computer's by its ranks: the policy's order by itself takes more\n", "",
                      limit->value);
      text.add(note);
      records.add(note);
      chosen.push_back(*limit);
    }
  }
  tell_choice(verbosity, text, records);
  return chosen;
}

}  // namespace weft::study
