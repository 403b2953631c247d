#include "study/bench/bench.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/first_line.h"
#include "inspect/formats/graph_file.h"
#include "runtime/simulate/joint_report.h"
#include "runtime/simulate/open_problem.h"
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

simulate::PlanningProblem problem_of(const BenchInstance& instance) {
  if (!instance.is_graph()) return train::planning_problem(train::resolve(config_of(instance), 0));
  // Collectives may change places, and computations keep their recorded order.
  const graph::OpenGraph graph = inspect::read_graph_file(instance.file);
  return simulate::open_problem(graph, {.kept = graph::KeptOrder::computations});
}

void enter(BenchRow& row, const simulate::PlanReport& report) {
  row.step_ns = report.step_ns();
  row.exposed_ns = static_cast<double>(report.overlap.exposed);
  row.memory_bytes = report.memory_bytes;
  row.tasks = std::ssize(report.plan->graph->tasks());
  row.planning_ms = report.planning_ms;
}

void enter(BenchRow& row, const simulate::JointReport& report) {
  row.step_ns = report.step_ns();
  for (const simulate::StageTimes& times : report.times) row.exposed_ns = std::max(row.exposed_ns, times.exposed);
  row.memory_bytes = report.peak_memory_bytes();
  for (const auto& plan : report.plans) row.tasks += std::ssize(plan->graph->tasks());
  row.planning_ms = report.planning_ms;
}

graph::OpenGraph graph_of(const simulate::PlanReport& report, const simulate::PlanningProblem& problem,
                          const std::string& name) {
  return simulate::open_graph_of(*report.plan->graph, report.costs, problem, name);
}
graph::OpenGraph graph_of(const simulate::JointReport& report, const simulate::JointProblem& problem,
                          const std::string& name) {
  return simulate::open_graph_of(report, problem, name);
}

template <class Report, class Problem>
void enter_if_planned(BenchRow& row, const Report& report, const Problem& problem, CertificateBook& book) {
  if (report.planned()) {
    enter(row, report);
    row.graph = book.enter(row.instance, row.policy, graph_of(report, problem, row.instance), row.step_ns);
    row.bound_ns = book.bound_ns(row.graph);
  } else {
    row.reason = first_line(report.refusal);
  }
}

void solve(BenchRow& row, const BenchInstance& instance, bool pipeline, const policy::NamedPolicy& policy,
           CertificateBook& book) {
  try {
    if (!pipeline) {
      const simulate::PlanningProblem problem = problem_of(instance);
      return enter_if_planned(row, simulate::report_plan(problem, policy), problem, book);
    }
    train::RunConfig config = config_of(instance);  // its stages may depend on the policy
    config.policy = policy.name;
    config.given.insert("policy");
    config.libraries.trust(policy.name);
    const train::ResolvedRun run = train::resolve(std::move(config), 0);
    const simulate::JointProblem problem = train::joint_problem(run);
    enter_if_planned(row, simulate::report_together(problem, run.policy), problem, book);
  } catch (const UserError& error) {
    row.reason = first_line(error.what());
  }
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

std::vector<BenchRow> run_bench(std::span<const BenchInstance> instances, std::span<const policy::NamedPolicy> policies,
                                int threads, const TellStatus& tell, CertificateBook& book) {
  struct Job {
    const BenchInstance* instance;
    const policy::NamedPolicy* policy;
    bool pipeline;
  };
  std::vector<Job> jobs;
  std::vector<BenchRow> rows;
  for (const BenchInstance& instance : instances) {
    const bool pipeline = is_pipeline(instance);
    for (const policy::NamedPolicy& policy : policies) {
      if (!concerns(policy.name, pipeline)) continue;
      jobs.push_back({&instance, &policy, pipeline});
      rows.push_back({.instance = instance.name, .policy = policy.name});
    }
  }
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                  static_cast<std::size_t>(std::max(1, threads)));
  std::mutex mutex;
  std::int64_t done = 0;
  const auto run = [&](std::size_t i) {
    solve(rows[i], *jobs[i].instance, jobs[i].pipeline, *jobs[i].policy, book);
    const std::lock_guard lock(mutex);
    ++done;
    tell({fmt::format("[{}/{}] {} {}", done, rows.size(), rows[i].instance, rows[i].policy), done, std::ssize(rows)});
  };
  tbb::parallel_for(std::size_t{0}, jobs.size(), std::size_t{1}, run, tbb::simple_partitioner());
  return rows;
}

std::vector<BenchRow> run_bench(std::span<const BenchInstance> instances, std::span<const policy::NamedPolicy> policies,
                                int threads, const TellStatus& tell) {
  CertificateBook book;
  return run_bench(instances, policies, threads, tell, book);
}

std::uint64_t step_fingerprint(const BenchInstance& instance) {
  Fingerprint fingerprint;
  const auto add = [&](const graph::Graph& graph, const policy::PolicyOptions& options) {
    fingerprint.add(graph.fingerprint());
    for (const double ns : policy::costs_of(graph, options).ns) fingerprint.add(ns);
  };
  if (is_pipeline(instance)) {
    const simulate::JointProblem problem = train::joint_problem(train::resolve(config_of(instance), 0));
    for (const auto& graph : problem.classes) add(*graph, problem.options);
  } else {
    const simulate::PlanningProblem problem = problem_of(instance);
    add(*problem.graph, problem.options);
  }
  return fingerprint.value();
}

std::vector<BestKnown> best_of(std::span<const BenchInstance> instances, std::span<const std::uint64_t> steps,
                               std::span<const BenchRow> rows, std::vector<BestKnown> known) {
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const std::string& name = instances[i].name;
    std::erase_if(known, [&](const BestKnown& each) { return each.instance == name && each.step != steps[i]; });
    auto best = std::ranges::find(known, name, &BestKnown::instance);
    for (const BenchRow& row : rows) {
      if (row.instance != name || !row.solved()) continue;
      if (best == known.end()) {
        best = known.insert(known.end(), {name, steps[i], row.step_ns, row.policy, row.bound_ns});
        continue;
      }
      best->bound_ns = std::min(best->bound_ns, row.bound_ns);
      if (row.step_ns >= best->step_ns * (1 - kSame)) continue;
      best->step_ns = row.step_ns;
      best->policy = row.policy;
    }
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
    if (!row.solved() || known == best.end()) continue;
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
