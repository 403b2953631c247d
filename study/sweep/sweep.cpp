#include "study/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text/first_line.h"
#include "runtime/cost/machine_files.h"
#include "runtime/cost/machine_keys.h"
#include "runtime/policy/catalog/policies.h"
#include "study/jobs.h"
#include "study/step_figures.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr std::int64_t kMostRows = 1'000'000;

bool is_machine_key(std::string_view key) {
  return key.starts_with(kMachinePrefix);
}

/// The combination of a number: a value for each key, the last key's change first.
std::vector<std::string> values_of(const Sweep& sweep, std::size_t combination) {
  std::vector<std::string> values(sweep.keys.size());
  for (std::size_t i = sweep.keys.size(); i-- > 0;) {
    const std::vector<std::string>& all = sweep.keys[i].values;
    values[i] = all[combination % all.size()];
    combination /= all.size();
  }
  return values;
}

/// Settings of keys, and of numbers of the machine.
struct SplitSettings {
  std::vector<train::Setting> keys = {}, numbers = {};

  void add(const train::Setting& setting) { (is_machine_key(setting.key) ? numbers : keys).push_back(setting); }
};

SplitSettings split_settings(const Sweep& sweep) {
  SplitSettings split;
  for (const train::Setting& setting : sweep.settings) split.add(setting);
  return split;
}

/// Puts numbers in place of the machine's; without a machine, in place of the default one's.
void set_machine_numbers(train::ResolvedRun& run, const std::vector<train::Setting>& numbers) {
  if (numbers.empty()) return;
  cost::Machine machine = run.machine ? *run.machine : cost::find_machine("laptop", cost::machine_folders());
  for (const train::Setting& number : numbers) {
    const std::string_view key = std::string_view(number.key).substr(kMachinePrefix.size());
    const std::string where = fmt::format("{}: {}", number.source, number.key);
    cost::set_machine_number(machine, cost::find_machine_key(key, number.source), number.value, where);
  }
  run.machine = std::make_shared<const cost::Machine>(std::move(machine));
}

/// The run of a combination and a policy. Throws UserError on an impossible one.
train::ResolvedRun resolve(const Sweep& sweep, const std::vector<std::string>& values,
                           const policy::NamedPolicy& policy) {
  SplitSettings settings = split_settings(sweep);
  for (std::size_t i = 0; i < values.size(); ++i) settings.add({sweep.keys[i].key, values[i], "--over"});
  train::RunConfig config = sweep.base;
  train::apply_command_line(config, std::move(settings.keys));
  train::leave_out_library(config);
  if (config.grid.pipe > 1) config.policy = policy.name;  // which decides how many stages a rank has
  train::ResolvedRun run = train::read_texts(std::move(config));
  set_machine_numbers(run, settings.numbers);
  train::fill_in(run.config, 0);
  run.policy = policy;
  return run;
}

void enter(SweepRow& row, const StepFigures& figures, const cost::Machine& machine, const train::RunConfig& config) {
  row.step_ms = figures.step_ns * 1e-6;
  row.tokens_per_s = tokens_per_second(config, figures.step_ns);
  row.mfu = model_flops_share(config, config.grid.ranks(), machine, figures.step_ns);
  row.exposed_ms = figures.exposed_ns * 1e-6;
  row.communication_ms = figures.communication_ns * 1e-6;
  row.memory_bytes = figures.memory_bytes;
  row.fits = static_cast<double>(figures.memory_bytes) <= machine.memory_bytes;
  row.bound_ms = figures.bound_ns * 1e-6;
}

/// Plans a problem once, and simulates it for each row's draw of the noise. Returns why there is no plan; "" if there
/// is one.
std::string simulate_draws(const Sweep& sweep, const train::ResolvedRun& run, std::span<SweepRow> rows) {
  simulate::Problem problem = train::planning_problem(run);
  problem.simulation.noise = sweep.noise;
  problem.simulation.traced_ranks = 1;
  problem.simulation.seed = rows.front().seed;
  simulate::Report report = simulate::report_plan(problem, run.policy);
  if (!report.planned()) return report.refusal;
  for (SweepRow& row : rows) {
    if (&row != &rows.front()) {
      problem.simulation.seed = row.seed;
      simulate::simulate_again(report, problem);
    }
    enter(row, figures_of(report), problem.machine, run.config);
  }
  return "";
}

/// Simulates the rows of one combination and one policy, which lack their figures.
void simulate_rows(const Sweep& sweep, const policy::NamedPolicy& policy, std::span<SweepRow> rows) {
  std::string reason;
  try {
    reason = simulate_draws(sweep, resolve(sweep, rows.front().values, policy), rows);
  } catch (const UserError& error) {
    reason = error.what();
  }
  if (reason.empty()) return;
  for (SweepRow& row : rows) row.reason = first_line(reason);  // its fix is about one combination
}

/// What tells a row from the others.
using RowName = std::tuple<std::vector<std::string>, std::string, std::uint64_t>;

RowName name_of(const SweepRow& row) {
  return {row.values, row.policy, row.seed};
}

std::string label_of(const Sweep& sweep, const SweepRow& row) {
  std::string text;
  for (std::size_t i = 0; i < row.values.size(); ++i) text += fmt::format("{}={} ", sweep.keys[i].key, row.values[i]);
  return text + row.policy;
}

/// Rows of one combination and one policy that have to be simulated, with their places in the result.
struct Job {
  std::size_t policy = 0;
  std::vector<std::size_t> places = {};
};

/// Reads a value alone, over what holds for every combination.
void check_value(train::ResolvedRun read, train::RunConfig config, const std::string& key, const std::string& value) {
  try {
    if (is_machine_key(key)) return set_machine_numbers(read, {{key, value, "--over"}});
    train::set_key(config, key, value, "--over");
    if (key == "machine" || key == "profile") (void)train::read_texts(std::move(config));
  } catch (const UserError&) {
    // A mistyped key looks like a further value of the key before it.
    constexpr std::size_t kLeast = 4;  // of a word that is no axis of a grid
    const std::size_t equals = value.find('=');
    if (equals == std::string::npos || equals < kLeast) throw;
    std::vector<std::string> known;
    for (const train::ConfigKey& each : train::config_keys()) known.push_back(each.name);
    const std::string word = value.substr(0, equals);
    std::string nearest = nearest_name(word, known);
    if (nearest.empty()) nearest = nearest_name("model." + word, known);
    if (nearest.empty() || nearest == word) throw;
    throw UserError(fmt::format("--over {}: neither a value of {} nor a key", value, key), "",
                    fmt::format("did you mean {}?", nearest));
  }
}

}  // namespace

train::RunConfig shared_config(const Sweep& sweep) {
  train::RunConfig config = sweep.base;
  train::apply_command_line(config, split_settings(sweep).keys);
  return config;
}

void check_sweep(const Sweep& sweep) {
  for (const train::Setting& setting : sweep.settings) {
    if (std::ranges::find(sweep.keys, setting.key, &SweptKey::key) != sweep.keys.end()) {
      throw UserError(fmt::format("{} = {} is given by {} and by --over", setting.key, setting.value, setting.source),
                      "one of them", "leave one out");
    }
  }
  expect_noise(sweep.noise, sweep.seeds);
  std::set<std::string> policies;
  for (const policy::NamedPolicy& policy : sweep.policies) {
    if (policies.insert(policy.name).second) continue;
    throw UserError(fmt::format("--policies names {} twice", policy.name), "each policy once", "leave one out");
  }
  train::RunConfig base = shared_config(sweep);
  train::leave_out_library(base);
  train::ResolvedRun read = train::read_texts(base);
  set_machine_numbers(read, split_settings(sweep).numbers);
  for (const SweptKey& key : sweep.keys) {
    for (const std::string& value : key.values) check_value(read, base, key.key, value);
  }
  if (row_count(sweep) > kMostRows) {
    throw UserError("the sweep has very many rows", fmt::format("at most {}", kMostRows), "fewer values or seeds");
  }
}

std::int64_t row_count(const Sweep& sweep) {
  std::int64_t count = std::ssize(sweep.policies) * sweep.seeds;
  for (const SweptKey& key : sweep.keys) {
    if (count > kMostRows) break;
    count *= std::ssize(key.values);
  }
  return count;
}

std::vector<SweepRow> run_sweep(const Sweep& sweep, std::span<const SweepRow> known, const KeepRows& keep,
                                const TellStatus& tell) {
  std::map<RowName, const SweepRow*> kept;
  for (const SweepRow& row : known) kept.emplace(name_of(row), &row);
  std::vector<SweepRow> rows(static_cast<std::size_t>(row_count(sweep)));
  std::vector<Job> jobs;
  const std::uint64_t seed = shared_config(sweep).seed;
  const auto seeds = static_cast<std::size_t>(sweep.seeds);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t job = i / seeds, policy = job % sweep.policies.size();
    SweepRow& row = rows[i];
    row.values = values_of(sweep, job / sweep.policies.size());
    row.policy = sweep.policies[policy].name;
    row.seed = seed + i % seeds;
    if (i % seeds == 0) jobs.push_back({.policy = policy});
    if (const auto before = kept.find(name_of(row)); before != kept.end()) {
      row = *before->second;
    } else {
      jobs.back().places.push_back(i);
    }
  }
  std::erase_if(jobs, [](const Job& job) { return job.places.empty(); });
  const auto name = [&](std::size_t job) { return label_of(sweep, rows[jobs[job].places.front()]); };
  const auto weight = [&](std::size_t job) { return std::ssize(jobs[job].places); };
  const auto work = [&](std::size_t number) -> Keep {
    const Job& job = jobs[number];
    std::vector<SweepRow> found;
    for (const std::size_t place : job.places) found.push_back(rows[place]);
    simulate_rows(sweep, sweep.policies[job.policy], found);
    return [&rows, &keep, &job, found = std::move(found)] {
      keep(found);
      for (std::size_t i = 0; i < found.size(); ++i) rows[job.places[i]] = found[i];
    };
  };
  do_jobs({jobs.size(), name, weight}, sweep.threads, work, tell);
  return rows;
}

}  // namespace weft::study
