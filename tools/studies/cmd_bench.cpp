// `weft bench`: policies on the instances of OverlapBench, beside the best steps and bounds that are known.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/text_file.h"
#include "base/status_line.h"
#include "base/text/printable.h"
#include "base/text/text_table.h"
#include "study/bench/bench_output.h"
#include "tools/commands.h"
#include "tools/config_options.h"
#include "tools/studies/search_flags.h"

namespace weft::tools {
namespace {

constexpr const char* kFolder = "bench/overlap";

struct BenchCommand {
  std::vector<std::string> wanted, policies = {"all"};
  std::string instances = kFolder, folder, certificates;
  int jobs = 1, splits = 0;
  bool json = false, list = false, quiet = false;
};

std::vector<policy::NamedPolicy> named_policies(const std::vector<std::string>& texts) {
  std::vector<policy::NamedPolicy> policies;
  policy::TrustedLibraries libraries;
  for (const std::string& text : texts) {
    libraries.trust(text);
    const std::vector<std::string> names = text == "all" ? policy::policy_names() : std::vector{text};
    for (const std::string& name : names) policies.push_back(policy::named_policy(name, libraries));
  }
  return policies;
}

std::vector<study::BestKnown> known_best(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  constexpr std::size_t kMost = 1 << 24;
  return study::parse_best(read_text_file(file, "the best known steps", kMost, "what weft bench writes", ""),
                           file.string());
}

int list_instances(const std::vector<study::BenchInstance>& instances) {
  TextTable table{.columns = {{.words = true}, {.words = true}}, .heads = false};
  for (const study::BenchInstance& each : instances) {
    table.rows.push_back({each.name, each.about.empty() ? "a graph file" : each.about});
  }
  say(stdout, table_text(table, output_width()));
  return 0;
}

void write_certificates(const std::filesystem::path& folder, const std::vector<study::BenchInstance>& instances,
                        const std::vector<std::uint64_t>& steps, const study::CertificateBook& book) {
  std::vector<std::string> names;
  for (const study::BenchInstance& each : instances) names.push_back(each.name);
  for (const study::InstanceCertificate& each : book.certificates(names, steps))
    write_durable(folder / (each.instance + ".json"), study::certificate_json(each));
}

int run_bench_command(const BenchCommand& command) {
  if (command.splits > 0 && command.certificates.empty())
    throw UserError("--branch without --certify", "a folder for the proofs, which the cases are part of",
                    "add --certify FOLDER");
  const std::vector<policy::NamedPolicy> policies = named_policies(command.policies);
  study::BenchResult result;
  result.instances = study::bench_instances(command.instances, command.wanted);
  if (command.list) return list_instances(result.instances);
  const std::filesystem::path folder = command.folder;
  if (!folder.empty()) {
    std::filesystem::create_directories(folder);
    expect_writable(folder / "results.csv");
  }
  // Steps that were found before count too: those of the folder that is written, else those beside the instances.
  const std::filesystem::path best_file =
      (folder.empty() ? std::filesystem::path(command.instances) / "results" : folder) / "best.csv";
  const std::filesystem::path certificates = command.certificates;
  if (!certificates.empty()) std::filesystem::create_directories(certificates / "graphs");
  study::CertificateBook book(certificates.empty() ? "" : certificates / "graphs");
  std::vector<study::BestKnown> known = known_best(best_file);
  std::vector<std::uint64_t> steps;
  {
    StatusLine line(!command.json && !command.quiet);
    for (const study::BenchInstance& each : result.instances) steps.push_back(study::step_fingerprint(each));
    result.rows = study::run_bench(
        result.instances, policies, threads_of(command.jobs), [&](const Status& status) { line.show(status); }, book);
  }
  if (!certificates.empty()) {
    book.branch(static_cast<std::size_t>(command.splits));
    for (study::BenchRow& row : result.rows) {
      if (row.solved()) row.bound_ns = book.bound_ns(row.graph);
    }
    write_certificates(certificates, result.instances, steps, book);
  }
  result.best = study::best_of(result.instances, steps, result.rows, std::move(known));
  if (!folder.empty()) {
    write_durable(folder / "results.csv", study::bench_csv(result));
    write_durable(folder / "results.md", study::bench_markdown(result));
    write_durable(folder / "profile.svg", study::performance_profile(result).svg());
    write_durable(folder / "best.csv", study::best_csv(result.best));
  }
  if (command.json) {
    say("{}\n", study::bench_json(result).text());
    return 0;
  }
  say(stdout, study::bench_text(result, output_width()));
  if (!folder.empty() && !command.quiet)
    say("{}: results.csv, results.md, profile.svg and best.csv\n", folder.string());
  return 0;
}

}  // namespace

Command describe_bench() {
  Command command{"bench", "compare policies on the steps of OverlapBench, beside the best that is known"};
  const auto options = std::make_shared<BenchCommand>();
  command.add({.names = "instances",
               .target = &options->wanted,
               .value = "INSTANCE",
               .help = "instances by name; default: all"});
  command.add({.names = "--policies",
               .target = &options->policies,
               .value = "POLICY",
               .help = "policies to compare; all: every built-in one, each on the steps that it orders",
               .suggestions = policy_words()});
  command.add({.names = "--instances",
               .target = &options->instances,
               .value = "FOLDER",
               .help = "a folder of configurations and graph files",
               .default_text = kFolder,
               .paths = Paths::folders});
  command.add({.names = "--jobs",
               .target = &options->jobs,
               .value = "N",
               .help = "threads; 0: all cores",
               .default_text = "1",
               .least = 0,
               .most = 4096});
  command.add({.names = "-o,--output",
               .target = &options->folder,
               .value = "FOLDER",
               .help = "write results.csv, results.md, profile.svg, and best.csv, which keeps the best of earlier runs",
               .paths = Paths::folders});
  command.add({.names = "--certify",
               .target = &options->certificates,
               .value = "FOLDER",
               .help = "write a proof of each instance's bound, and the graphs that check_bounds.py needs to check it",
               .paths = Paths::folders});
  command.add({.names = "--branch",
               .target = &options->splits,
               .value = "N",
               .help = "with --certify: try N splits of each graph into two cases to raise its bound to its best step",
               .default_text = "0",
               .least = 0,
               .most = 1000000});
  command.add({.names = "--list", .target = &options->list, .help = "print the instances and end"});
  command.add({.names = "--json", .target = &options->json, .help = "print the rows as JSON"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the result and errors"});
  command.description =
      "An instance is a configuration or a graph file; adding one is adding a file. A policy of your own is compared "
      "by its file: ./mine.so or mine.py:NAME.";
  command.examples = {{"weft bench --policies all --jobs 2 -o bench/overlap/results", "regenerates the results"},
                      {"weft bench --policies portfolio mine.py:Mine"},
                      {"weft bench gpt2-124m-3d --policies lhs anneal:iterations=20000 --json"}};
  command.run = [options] { return run_bench_command(*options); };
  return command;
}

}  // namespace weft::tools
