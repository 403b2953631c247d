#include "study/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "inspect/formats/graph_file.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/simulate/open_problem.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr std::string_view kConfiguration = ".toml", kGraph = ".graph.json", kPackedGraph = ".graph.json.gz";

/// "gpt2" of gpt2.toml or gpt2.graph.json.gz; "" of other files.
std::string instance_name(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  for (const std::string_view end : {kPackedGraph, kGraph, kConfiguration}) {
    if (!name.ends_with(end)) continue;
    name.resize(name.size() - end.size());
    return name;
  }
  return "";
}

/// The comment in which a configuration begins, up to its first full stop.
std::string first_comment(const std::filesystem::path& file) {
  constexpr std::size_t kMost = 1 << 20;
  const std::string text = read_text_file(file, "the instance", kMost, "a configuration", "see bench/overlap");
  std::string about;
  for (std::string_view rest = text; rest.starts_with('#');) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t word = line.find_first_not_of("# ");
    if (word == std::string_view::npos) break;
    about += about.empty() ? "" : " ";
    about += line.substr(word);
    if (about.ends_with('.')) break;
  }
  return about;
}

/// "anneal" of "anneal:iterations=9".
std::string name_of(const std::string& policy) {
  return policy.substr(0, policy.find(':'));
}

train::RunConfig config_of(const BenchInstance& instance) {
  train::RunConfig config;
  train::load_toml(config, instance.file.string());
  return config;
}

/// For a policy, which decides how many chunks a rank has, and on which a problem depends in nothing else; without one,
/// for the configuration's.
simulate::Problem problem_of(const BenchInstance& instance, const std::optional<std::string>& policy = std::nullopt) {
  if (!instance.is_graph()) {
    const train::RunConfig config = config_of(instance);
    return train::planning_problem(policy ? train::resolve_with(config, *policy) : train::resolve(config, 0));
  }
  // Collectives may change places, and computations keep their recorded order.
  const graph::OpenGraph graph = inspect::read_graph_file(instance.file);
  return simulate::open_problem(graph, {.kept = graph::KeptOrder::computations});
}

using Graphs = std::vector<std::shared_ptr<const graph::Graph>>;

/// Of graphs that a problem's policies order, and of what the simulation of an order of theirs depends on.
std::uint64_t fingerprint_of(const Graphs& graphs, const simulate::Problem& problem) {
  Fingerprint fingerprint;
  for (const auto& graph : graphs) {
    fingerprint.add(graph->fingerprint());
    for (const double ns : policy::costs_of(*graph, problem.options).ns) fingerprint.add(ns);
  }
  // Without channels of folds of z, which came later than files with fingerprints and have z's link.
  const std::vector<int> links = simulate::simulation_options(problem).link_of_channel;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const bool folds = i >= static_cast<std::size_t>(graph::Channel::context) && i < graph::kAxisChannels;
    if (!folds) fingerprint.add(links[i]);
  }
  for (const cost::Slowdown& each : problem.machine.slowdowns)
    fingerprint.add(each.compute).add(each.collective).add(each.factor);
  fingerprint.add(problem.machine.cores).add(problem.machine.transport_cpu).add(problem.machine.shared_cores);
  fingerprint.add(problem.options.compute_streams).add(problem.options.memory);
  return fingerprint.value();
}

/// The graphs after a user's rewrites and those of a policy that don't depend on memory.
Graphs rewritten(const Graphs& graphs, const policy::Policy& policy, const policy::PolicyOptions& options,
                 const std::vector<plan::Rewrite>& chosen) {
  Graphs all;
  for (const auto& graph : graphs) {
    all.push_back(plan::rewrite(graph, policy::rewrites_of(graph, policy, options, chosen), options.weight_layouts));
  }
  return all;
}

graph::OpenGraph open_graph(const Graphs& graphs, const simulate::Problem& problem, const std::string& name) {
  std::vector<cost::TaskCosts> costs;
  for (const auto& graph : graphs) costs.push_back(policy::costs_of(*graph, problem.options));
  return simulate::open_graph_of(graphs, costs, problem, name);
}

void enter_if_planned(BenchRow& row, const simulate::Report& report, const simulate::Problem& problem,
                      CertificateBook& book) {
  if (!report.planned()) {
    row.reason = first_line(report.refusal);
    return;
  }
  const Graphs graphs = report.graphs();
  row.step_ns = report.step_ns();
  row.exposed_ns = report.most_exposed().times.exposed;
  row.memory_bytes = report.memory_bytes();
  row.planning_ms = report.planning_ms;
  for (const auto& graph : graphs) row.tasks += std::ssize(graph->tasks());
  row.graph = fingerprint_of(graphs, problem);
  row.proof = book.enter(row.instance, row.policy, open_graph(graphs, problem, row.instance), row.step_ns);
  row.bound_ns = book.bound_ns(row.proof);
}

/// Whether a policy is about steps of this kind. Policies of users may be about any.
bool concerns(const std::string& policy, const BenchStep& step) {
  if (!is_built_in(policy)) return true;
  const std::vector<std::string> names =
      step.classes > 1 ? policy::pipeline_policy_names() : policy::graph_policy_names();
  return std::ranges::find(names, name_of(policy)) != names.end();
}

}  // namespace

bool BenchInstance::is_graph() const {
  return inspect::is_graph_file(file);
}

std::vector<BenchInstance> bench_instances(const std::filesystem::path& folder, std::span<const std::string> wanted) {
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(fmt::format("{} is no folder", folder.string()), "a folder of instances",
                    "run it from Weft's folder, or name one with --instances");
  }
  std::vector<BenchInstance> instances;
  std::vector<std::string> known;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (std::string name = instance_name(entry.path()); !name.empty()) {
      known.push_back(name);
      instances.push_back({std::move(name), entry.path()});
    }
  }
  std::ranges::sort(known);
  std::ranges::sort(instances, {}, [](const BenchInstance& each) { return std::pair(each.name, each.file); });
  if (const auto twice = std::ranges::adjacent_find(known); twice != known.end()) {
    throw UserError(fmt::format("{}: two instances are called {}", folder.string(), *twice), "one file each",
                    "rename one of them");
  }
  if (known.empty()) {
    throw UserError(fmt::format("{} has no instances", folder.string()), "files NAME.toml or NAME.graph.json",
                    "name another folder with --instances");
  }
  for (const std::string& name : wanted) {
    if (std::ranges::binary_search(known, name)) continue;
    const std::string nearest = nearest_name(name, known);
    throw UserError(fmt::format("no instance {} in {}", name, folder.string()), fmt::format("one of {}", join(known)),
                    nearest.empty() ? "choose one of them" : fmt::format("write {}", nearest));
  }
  if (!wanted.empty()) {
    std::erase_if(instances,
                  [&](const BenchInstance& each) { return std::ranges::find(wanted, each.name) == wanted.end(); });
  }
  for (BenchInstance& each : instances) {
    if (!each.is_graph()) each.about = first_comment(each.file);
  }
  return instances;
}

bool is_built_in(const std::string& policy) {
  const std::vector<std::string> names = policy::policy_names();
  return std::ranges::find(names, name_of(policy)) != names.end();
}

BenchStep step_of(const BenchInstance& instance) {
  const simulate::Problem problem = problem_of(instance);
  BenchStep step{.fingerprint = fingerprint_of(problem.classes, problem), .classes = problem.classes.size()};
  for (const auto& graph : problem.classes) step.tasks += std::ssize(graph->tasks());
  return step;
}

Experiment<BenchRow> experiment_of(std::span<const BenchInstance> instances,
                                   std::span<const policy::NamedPolicy> policies, int threads, CertificateBook& book) {
  Experiment<BenchRow> experiment{.threads = threads};
  for (const BenchInstance& instance : instances) {
    for (const policy::NamedPolicy& policy : policies) {
      if (!concerns(policy.name, instance.step)) continue;
      experiment.points.push_back(
          {.instance = instance.name, .policy = policy.name, .step = instance.step.fingerprint});
    }
  }
  const auto instance_of = [instances](const BenchRow& row) -> const BenchInstance& {
    return *std::ranges::find(instances, row.instance, &BenchInstance::name);
  };
  experiment.name = [](const BenchRow& row) { return std::vector{row.instance, row.policy}; };
  experiment.weight = [instance_of](const BenchRow& row) { return instance_of(row).step.tasks; };
  experiment.compute = [instance_of, policies, &book](std::span<BenchRow> rows, const TellStatus&) {
    BenchRow& row = rows.front();
    try {
      const simulate::Problem problem = problem_of(instance_of(row), row.policy);
      const policy::NamedPolicy& policy = *std::ranges::find(policies, row.policy, &policy::NamedPolicy::name);
      enter_if_planned(row, simulate::report_plan(problem, policy), problem, book);
    } catch (const UserError& error) {
      row.reason = first_line(error.what());
    }
    return true;
  };
  return experiment;
}

void refresh_bounds(const BenchInstance& instance, std::span<BenchRow> rows, CertificateBook& book) {
  std::map<std::uint64_t, std::uint64_t> proofs;                                   // by BenchRow::graph
  std::vector<std::pair<graph::PipelineChunks, simulate::Problem>> problems = {};  // of the chunks that were needed
  for (BenchRow& row : rows) {
    if (row.instance != instance.name || row.step != instance.step.fingerprint || !row.possible()) continue;
    if (const auto known = proofs.find(row.graph); known != proofs.end()) {
      row.proof = known->second;
      row.bound_ns = book.bound_ns(row.proof);
      book.enter(row.instance, row.policy, row.proof, row.step_ns);
      continue;
    }
    const policy::NamedPolicy policy =
        policy::named_policy(is_built_in(row.policy) ? row.policy : policy::default_policy()->name());
    const graph::PipelineChunks chunks = policy->chunks();
    auto known = std::ranges::find(problems, chunks, [](const auto& each) { return each.first; });
    if (known == problems.end()) known = problems.insert(known, {chunks, problem_of(instance, policy.name)});
    const simulate::Problem& problem = known->second;
    const Graphs own = rewritten(problem.classes, *policy, problem.options, problem.rewrites);
    if (fingerprint_of(own, problem) != row.graph) continue;
    row.proof = book.enter(row.instance, row.policy, open_graph(own, problem, row.instance), row.step_ns);
    row.bound_ns = book.bound_ns(row.proof);
    proofs.emplace(row.graph, row.proof);
  }
}

}  // namespace weft::study
