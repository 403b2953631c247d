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
#include "base/files/text_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/text_table.h"
#include "runtime/policy/catalog/policies.h"
#include "study/bench/bench_output.h"
#include "study/bench/bench_rows.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/studies/search_flags.h"

namespace weft::tools {
namespace {

constexpr const char* kFolder = "bench/overlap";

struct BenchCommand {
  std::vector<std::string> wanted, policies = {"all"};
  std::string instances = kFolder, folder, certificates;
  int jobs = 1, splits = 0;
  bool again = false, bounds = false, json = false, list = false, quiet = false;
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
  void keep_rows_of(const std::vector<study::BenchInstance>& all, const study::BenchResult& current,
                    const std::vector<study::BenchStep>& steps) {
    const auto is_gone = [&](const auto& of) {
      return std::ranges::find(all, of.instance, &study::BenchInstance::name) == all.end();
    };
    std::erase_if(best, is_gone);
    std::erase_if(rows, [&](const study::BenchRow& row) {
      const auto at = std::ranges::find(current.instances, row.instance, &study::BenchInstance::name);
      if (at == current.instances.end()) return is_gone(row);
      return row.step != steps[static_cast<std::size_t>(at - current.instances.begin())].fingerprint;
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
    write_durable(folder_ / "profile.svg", study::performance_profile(result).svg());
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

int list_instances(const std::vector<study::BenchInstance>& instances) {
  TextTable table{.columns = {{.words = true}, {.words = true}}, .heads = false};
  for (const study::BenchInstance& each : instances) {
    table.rows.push_back({each.name, each.about.empty() ? "a graph file" : each.about});
  }
  say(stdout, table_text(table, output_width()));
  return 0;
}

void write_certificates(const std::filesystem::path& folder, const study::BenchResult& result,
                        const std::vector<study::BenchStep>& steps, const study::CertificateBook& book) {
  std::vector<std::string> names;
  for (const study::BenchInstance& each : result.instances) names.push_back(each.name);
  std::vector<std::uint64_t> fingerprints;
  for (const study::BenchStep& each : steps) fingerprints.push_back(each.fingerprint);
  for (const study::InstanceCertificate& each : book.certificates(names, fingerprints))
    write_durable(folder / (each.instance + ".json"), study::certificate_json(each));
}

void print_result(const BenchCommand& command, const study::BenchResult& result) {
  if (command.json) {
    say("{}\n", study::bench_json(result).text());
    return;
  }
  say(stdout, study::bench_text(result, output_width()));
  if (!command.folder.empty() && !command.quiet)
    say("{}: results.csv, planning.csv, best.csv, results.md and profile.svg\n", command.folder);
}

int run_bench_command(const BenchCommand& command) {
  if (command.splits > 0 && command.certificates.empty())
    throw UserError("--branch without --certify", "a folder for the proofs, which the cases are part of",
                    "add --certify FOLDER");
  const std::vector<policy::NamedPolicy> policies = policies_of(command);
  const std::vector<study::BenchInstance> all = study::bench_instances(command.instances);
  study::BenchResult result;
  result.instances = study::bench_instances(command.instances, command.wanted);
  if (command.list) return list_instances(result.instances);
  const bool writes = !command.folder.empty();
  if (command.bounds && !writes) {
    throw UserError("--bounds without a folder of results", "-o FOLDER, in which results.csv stands",
                    "add -o bench/overlap/results");
  }
  // Steps that were found before count too: those of the folder that is written, else those beside the instances.
  const std::filesystem::path given = command.folder;
  const std::filesystem::path folder = writes ? given : std::filesystem::path(command.instances) / "results";
  if (writes) {
    std::filesystem::create_directories(folder);
    expect_writable(folder / "results.csv");
  }
  ResultsFolder results(folder);
  if (writes) results.read_rows();
  StatusLine line(!command.json && !command.quiet);
  std::vector<study::BenchStep> steps;
  for (const study::BenchInstance& each : result.instances) {
    line.show({fmt::format("reading {}", each.name), std::ssize(steps), std::ssize(result.instances)});
    steps.push_back(study::step_of(each));
  }
  results.keep_rows_of(all, result, steps);
  std::vector<study::BenchJob> jobs;
  if (!command.bounds) jobs = study::bench_jobs(result.instances, steps, policies);
  const auto take_stock = [&] {
    study::sort_rows(results.rows);
    results.best = study::best_of(result.instances, steps, results.rows, std::move(results.best));
    if (writes) results.write_tables();
  };
  const std::filesystem::path certificates = command.certificates;
  const bool certifies = !certificates.empty();
  if (certifies) std::filesystem::create_directories(certificates / "graphs");
  study::CertificateBook book(certifies ? certificates / "graphs" : "");
  if (command.bounds || certifies) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      line.show(
          {fmt::format("bounds of {}", result.instances[i].name), static_cast<std::int64_t>(i), std::ssize(steps)});
      study::refresh_bounds(result.instances[i], steps[i], results.rows, book);
    }
  }
  if (writes && !command.again) {
    // A proof needs the graph, which of some rows only their policy makes.
    std::erase_if(jobs, [&](const study::BenchJob& job) {
      return study::stands(results.rows, job) && !(certifies && study::lacks_proof(results.rows, job));
    });
  }
  const auto enter = [&](const study::BenchRow& row) {
    study::enter_row(results.rows, row);
    if (writes) take_stock();  // a run that is interrupted loses no row
  };
  study::run_bench(jobs, threads_of(command.jobs), book, enter, [&](const Status& status) { line.show(status); });
  if (certifies) {
    book.branch(static_cast<std::size_t>(command.splits));
    for (study::BenchRow& row : results.rows) {
      if (row.proof != 0) row.bound_ns = book.bound_ns(row.proof);
    }
    write_certificates(certificates, result, steps, book);
  }
  take_stock();
  if (writes) results.write_pages(all);
  result.best = results.best;
  for (const study::BenchRow& row : results.rows) {
    if (std::ranges::find(result.instances, row.instance, &study::BenchInstance::name) != result.instances.end())
      result.rows.push_back(row);
  }
  print_result(command, result);
  return 0;
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
  command.add(output_option(options->folder, "FOLDER",
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
      "with --certify: try N splits of each graph into two cases to raise its bound to its best step", 0, 1000000));
  command.add({.names = "--list", .target = &options->list, .help = "print the instances and end"});
  command.add({.names = "--json", .target = &options->json, .help = "print the rows as JSON"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the result and errors"});
  command.description =
      "An instance is a configuration or a graph file; adding one is adding a file. A policy of your own is compared "
      "by its file: ./mine.so or mine.py:NAME.";
  command.examples = {{"weft bench --policies all --jobs 2 -o bench/overlap/results", "completes the results"},
                      {"weft bench --policies portfolio mine.py:Mine"},
                      {"weft bench gpt2-124m-3d --policies lhs anneal:iterations=20000 --json"}};
  command.run = [options] { return run_bench_command(*options); };
  return command;
}

}  // namespace weft::tools
