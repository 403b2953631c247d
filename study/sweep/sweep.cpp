#include "study/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/median.h"
#include "base/units.h"
#include "inspect/drawing/chart.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/machine_keys.h"
#include "study/policy_step.h"
#include "train/config/resolved_run.h"
#include "train/run/model_speed.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr std::int64_t kMostRows = 1'000'000;

bool is_machine_key(std::string_view key) {
  return key.starts_with(kMachinePrefix);
}

constexpr std::string_view kModelPrefix = "model.";

/// The key before the first "=", written as in the table of keys; "" without one.
std::string key_of(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return "";
  std::string key(word.substr(0, equals));
  std::replace(key.begin(), key.end(), '_', '-');
  return key == "model.name" ? "model" : key;
}

void check_key(const std::string& key, const std::vector<std::string>& known) {
  if (key == "policy" || key == "seed") {
    throw UserError(fmt::format("--over {}", key), "other keys: policies and seeds have flags of their own",
                    key == "policy" ? "--policies with all of them" : "--noise X --seeds N");
  }
  if (is_machine_key(key)) {
    (void)cost::find_machine_key(std::string_view(key).substr(kMachinePrefix.size()), "--over");
    return;
  }
  if (std::ranges::find(known, key) != known.end()) return;
  const std::string nearest = nearest_name(key, known);
  throw UserError(fmt::format("--over: \"{}\" is no key that a simulated step reads", key), "",
                  nearest.empty() ? "`weft simulate --help` lists the keys" : fmt::format("did you mean {}?", nearest));
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
  train::ResolvedRun run = train::read_texts(std::move(config));
  set_machine_numbers(run, settings.numbers);
  run.set_policy(policy);
  train::fill_in(run.config, 0);
  train::check_expert_load(run);
  return run;
}

void enter(SweepRow& row, const simulate::Report& report, const cost::Machine& machine,
           const train::RunConfig& config) {
  row.step_ms = report.step_ns() * 1e-6;
  row.tokens_per_s = train::tokens_per_second(config, report.step_ns());
  row.mfu = train::model_flops_share(config, config.grid.ranks(), machine, report.step_ns());
  row.exposed_ms = most(report.times(), &simulate::ClassTimes::exposed) * 1e-6;
  row.communication_ms = most(report.times(), &simulate::ClassTimes::communication) * 1e-6;
  row.memory_bytes = report.memory_bytes();
  row.fits = static_cast<double>(row.memory_bytes) <= machine.memory_bytes;
  row.bound_ms = report.bounds.best() * 1e-6;
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
    enter(row, report, problem.machine, run.config);
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

/// Reads a value alone, over what holds for every combination.
void check_value(train::ResolvedRun read, train::RunConfig config, const std::string& key, const std::string& value) {
  try {
    if (is_machine_key(key)) return set_machine_numbers(read, {{key, value, "--over"}});
    train::set_key(config, key, value, "--over");
    if (key == "machine" || key == "profile" || key == "expert-load") (void)train::read_texts(std::move(config));
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

std::optional<double> number_of(std::string_view text) {
  return number_in<double>(text);
}

/// A value of a key, in JSON a number where it is one.
Cell key_cell(const std::string& value) {
  if (const auto whole = number_in<std::int64_t>(value)) return {value, *whole};
  if (const auto number = number_of(value)) return {value, *number};
  return value;
}

/// The rows of each combination and policy as one: medians over its seeds.
std::vector<SweepRow> summaries_of(const Sweep& sweep, std::span<const SweepRow> rows) {
  std::vector<SweepRow> summaries;
  const auto seeds = static_cast<std::size_t>(sweep.seeds);
  for (; rows.size() >= seeds; rows = rows.subspan(seeds)) {
    SweepRow& summary = summaries.emplace_back(rows.front());
    if (!summary.possible()) continue;
    const auto over_seeds = [&](double SweepRow::*figure, double share) {
      std::vector<double> values;
      for (const SweepRow& row : rows.first(seeds)) values.push_back(row.*figure);
      return quantile(std::move(values), share);
    };
    for (double SweepRow::*figure : {&SweepRow::tokens_per_s, &SweepRow::mfu, &SweepRow::exposed_ms,
                                     &SweepRow::communication_ms, &SweepRow::step_ms, &SweepRow::bound_ms}) {
      summary.*figure = over_seeds(figure, 0.5);
    }
    summary.low_ms = over_seeds(&SweepRow::step_ms, 0.05);
    summary.high_ms = over_seeds(&SweepRow::step_ms, 0.95);
  }
  return summaries;
}

/// The first key with several values; 0 if none has.
std::size_t key_over(const Sweep& sweep) {
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    if (sweep.keys[i].values.size() > 1) return i;
  }
  return 0;
}

/// Whether an axis whose values span this range reads better in logarithms.
inspect::ChartScale scale_of(double least, double most) {
  constexpr double kWide = 20;
  return least > 0 && most / least >= kWide ? inspect::ChartScale::logarithmic : inspect::ChartScale::linear;
}

/// The unit of a number of the machine.
inspect::ChartUnit unit_of(const std::string& key) {
  using cost::MachineUnit, inspect::ChartUnit;
  static const std::map<MachineUnit, ChartUnit> units = {
      {MachineUnit::seconds, ChartUnit::seconds},
      {MachineUnit::bytes, ChartUnit::bytes},
      {MachineUnit::bytes_a_second, ChartUnit::bytes_a_second},
      {MachineUnit::operations_a_second, ChartUnit::operations_a_second}};
  for (const cost::MachineKey& each : cost::machine_keys()) {
    const auto unit = units.find(each.unit);
    if (unit != units.end() && key == std::string(kMachinePrefix) + each.key()) return unit->second;
  }
  return ChartUnit::number;
}

inspect::ChartAxis axis_over(const SweptKey& key) {
  inspect::ChartAxis axis{.title = key.key, .at_points = true};
  std::vector<double> numbers;
  for (const std::string& value : key.values) {
    if (const auto number = number_of(value)) numbers.push_back(*number);
  }
  if (numbers.size() == key.values.size()) {
    axis.unit = unit_of(key.key);
    axis.scale = scale_of(*std::ranges::min_element(numbers), *std::ranges::max_element(numbers));
  } else {
    axis.places = key.values;
  }
  return axis;
}

/// "micro-batch=2, program": what tells a series from the others.
std::string series_name(const Sweep& sweep, const SweepRow& row, std::size_t over) {
  std::string name;
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    if (i != over && sweep.keys[i].values.size() > 1) name += fmt::format("{}={}, ", sweep.keys[i].key, row.values[i]);
  }
  return name + row.policy;
}

inspect::ChartPoint point_of(const Sweep& sweep, const SweepRow& row, const inspect::ChartAxis& axis, std::size_t over,
                             const std::string& name) {
  inspect::ChartPoint point{.y = row.step_ms * 1e-3};
  const std::string& value = row.values[over];
  point.x = axis.places.empty() ? number_of(value).value_or(0)
                                : static_cast<double>(std::ranges::find(axis.places, value) - axis.places.begin());
  point.tooltip = fmt::format("{}={}, {}: {}", axis.title, value, name, format_time(point.y * 1e9));
  if (sweep.seeds > 1) {
    point.low = row.low_ms * 1e-3, point.high = row.high_ms * 1e-3;
    point.tooltip += fmt::format(" ({} to {})", format_time(*point.low * 1e9), format_time(*point.high * 1e9));
  }
  return point;
}

/// Moves the points of series at one place beside each other.
void stand_apart(std::vector<inspect::ChartSeries>& series) {
  constexpr double kRoom = 0.5;  // of the distance between places
  const auto count = static_cast<double>(series.size());
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double shift = ((static_cast<double>(i) + 0.5) / count - 0.5) * kRoom;
    for (inspect::ChartPoint& point : series[i].points) point.x += shift;
  }
}

StyledText sweep_text(const Sweep& sweep, std::span<const SweepRow> rows, std::optional<std::size_t> width) {
  const std::vector<SweepRow> summaries = summaries_of(sweep, rows);
  TextTable table = sweep_columns(sweep).table(summaries);
  for (std::size_t i = 0; i < summaries.size() && summaries.size() > 1; ++i) {
    if (!summaries[i].possible()) continue;
    if (!table.best || summaries[i].step_ms < summaries[*table.best].step_ms) table.best = i;
  }
  return table_text(table, width);
}

inspect::Picture sweep_picture(const Sweep& sweep, std::span<const SweepRow> rows) {
  constexpr std::size_t kNamed = 16;  // series with a line in the legend
  const std::size_t over = key_over(sweep);
  inspect::SeriesChart chart{.title = fmt::format("step over {}", sweep.keys[over].key),
                             .x = axis_over(sweep.keys[over]),
                             .y = {.title = "step", .unit = inspect::ChartUnit::seconds}};
  double least = 0, most = 0;
  for (const SweepRow& row : summaries_of(sweep, rows)) {
    if (!row.possible()) continue;
    const std::string name = series_name(sweep, row, over);
    auto series = std::ranges::find(chart.series, name, &inspect::ChartSeries::name);
    if (series == chart.series.end()) {
      chart.series.push_back({.name = name, .line = chart.x.places.empty()});
      series = std::prev(chart.series.end());
    }
    series->points.push_back(point_of(sweep, row, chart.x, over, name));
    const double step = series->points.back().y;
    least = most == 0 ? step : std::min(least, step), most = std::max(most, step);
  }
  chart.y.scale = scale_of(least, most);
  chart.y.from_zero = least < most / 2;  // else the differences would be small
  if (!chart.x.places.empty()) stand_apart(chart.series);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    std::ranges::stable_sort(chart.series[i].points, {}, &inspect::ChartPoint::x);
    if (i >= kNamed) chart.series[i].name.clear();
  }
  if (chart.series.size() > kNamed) {
    chart.series.push_back({.name = fmt::format("and {} more", chart.series.size() - kNamed),
                            .color = "#ffffff",
                            .line = false,
                            .radius = 0});
  }
  return inspect::chart_picture(chart);
}

constexpr int kColumnsVersion = 1;  // of results.csv: another one means other figures under the same names
constexpr const char* kBase = "base.toml";
constexpr std::size_t kMostRead = std::size_t{1} << 30;

/// The values that a key has in a sweep, without empty ones.
std::vector<std::string> all_values(const Sweep& sweep, const std::string& key, const std::string& configured) {
  const auto swept = std::ranges::find(sweep.keys, key, &SweptKey::key);
  std::vector<std::string> values = {configured};
  if (swept != sweep.keys.end()) values = swept->values;
  std::erase(values, "");
  return values;
}

}  // namespace

std::vector<SweptKey> swept_keys(std::span<const std::string> words, const std::vector<std::string>& known) {
  std::vector<SweptKey> keys;
  for (const std::string& word : words) {
    const std::string key = key_of(word);
    if (keys.empty() && key.empty()) {
      throw UserError(fmt::format("--over {} has no key", word), "a key, a value, and further values",
                      "--over micro-batch=1 2 4");
    }
    const bool begins =
        keys.empty() || (!key.empty() && (std::ranges::find(known, key) != known.end() ||
                                          key.starts_with(kModelPrefix) || key.starts_with(kMachinePrefix)));
    if (begins) {
      check_key(key, known);
      if (std::ranges::find(keys, key, &SweptKey::key) != keys.end()) {
        throw UserError(fmt::format("--over names {} twice", key), "each key once",
                        fmt::format("give all its values together: --over {}=VALUE VALUE", key));
      }
      keys.push_back({key, {}});
    }
    std::string value = begins ? word.substr(word.find('=') + 1) : word;
    std::vector<std::string>& values = keys.back().values;
    if (std::ranges::find(values, value) != values.end()) {
      throw UserError(fmt::format("--over gives {} the value {} twice", keys.back().key, value), "each value once",
                      "leave one out");
    }
    values.push_back(std::move(value));
  }
  return keys;
}

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

Experiment<SweepRow> experiment_of(const Sweep& sweep) {
  Experiment<SweepRow> experiment{.together = static_cast<std::size_t>(sweep.seeds), .threads = sweep.threads};
  experiment.points.resize(static_cast<std::size_t>(row_count(sweep)));
  const std::uint64_t seed = shared_config(sweep).seed;
  for (std::size_t i = 0; i < experiment.points.size(); ++i) {
    const std::size_t plan = i / experiment.together;
    SweepRow& row = experiment.points[i];
    row.values = values_of(sweep, plan / sweep.policies.size());
    row.policy = sweep.policies[plan % sweep.policies.size()].name;
    row.seed = seed + i % experiment.together;
  }
  experiment.name = [&sweep](const SweepRow& row) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < row.values.size(); ++i)
      words.push_back(fmt::format("{}={}", sweep.keys[i].key, row.values[i]));
    words.push_back(row.policy);
    words.push_back(fmt::format("seed {}", row.seed));
    return words;
  };
  experiment.compute = [&sweep](std::span<SweepRow> rows, const TellStatus&) {
    simulate_rows(sweep, *std::ranges::find(sweep.policies, rows.front().policy, &policy::NamedPolicy::name), rows);
    return true;
  };
  return experiment;
}

Columns<SweepRow> sweep_columns(const Sweep& sweep) {
  const bool noisy = sweep.seeds > 1;
  Columns<SweepRow> columns;
  for (std::size_t i = 0; i < sweep.keys.size(); ++i) {
    const SweptKey& key = sweep.keys[i];
    const bool words = !std::ranges::all_of(key.values, [](const auto& value) { return number_of(value).has_value(); });
    columns
        .add(key.key, [i](const SweepRow& row) { return key_cell(row.values.at(i)); },
             {.head = key.key, .words = words})
        .read = [](const std::string& value, SweepRow& row) {
      row.values.push_back(value);
      return true;
    };
  }
  columns.add("policy", &SweepRow::policy, {.head = "policy", .words = true});
  columns.add("seed", &SweepRow::seed);
  columns.figure("step_ms", &SweepRow::step_ms, {.head = noisy ? "median step" : "step"}, ms_text);
  if (noisy) {
    columns.show({.head = "5 to 95 %", .rank = 1},
                 [](const SweepRow& row) { return ms_range_text(row.low_ms, row.high_ms); });
  }
  columns.figure("tokens_per_s", &SweepRow::tokens_per_s, {.head = "tokens/s", .rank = 2}, human_count);
  columns.figure("mfu", &SweepRow::mfu, {.head = "MFU", .rank = 2}, percent_text);
  columns.figure("exposed_ms", &SweepRow::exposed_ms, {.head = "exposed", .rank = 3}, ms_text);
  columns.figure("communication_ms", &SweepRow::communication_ms, {.head = "communication", .rank = 4}, ms_text);
  columns.figure("memory_bytes", &SweepRow::memory_bytes).shown({.head = "memory", .rank = 1}, [](const SweepRow& row) {
    return bytes_text(row.memory_bytes) + (row.fits ? "" : ", doesn't fit");
  });
  columns.add("fits", &SweepRow::fits);
  columns.figure("bound_ms", &SweepRow::bound_ms, {.head = "bound", .rank = 5}, ms_text);
  columns.add("reason", &SweepRow::reason);
  return columns;
}

Results results_of(const Sweep& sweep, std::span<const SweepRow> rows) {
  return {.text = [&sweep, rows](std::optional<std::size_t> width) { return sweep_text(sweep, rows, width); },
          .json = [&sweep, rows] { return JsonObject().add("rows", sweep_columns(sweep).json(rows)); },
          .csv = [&sweep, rows] { return sweep_columns(sweep).csv(rows); },
          .picture = [&sweep, rows] { return sweep_picture(sweep, rows); }};
}

FolderDescription sweep_base(const Sweep& sweep) {
  const train::RunConfig config = shared_config(sweep);
  FolderDescription base{.tail = train::dump_toml(config)};
  base.head = fmt::format(
      "# The base of a sweep of Weft: its rows differ from it in the columns of results.csv.\n"
      "# columns: version {}\n# noise: {}\n",
      kColumnsVersion, sweep.noise);
  for (const train::Setting& setting : sweep.settings) {
    if (!setting.key.starts_with(kMachinePrefix)) continue;
    base.head += fmt::format("# fixed: {} = {}\n", setting.key, setting.value);
  }
  for (const std::string& name : all_values(sweep, "machine", config.machine)) {
    const std::string text = cost::machine_toml(cost::find_machine(name, cost::machine_folders()));
    base.files.push_back(file_line("machine " + name, text));
  }
  for (const std::string& name : all_values(sweep, "profile", config.profile)) {
    const std::string text = read_text_file(name, "the profile", kMostRead, "a profile", "--profile with its path");
    base.files.push_back(file_line("profile " + name, text));
  }
  return base;
}

RowFolder<SweepRow> sweep_folder(const std::filesystem::path& path, const Sweep& sweep) {
  return {ResultFolder(path, kBase, "weft sweep"), sweep_base(sweep), sweep_columns(sweep)};
}

}  // namespace weft::study
