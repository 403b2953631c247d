#include "study/published/published_runs.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "runtime/cost/machine_keys.h"

namespace weft::study {
namespace {

namespace fs = std::filesystem;

constexpr const char* kListFix = "see docs/studies.md and machines/published/runs.toml";

std::vector<std::string> texts_under(const std::optional<DocumentValue>& list) {
  std::vector<std::string> found;
  if (!list) return found;
  for (const DocumentValue& each : list->items("a list of texts")) found.push_back(each.text());
  return found;
}

/// "a=b" as a pair.
std::pair<std::string, std::string> key_and_value(const std::string& text, const std::string& where) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UserError(fmt::format("{}: {}", where, in_quotes(text)), "KEY=VALUE", kListFix);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

/// What all runs of a family have.
PublishedRun family_of_runs(const DocumentValue& family) {
  family.only(
      {"name", "group", "source", "machine", "machine-numbers", "attention", "policy", "settings", "unknown", "run"});
  return {.group = family["group"].text(),
          .source = family["source"].text(),
          .machine = family["machine"].text(),
          .policy = family["policy"].text(),
          .numbers = texts_under(family.find("machine-numbers")),
          .attention = family.find("attention") ? family["attention"].text() : "",
          .settings = texts_under(family.find("settings")),
          .unknown = texts_under(family.find("unknown"))};
}

PublishedRun listed_run(PublishedRun run, const DocumentValue& given) {
  constexpr std::int64_t kMostRanks = 1'000'000;
  given.only({"name", "ranks", "tokens", "where", "policy", "settings", "judged"});
  run.name = given["name"].text();
  run.ranks = given["ranks"].integer(1, kMostRanks);
  run.tokens = given["tokens"].number({.least = 0, .above = true}, "tokens a second and rank");
  if (const auto where = given.find("where")) run.where = where->text();
  if (const auto policy = given.find("policy")) run.policy = policy->text();
  for (std::string& each : texts_under(given.find("settings"))) run.settings.push_back(std::move(each));
  const auto judged = given.find("judged");
  run.half = judged && judged->boolean() ? Half::judge : half_of(run.name);
  return run;
}

}  // namespace

std::string_view to_string(Half half) {
  return half == Half::learn ? "learn" : "judge";
}

Half half_of(std::string_view name) {
  return Crc32c().add(std::as_bytes(std::span(name))).value() % 2 == 0 ? Half::learn : Half::judge;
}

std::vector<PublishedRun> parse_published_runs(std::string_view toml, const std::string& name) {
  const Document document = read_toml(toml, name, kListFix);
  std::vector<PublishedRun> runs;
  std::set<std::string> names;
  document.root().only({"family"});
  for (const DocumentValue& family : document.root()["family"].items("tables, each under a line [[family]]")) {
    const PublishedRun common = family_of_runs(family);
    for (const DocumentValue& run : family["run"].items("tables, each under a line [[family.run]]")) {
      runs.push_back(listed_run(common, run));
      if (!names.insert(runs.back().name).second) run["name"].refuse("a name that no other run has");
    }
  }
  return runs;
}

std::vector<PublishedRun> published_runs(const std::vector<fs::path>& folders) {
  constexpr std::size_t kMost = 4 << 20;
  std::error_code hidden;
  for (const fs::path& folder : folders) {
    const fs::path file = folder / "published" / "runs.toml";
    if (!fs::exists(file, hidden)) continue;
    return parse_published_runs(read_text_file(file.string(), "the list of runs", kMost, "a TOML file", kListFix),
                                file.string());
  }
  throw UserError("no file published/runs.toml in the folders of machine files", "the list that comes with Weft",
                  "install Weft with its folder machines, or run it from its source tree");
}

train::RunConfig config_of(const PublishedRun& run) {
  train::RunConfig config;
  config.machine = run.machine;
  config.policy = run.policy;
  std::vector<train::Setting> settings{{"memory", "none", run.name}};
  for (const std::string& each : run.settings) {
    auto [key, value] = key_and_value(each, run.name);
    settings.push_back({std::move(key), std::move(value), run.name});
  }
  train::apply_settings(config, std::move(settings));
  return config;
}

cost::Machine machine_of(const PublishedRun& run, const std::vector<std::string>& given) {
  cost::Machine machine = cost::find_machine(run.machine, cost::machine_folders());
  const auto set = [&](const std::string& key, const std::string& value, const std::string& where) {
    cost::set_machine_number(machine, cost::find_machine_key(key, where), value, where);
  };
  for (const std::string& each : run.numbers) {
    const auto [key, value] = key_and_value(each, run.name);
    set(key, value, run.name);
  }
  for (const std::string& each : given) {
    const auto [key, value] = key_and_value(each, "--set");
    if (key.starts_with(run.machine + ".")) set(key.substr(run.machine.size() + 1), value, "--set");
  }
  return cost::with_attention_of(std::move(machine), run.attention);
}

cost::Machine without_rates_by_shape(cost::Machine machine) {
  constexpr double kGemmHalf = 128;  // as files without points have it
  machine.gemms.clear();
  machine.attention.clear();
  machine.processors = machine.product_start = machine.tile_half = 0;
  machine.gemm_half = kGemmHalf;
  machine.sustained = machine.memory_efficiency = machine.efficiency = 1;
  return machine;
}

}  // namespace weft::study
