#include "study/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/first_line.h"
#include "inspect/formats/graph_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/simulate/open_problem.h"
#include "study/jobs.h"
#include "study/step_figures.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

/// Steps that differ by less than this share are equally good: simulated times are rounded to nanoseconds.
constexpr double kSame = 1e-6;

train::RunConfig config_of(const BenchInstance& instance) {
  train::RunConfig config;
  train::load_toml(config, instance.file.string());
  return config;
}

bool is_pipeline(const BenchInstance& instance) {
  return !instance.is_graph() && config_of(instance).grid.pipe > 1;
}

simulate::Problem problem_of(const BenchInstance& instance) {
  if (!instance.is_graph()) return train::planning_problem(train::resolve(config_of(instance), 0));
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
  for (const int link : simulate::simulation_options(problem).link_of_channel) fingerprint.add(link);
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
  const StepFigures figures = figures_of(report);
  row.step_ns = figures.step_ns;
  row.exposed_ns = figures.exposed_ns;
  row.memory_bytes = figures.memory_bytes;
  row.planning_ms = report.planning_ms;
  for (const auto& graph : graphs) row.tasks += std::ssize(graph->tasks());
  row.graph = fingerprint_of(graphs, problem);
  row.proof = book.enter(row.instance, row.policy, open_graph(graphs, problem, row.instance), row.step_ns);
  row.bound_ns = book.bound_ns(row.proof);
}

BenchRow solved(const BenchJob& job, CertificateBook& book) {
  BenchRow row{.instance = job.instance.name, .policy = job.policy.name, .step = job.step.fingerprint};
  try {
    if (job.step.pipeline) {
      const train::ResolvedRun run = train::resolve_with(config_of(job.instance), job.policy.name);
      const simulate::Problem problem = train::planning_problem(run);
      enter_if_planned(row, simulate::report_plan(problem, run.policy), problem, book);
    } else {
      const simulate::Problem problem = problem_of(job.instance);
      enter_if_planned(row, simulate::report_plan(problem, job.policy), problem, book);
    }
  } catch (const UserError& error) {
    row.reason = first_line(error.what());
  }
  return row;
}

bool is_built_in(const std::string& policy) {
  const std::vector<std::string> names = policy::policy_names();
  return std::ranges::find(names, policy.substr(0, policy.find(':'))) != names.end();
}

/// Whether a policy is about steps of this kind. Policies of users may be about any.
bool concerns(const std::string& policy, bool pipeline) {
  const std::string name = policy.substr(0, policy.find(':'));
  const auto contains = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (!contains(policy::policy_names())) return true;
  return contains(pipeline ? policy::pipeline_policy_names() : policy::graph_policy_names());
}

}  // namespace

std::vector<BenchJob> bench_jobs(std::span<const BenchInstance> instances, std::span<const BenchStep> steps,
                                 std::span<const policy::NamedPolicy> policies) {
  std::vector<BenchJob> jobs;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    for (const policy::NamedPolicy& policy : policies) {
      if (concerns(policy.name, steps[i].pipeline)) jobs.push_back({instances[i], steps[i], policy});
    }
  }
  return jobs;
}

std::vector<BenchRow> run_bench(std::span<const BenchJob> jobs, int threads, CertificateBook& book,
                                const std::function<void(const BenchRow&)>& found, const TellStatus& tell) {
  std::vector<BenchRow> rows(jobs.size());
  const auto name = [&](std::size_t job) { return jobs[job].instance.name + " " + jobs[job].policy.name; };
  const auto weight = [&](std::size_t job) { return jobs[job].step.tasks; };
  const auto work = [&](std::size_t job) -> Keep {
    rows[job] = solved(jobs[job], book);
    return [&found, &row = rows[job]] { found(row); };
  };
  do_jobs({jobs.size(), name, weight}, threads, work, tell);
  return rows;
}

BenchStep step_of(const BenchInstance& instance) {
  BenchStep step{.pipeline = is_pipeline(instance)};
  const simulate::Problem problem = problem_of(instance);
  step.fingerprint = fingerprint_of(problem.classes, problem);
  for (const auto& graph : problem.classes) step.tasks += std::ssize(graph->tasks());
  return step;
}

void refresh_bounds(const BenchInstance& instance, const BenchStep& step, std::span<BenchRow> rows,
                    CertificateBook& book) {
  std::map<std::uint64_t, std::uint64_t> proofs;  // by BenchRow::graph
  const auto refresh = [&](BenchRow& row, const simulate::Problem& problem, const policy::Policy& policy) {
    const Graphs own = rewritten(problem.classes, policy, problem.options, problem.rewrites);
    if (fingerprint_of(own, problem) != row.graph) return;
    row.proof = book.enter(row.instance, row.policy, open_graph(own, problem, row.instance), row.step_ns);
    row.bound_ns = book.bound_ns(row.proof);
    proofs.emplace(row.graph, row.proof);
  };
  std::optional<simulate::Problem> problem;
  if (!step.pipeline) problem = problem_of(instance);
  for (BenchRow& row : rows) {
    if (row.instance != instance.name || row.step != step.fingerprint || !row.possible()) continue;
    if (const auto known = proofs.find(row.graph); known != proofs.end()) {
      row.proof = known->second;
      row.bound_ns = book.bound_ns(row.proof);
      book.enter(row.instance, row.policy, row.proof, row.step_ns);
      continue;
    }
    const std::string name = is_built_in(row.policy) ? row.policy : policy::default_policy()->name();
    if (problem) {
      refresh(row, *problem, *policy::named_policy(name));
    } else {
      const train::ResolvedRun run = train::resolve_with(config_of(instance), name);
      refresh(row, train::planning_problem(run), *run.policy);
    }
  }
}

std::vector<BestKnown> best_of(std::span<const BenchInstance> instances, std::span<const BenchStep> steps,
                               std::span<const BenchRow> rows, std::vector<BestKnown> known) {
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const std::string& name = instances[i].name;
    const std::uint64_t step = steps[i].fingerprint;
    std::map<std::uint64_t, double> bounds;  // by graph
    std::optional<BestKnown> best;
    const auto enter = [&](const BestKnown& other) {
      double& bound = bounds[other.graph];
      bound = std::max(bound, other.bound_ns);
      if (!best || other.step_ns < best->step_ns * (1 - kSame)) best = other;
    };
    for (const BestKnown& each : known) {
      if (each.instance == name && each.step == step) enter(each);
    }
    for (const BenchRow& row : rows) {
      if (row.instance == name && row.step == step && row.possible())
        enter({name, step, row.step_ns, row.policy, row.graph, row.bound_ns});
    }
    std::erase_if(known, [&](const BestKnown& each) { return each.instance == name; });
    if (!best) continue;
    std::tie(best->graph, best->bound_ns) =
        *std::ranges::min_element(bounds, {}, [](const auto& each) { return each.second; });
    known.push_back(*std::move(best));
  }
  std::ranges::sort(known, {}, &BestKnown::instance);
  return known;
}

std::vector<PolicyScore> scores_of(std::span<const BenchRow> rows, std::span<const BestKnown> best) {
  std::vector<PolicyScore> scores;
  for (const BenchRow& row : rows) {
    auto score = std::ranges::find(scores, row.policy, &PolicyScore::policy);
    if (score == scores.end()) score = scores.insert(scores.end(), {.policy = row.policy});
    ++score->instances;
    const auto known = std::ranges::find(best, row.instance, &BestKnown::instance);
    if (!row.possible() || known == best.end()) continue;
    ++score->solved;
    score->planning_ms += row.planning_ms;
    const double ratio = std::max(1.0, row.step_ns / known->step_ns);
    score->ratios.push_back(ratio);
    if (ratio <= 1 + kSame) ++score->best;
  }
  for (PolicyScore& score : scores) {
    std::ranges::sort(score.ratios);
    double logarithms = 0;
    for (const double ratio : score.ratios) logarithms += std::log(ratio);
    if (score.ratios.empty()) continue;
    score.mean_ratio = std::exp(logarithms / static_cast<double>(score.ratios.size()));
    score.worst_ratio = score.ratios.back();
  }
  std::ranges::stable_sort(scores, [](const PolicyScore& a, const PolicyScore& b) {
    const auto share = [](const PolicyScore& of) {
      return static_cast<double>(of.solved) / static_cast<double>(std::max<std::int64_t>(1, of.instances));
    };
    if (share(a) != share(b)) return share(a) > share(b);
    return a.mean_ratio < b.mean_ratio;
  });
  return scores;
}

}  // namespace weft::study
