#include "tools/studies/study_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"

namespace weft::tools {
namespace {

// Keys of --try; context and expert are parts of the key grid.
constexpr const char* kRows = "sequence-parallel";
constexpr const char* kContext = "context";
constexpr const char* kExpert = "expert";

std::vector<std::int64_t> numbers_of_stages(const SearchFlags& flags) {
  constexpr double kMostStages = 1e9;
  std::vector<std::int64_t> numbers;
  for (const std::string& text : flags.pipes) {
    const auto number = parse_number<std::int64_t>(text, "--pipe", 1, kMostStages);
    if (std::ranges::find(numbers, number) == numbers.end()) numbers.push_back(number);
  }
  return numbers.empty() ? std::vector<std::int64_t>{1} : numbers;
}

graph::Grid included_grid(const std::string& text) {
  train::RunConfig config;
  train::set_key(config, "grid", text, "--include");
  if (config.grid_auto) throw UserError("--include auto", "the sizes of a grid's axes", "--include y=4,z=2");
  return config.grid;
}

study::KeptKeys kept_keys(const SearchFlags& flags) {
  study::KeptKeys kept;
  for (const std::string& key : flags.kept) {
    const std::vector<std::string>& known = study::searched_keys();
    if (std::ranges::find(known, key) == known.end()) {
      throw UserError(fmt::format("--keep {} is no key that a search chooses", key),
                      fmt::format("{}", fmt::join(known, ", ")), "leave it out: all other keys stay as they are");
    }
    kept.insert(key);
  }
  return kept;
}

}  // namespace

void ResultFlags::check() const {
  for (const std::string& file : files) {
    study::expect_form(file);
    expect_writable(file);
  }
  if (!svg.empty()) expect_writable(svg);
}

void ResultFlags::write(const study::Results& results) const {
  for (const std::string& file : files) write_durable(file, results.file(file), Named::by_person);
  if (!svg.empty()) write_durable(svg, results.picture().svg(), Named::by_person);
}

void ResultFlags::print(const study::Results& results, const std::string& in_folder) const {
  if (json) return say("{}\n", results.json().text());
  say(stdout, results.text(output_width()));
  if (!in_folder.empty() && !folder.empty() && !quiet) say("{}: {}\n", folder, in_folder);
}

void add_result_flags(Command& command, ResultFlags& flags, const std::string& what) {
  command.add({.names = "--json", .target = &flags.json, .help = fmt::format("print the {} as JSON", what)});
  command.add({.names = "--quiet", .target = &flags.quiet, .help = "print only the result and errors"});
}

void add_search_flags(Command& command, SearchFlags& flags, const std::string& policies_help) {
  command.add(word_option("--keep", &flags.kept, "KEY",
                          "keys that stay as the configuration has them; grid, axis-order, micro-batch, recompute, "
                          "reshard-after-forward, zero-1",
                          study::searched_keys()));
  command.add(choice_option("--try", &flags.tried, "KEY",
                            "try more: sequence-parallel on and off; context and expert, which share sequences or "
                            "experts among neighbours on z",
                            {kRows, kContext, kExpert}));
  command.add(word_option("--policies", &flags.policies, "POLICY",
                          policies_help.empty() ? "policies that plan every finalist; default: program and lhs, and "
                                                  "portfolio:budget=0 for the best"
                                                : policies_help,
                          policy_words()));
  command.add(number_option("--finalists", &flags.finalists, "estimates to plan whole, and all within 3 %", 1, 10'000));
  command.add(jobs_option(flags.jobs));
}

std::vector<policy::NamedPolicy> named_policies(const std::vector<std::string>& names,
                                                policy::TrustedLibraries libraries) {
  std::vector<policy::NamedPolicy> policies;
  for (const std::string& name : names) libraries.trust(name);
  for (const std::string& name : names) policies.push_back(policy::named_policy(name, libraries));
  return policies;
}

study::SearchOptions search_options(const SearchFlags& flags, const policy::TrustedLibraries& libraries) {
  study::SearchOptions options;
  options.kept = kept_keys(flags);
  options.policies = named_policies(flags.policies, libraries);
  if (options.policies.empty()) {
    options.policies = named_policies({"program", "lhs"}, {});
    options.searching = policy::named_policy("portfolio:budget=0");  // plans the best of the finalists in addition
  }
  options.pipes = numbers_of_stages(flags);
  const auto tries = [&](const char* key) { return std::ranges::find(flags.tried, key) != flags.tried.end(); };
  options.tried = {.sequence_parallel = tries(kRows), .context = tries(kContext), .expert = tries(kExpert)};
  const std::vector<std::string> of_stages = policy::pipeline_policy_names();
  for (const policy::NamedPolicy& each : options.policies) {
    const bool orders_stages = std::ranges::find(of_stages, each->name()) != of_stages.end();
    if (!flags.policies.empty() && orders_stages) options.schedules.push_back(each);
  }
  if (options.schedules.empty()) options.schedules = named_policies({"1f1b", "interleaved", "zb-h1"}, {});
  options.finalists = static_cast<std::size_t>(flags.finalists);
  options.max_seconds = flags.max_seconds;
  if (!flags.included.empty()) options.included = included_grid(flags.included);
  options.threads = threads_of(flags.jobs);
  return options;
}

}  // namespace weft::tools
