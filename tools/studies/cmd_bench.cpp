// `weft bench`: policies on the instances of OverlapBench, beside the best steps and bounds that are known.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "runtime/policy/catalog/policies.h"
#include "study/bench/bench_figures.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/studies/study_flags.h"

namespace weft::tools {
namespace {

constexpr const char* kFolder = "bench/overlap";

struct BenchCommand {
  std::vector<std::string> wanted, policies = {"all"};
  std::string instances = kFolder, certificates;
  int jobs = 1, splits = 0;
  bool again = false, bounds = false, list = false;
  ResultFlags results;
};

/// "all" becomes every built-in policy.
std::vector<policy::NamedPolicy> policies_of(const BenchCommand& command) {
  std::vector<std::string> names;
  for (const std::string& text : command.policies) {
    for (const std::string& name : text == "all" ? policy::policy_names() : std::vector{text}) names.push_back(name);
  }
  return named_policies(names, {});
}

/// The files of results in a folder, which hold what earlier runs found.
class ResultsFolder {
 public:
  explicit ResultsFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
    best = read(study::best_columns(), "best.csv");
  }
  void read_rows() {
    rows = read(study::row_columns(), "results.csv");
    study::enter_planning(rows, read(study::planning_columns(), "planning.csv"));
  }
  /// Forgets what belongs to instances that are gone, and rows of other steps than the instances have now.
  void keep_rows_of(const std::vector<study::BenchInstance>& all, const std::vector<study::BenchInstance>& current) {
    const auto is_gone = [&](const auto& of) {
      return std::ranges::find(all, of.instance, &study::BenchInstance::name) == all.end();
    };
    std::erase_if(best, is_gone);
    std::erase_if(rows, [&](const study::BenchRow& row) {
      const auto at = std::ranges::find(current, row.instance, &study::BenchInstance::name);
      return at == current.end() ? is_gone(row) : row.step != at->step.fingerprint;
    });
  }
  void write_tables() const {
    write_durable(folder_ / "results.csv", study::row_columns(best).csv(rows));
    write_durable(folder_ / "planning.csv", study::planning_csv(rows));
    write_durable(folder_ / "best.csv", study::best_columns().csv(best));
  }
  void write_pages(const std::vector<study::BenchInstance>& all) const {
    const study::BenchResult result{all, rows, best};
    write_durable(folder_ / "results.md", study::bench_markdown(result));
    write_durable(folder_ / "profile.svg", study::results_of(result).picture().svg());
  }

  std::vector<study::BenchRow> rows;
  std::vector<study::BestKnown> best;

 private:
  /// None if the file isn't there.
  template <class Row>
  std::vector<Row> read(const study::Columns<Row>& columns, const char* name) const {
    constexpr std::size_t kMost = 1 << 26;
    const std::filesystem::path file = folder_ / name;
    if (!std::filesystem::exists(file)) return {};
    const std::string text = read_text_file(file, "the results of a bench", kMost, "what weft bench writes", "");
    return columns.read(text, file.string(), "remove the file; weft bench finds out again");
  }

  std::filesystem::path folder_;
};

int list_instances(const std::vector<study::BenchInstance>& instances, bool json) {
  if (json) {
    std::vector<JsonObject> rows;
    for (const study::BenchInstance& each : instances) {
      rows.push_back(JsonObject().add("instance", each.name).add("about", each.about));
    }
    say("{}\n", JsonObject().add("instances", rows).text());
    return 0;
  }
  TextTable table{.columns = {{.words = true}, {.words = true}}, .heads = false};
  for (const study::BenchInstance& each : instances) {
    table.rows.push_back({each.name, each.about.empty() ? "a graph file" : each.about});
  }
  say(stdout, table_text(table, output_width()));
  return 0;
}

/// A run of the command on the wanted instances.
class BenchRun {
 public:
  explicit BenchRun(const BenchCommand& command)
      : command_(command),
        writes_(!command.results.folder.empty()),
        certifies_(!command.certificates.empty()),
        all_(study::bench_instances(command.instances)),
        instances_(study::bench_instances(command.instances, command.wanted)),
        // Steps that were found before count too: those of the folder that is written, else those beside the instances.
        folder_(writes_ ? std::filesystem::path(command.results.folder)
                        : std::filesystem::path(command.instances) / "results") {}

  const std::vector<study::BenchInstance>& instances() const { return instances_; }

  study::BenchResult run(const std::vector<policy::NamedPolicy>& policies, const TellStatus& tell) {
    open();
    for (study::BenchInstance& each : instances_) {
      tell({fmt::format("reading {}", each.name), &each - instances_.data(), std::ssize(instances_)});
      each.step = study::step_of(each);
    }
    results_->keep_rows_of(all_, instances_);
    if (certifies_ || command_.bounds) prove_again(tell);
    if (!command_.bounds) solve(policies, tell);
    if (certifies_) write_certificates();
    take_stock();
    if (writes_) results_->write_pages(all_);
    study::BenchResult result{.instances = instances_, .rows = {}, .best = results_->best};
    for (const study::BenchRow& row : results_->rows) {
      if (std::ranges::find(instances_, row.instance, &study::BenchInstance::name) != instances_.end())
        result.rows.push_back(row);
    }
    return result;
  }

 private:
  void open() {
    if (writes_) {
      std::filesystem::create_directories(folder_);
      expect_writable(folder_ / "results.csv");
    }
    results_.emplace(folder_);
    if (writes_) results_->read_rows();
    const std::filesystem::path graphs = std::filesystem::path(command_.certificates) / "graphs";
    if (certifies_) std::filesystem::create_directories(graphs);
    book_.emplace(certifies_ ? graphs : "");
  }

  void prove_again(const TellStatus& tell) {
    for (const study::BenchInstance& each : instances_) {
      tell({fmt::format("bounds of {}", each.name), &each - instances_.data(), std::ssize(instances_)});
      study::refresh_bounds(each, results_->rows, *book_);
    }
  }

  void solve(const std::vector<policy::NamedPolicy>& policies, const TellStatus& tell) {
    study::Experiment<study::BenchRow> experiment =
        study::experiment_of(instances_, policies, threads_of(command_.jobs), *book_);
    // A proof needs the graph, which of some rows only their policy makes.
    const auto is_done = [&](const study::BenchRow& point) {
      if (!study::stands(results_->rows, point)) return false;
      const study::BenchRow& row = *study::row_of(results_->rows, point);
      return !certifies_ || !row.possible() || row.proof != 0;
    };
    if (writes_ && !command_.again) std::erase_if(experiment.points, is_done);
    const auto enter = [&](std::span<const study::BenchRow> rows) {
      study::enter_row(results_->rows, rows.front());
      if (writes_) take_stock();  // a run that is interrupted loses no row
    };
    study::run(experiment, {}, enter, tell);
  }

  void write_certificates() {
    book_->branch(static_cast<std::size_t>(command_.splits));
    for (study::BenchRow& row : results_->rows) {
      if (row.proof != 0) row.bound_ns = book_->bound_ns(row.proof);
    }
    for (const study::BenchInstance& each : instances_) {
      if (const auto certificate = book_->certificate_of(each.name, each.step.fingerprint)) {
        write_durable(std::filesystem::path(command_.certificates) / (each.name + ".json"),
                      study::certificate_json(*certificate));
      }
    }
  }

  void take_stock() {
    study::sort_rows(results_->rows);
    results_->best = study::best_of(instances_, results_->rows, std::move(results_->best));
    if (writes_) results_->write_tables();
  }

  const BenchCommand& command_;
  const bool writes_, certifies_;
  const std::vector<study::BenchInstance> all_;
  std::vector<study::BenchInstance> instances_;
  const std::filesystem::path folder_;
  std::optional<ResultsFolder> results_;
  std::optional<study::CertificateBook> book_;
};

/// Tells why policies that were named have no step, and returns the exit code.
int tell_failures(const BenchCommand& command, const study::BenchResult& result) {
  int code = 0;
  for (const study::BenchRow& row : result.rows) {
    const bool named = std::ranges::find(command.policies, row.policy) != command.policies.end();
    if (!named || row.possible()) continue;
    tell(fmt::format("{} has no step of {}: {}\n", row.policy, row.instance, row.reason));
    code = 1;
  }
  return code;
}

int run_bench_command(const BenchCommand& command) {
  if (command.splits > 0 && command.certificates.empty())
    throw UserError("--branch without --certify", "a folder for the proofs, which the cases are part of",
                    "add --certify FOLDER");
  const std::vector<policy::NamedPolicy> policies = policies_of(command);
  BenchRun bench(command);
  if (command.list) return list_instances(bench.instances(), command.results.json);
  if (command.bounds && command.results.folder.empty()) {
    throw UserError("--bounds without a folder of results", "-o FOLDER, in which results.csv stands",
                    "add -o bench/overlap/results");
  }
  const study::BenchResult result =
      command.results.with_status([&](const TellStatus& tell) { return bench.run(policies, tell); });
  command.results.print(study::results_of(result), "results.csv, planning.csv, best.csv, results.md and profile.svg");
  return tell_failures(command, result);
}

}  // namespace

Command describe_bench() {
  Command command{"bench", "compare policies on the steps of OverlapBench, beside the best that is known"};
  const auto options = std::make_shared<BenchCommand>();
  command.add(word_option("instances", &options->wanted, "INSTANCE", "instances by name; default: all"));
  command.add(word_option("--policies", &options->policies, "POLICY",
                          "policies to compare; all: every built-in one, each on the steps that it orders",
                          policy_words()));
  command.add({.names = "--instances",
               .target = &options->instances,
               .value = "FOLDER",
               .help = "a folder of configurations and graph files",
               .default_text = kFolder,
               .paths = Paths::folders});
  command.add(number_option("--jobs", &options->jobs, "threads; 0: all cores", 0, 4096));
  command.add(output_option(options->results.folder, "FOLDER",
                            "write the results there as they come; what stands there isn't run again"));
  command.add({.names = "--again", .target = &options->again, .help = "run also what stands in the folder of -o"});
  command.add({.names = "--bounds",
               .target = &options->bounds,
               .help = "compute the bounds in the folder of -o again, and run no policy"});
  command.add(path_option(
      "--certify", &options->certificates, "FOLDER",
      "write a proof of each instance's bound, and the graphs that check_bounds.py needs to check it", Paths::folders));
  command.add(number_option(
      "--branch", &options->splits,
      "with --certify: try N splits of each graph into two cases to raise its bound to its best step; 0: none", 0,
      1000000));
  command.add({.names = "--list", .target = &options->list, .help = "print the instances and end"});
  add_result_flags(command, options->results, "rows");
  command.description =
      "An instance is a configuration or a graph file; adding one is adding a file. A policy of your own is compared "
      "by its file: ./mine.so or mine.py:NAME. If a policy that is named has no step of an instance, the reason is "
      "told "
      "and the exit code is 1.";
  command.examples = {{"weft bench --policies all --jobs 2 -o bench/overlap/results", "completes the results"},
                      {"weft bench --policies portfolio mine.py:Mine"},
                      {"weft bench gpt2-124m-3d --policies lhs anneal:iterations=20000 --json"}};
  command.run = [options] { return run_bench_command(*options); };
  return command;
}

}  // namespace weft::tools
