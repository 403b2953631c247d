#include "study/search/search.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/units.h"
#include "runtime/cost/machine.h"
#include "study/search/closed_forms.h"
#include "study/search/step_estimate.h"
#include "train/step/planning.h"

namespace weft::study {
namespace {

constexpr std::size_t kOrders = 4;   // of axes that are estimated for one grid
constexpr std::size_t kAtOnce = 16;  // families between two looks at the best estimate: not the number of threads, on
                                     // which the result would depend
constexpr std::int64_t kTasksOfFinalists = 40'000, kTasksOfSearching = 10'000;  // of graphs that are planned whole
constexpr double kEstimateError = 1.03;  // a step takes at most this many times its estimate
constexpr double kMemoryError = 0.02;    // an estimate of memory is at most this share too large

/// A setup with the bounds that are known of it.
struct Candidate {
  StepSetup setup;
  std::size_t number = 0;  // in the space: of equal bounds the lower comes first
  double least_ns = std::numeric_limits<double>::infinity();
  bool counted = false;  // the bounds are of the step's graph, not of closed forms
  std::int64_t least_bytes = 0;
  bool refused = false;
  double share = 1;  // of the time of a step with all layers in one rank class, by share_of_stages()
  std::vector<std::pair<StepNeeds, AxisOrder>> orders = {};  // by rising communication

  bool operator<(const Candidate& other) const {
    return std::tuple(least_ns, number) > std::tuple(other.least_ns, other.number);  // a heap has its least in front
  }
};

std::int64_t memory_of(const train::ResolvedRun& run) {
  return run.config.memory.value_or(static_cast<std::int64_t>(run.machine->memory_bytes));
}

class Search {
 public:
  Search(const train::ResolvedRun& run, const SearchOptions& options, const TellStatus& tell)
      : run_(run), options_(options), tell_(tell), memory_(memory_of(run)) {}

  SearchResult search() {
    result_.config = run_.config;
    result_.machine = *run_.machine;
    open_ = all_setups();
    const std::int64_t all = std::ssize(open_);
    while (!open_.empty() && open_.front().least_ns <= kEstimateError * best_) {
      tell_({std::isfinite(best_) ? fmt::format("bounds and estimates, best {}", format_time(best_))
                                  : "bounds and estimates",
             all - std::ssize(open_), all});
      step();
    }
    for (const Candidate& candidate : open_) {
      result_.too_slow += std::ssize(orders_of(candidate.setup));
    }
    if (result_.configurations.empty()) refuse_memory();
    std::ranges::stable_sort(result_.configurations, {}, &Configuration::step_ns);
    plan_finalists();
    return std::move(result_);
  }

 private:
  template <class Function>
  void in_parallel(std::size_t count, const Function& function) const {
    tbb::parallel_for(std::size_t{0}, count, function);
  }

  /// Choices that closed forms leave, as a heap.
  std::vector<Candidate> all_setups() {
    std::vector<Candidate> candidates;
    ClosedForms forms(run_.config, *run_.machine, options_.ranks);
    for (StepSetup& setup : setups_of(run_.config, options_.ranks, options_.kept, options_.pipes)) {
      const auto orders = orders_of(setup);
      result_.choices += std::ssize(orders);
      const auto bytes = static_cast<std::int64_t>(forms.least_bytes(setup));
      if (memory_ > 0 && bytes > memory_) {
        drop(setup, bytes);
        continue;
      }
      Candidate& candidate = candidates.emplace_back();
      candidate.setup = setup;
      candidate.number = candidates.size();
      for (const auto& order : orders) {
        setup.grid.order = order;
        candidate.least_ns = std::min(candidate.least_ns, forms.least_ns(setup));
      }
    }
    if (result_.choices == 0) refuse_ranks();
    std::make_heap(candidates.begin(), candidates.end());
    return candidates;
  }

  void drop(const StepSetup& setup, std::int64_t bytes) {
    least_bytes_ = std::min(least_bytes_, bytes);
    result_.too_large += std::ssize(orders_of(setup));
  }

  /// Takes the candidates with the least bounds: bounds by closed forms are replaced by bounds of graphs, and
  /// candidates that have these are estimated.
  void step() {
    std::vector<Candidate> taken;
    while (taken.size() < kAtOnce && !open_.empty() && open_.front().least_ns <= kEstimateError * best_) {
      std::pop_heap(open_.begin(), open_.end());
      taken.push_back(std::move(open_.back()));
      open_.pop_back();
    }
    std::vector<std::vector<Configuration>> found(taken.size());
    std::vector<std::int64_t> least(taken.size(), 0);
    in_parallel(taken.size(), [&](std::size_t i) {
      if (taken[i].counted) {
        found[i] = estimates_of(taken[i], least[i]);
      } else {
        bound(taken[i]);
      }
    });
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (!taken[i].counted) {
        taken[i].counted = true;
        if (taken[i].refused) continue;
        if (memory_ > 0 && taken[i].least_bytes > memory_) {
          drop(taken[i].setup, taken[i].least_bytes);
          continue;
        }
        open_.push_back(std::move(taken[i]));
        std::push_heap(open_.begin(), open_.end());
        continue;
      }
      if (found[i].empty() && least[i] > 0) drop(taken[i].setup, least[i]);
      for (Configuration& configuration : found[i]) {
        // An estimate a little beyond the memory may fit as a plan, but nothing is dropped because of it.
        if (memory_ <= 0 || configuration.memory_bytes <= memory_) best_ = std::min(best_, configuration.step_ns);
        result_.configurations.push_back(std::move(configuration));
        ++result_.estimated;
      }
    }
  }

  std::vector<AxisOrder> orders_of(const StepSetup& setup) const {
    if (options_.kept.contains("axis-order")) return {setup.grid.order};
    return axis_orders(setup.grid);
  }

  void bound(Candidate& candidate) const {
    try {
      train::RunConfig config = with_setup(run_.config, candidate.setup);
      train::fill_in(config, 0);
    } catch (const UserError&) {
      candidate.refused = true;
      return;
    }
    if (has_stages(candidate.setup)) {
      candidate.share = share_of_stages(run_.config, candidate.setup, options_.schedules);
      candidate.refused = !std::isfinite(candidate.share);
      if (candidate.refused) return;
    }
    candidate.least_ns = std::numeric_limits<double>::infinity();
    const StepBounds bounds(run_, candidate.setup);
    for (const auto& order : orders_of(candidate.setup)) {
      const StepNeeds needs = bounds.needs(order);
      const bool known = std::ranges::any_of(candidate.orders, [&](const auto& other) {
        return other.first.sent_ns == needs.sent_ns && other.first.least_ns == needs.least_ns;
      });
      if (!known) candidate.orders.emplace_back(needs, order);
      candidate.least_ns = std::min(candidate.least_ns, needs.least_ns);
      candidate.least_bytes = needs.least_bytes;
    }
    const auto sent = [](const auto& order) {
      double sum = 0;
      for (const double ns : order.first.sent_ns) sum += ns;
      return sum;
    };
    std::ranges::stable_sort(candidate.orders, {}, sent);
    if (candidate.orders.size() > kOrders) candidate.orders.resize(kOrders);
  }

  std::vector<Configuration> estimates_of(const Candidate& candidate, std::int64_t& least_bytes) const {
    const auto limit = static_cast<std::int64_t>(static_cast<double>(memory_) * (1 + kMemoryError));
    std::span<const policy::NamedPolicy> schedules;
    if (has_stages(candidate.setup)) schedules = options_.schedules;
    const StepEstimate estimate(run_, candidate.setup, schedules, limit);
    const double share = candidate.share * static_cast<double>(candidate.setup.grid.pipe);
    std::vector<Configuration> found;
    least_bytes = estimate.least_bytes();
    for (const auto& [needs, order] : candidate.orders) {
      // What the share leaves out makes steps longer: messages, and communication that isn't hidden.
      if (needs.least_ns * share > kEstimateError * best_) continue;
      const std::optional<EstimatedStep> step = estimate.best(order);
      if (!step) continue;
      least_bytes = least_bytes == 0 ? step->bytes : std::min(least_bytes, step->bytes);
      if (memory_ > 0 && step->bytes > limit) continue;
      found.push_back(estimated(candidate, needs, order, *step));
    }
    return found;
  }

  static Configuration estimated(const Candidate& candidate, const StepNeeds& needs, const AxisOrder& order,
                                 const EstimatedStep& step) {
    Configuration configuration{.setup = candidate.setup};
    configuration.setup.grid.order = order;
    configuration.least_ns = needs.least_ns;
    configuration.tasks = needs.tasks;
    configuration.step_ns = std::max(step.ns, needs.least_ns);  // it may be extrapolated below its own bound
    configuration.memory_bytes = step.bytes;
    return configuration;
  }

  /// Puts the finalists first: of the best estimates, the ones whose graphs are small enough for the time that a search
  /// may take; the smallest graph if all are too large.
  std::size_t choose_finalists() {
    std::int64_t tasks = 0, least = std::numeric_limits<std::int64_t>::max();
    for (const Configuration& each : result_.configurations) least = std::min(least, each.tasks);
    const std::int64_t most = std::max(least, kTasksOfFinalists);
    std::size_t chosen = 0;
    const auto is_finalist = [&](const Configuration& each) {
      if (chosen == options_.finalists || tasks + each.tasks > most) return false;
      tasks += each.tasks;
      ++chosen;
      return true;
    };
    std::vector<Configuration> first, others;
    for (Configuration& each : result_.configurations) (is_finalist(each) ? first : others).push_back(std::move(each));
    std::ranges::move(others, std::back_inserter(first));
    result_.configurations = std::move(first);
    return chosen;
  }

  static bool has_stages(const StepSetup& setup) { return setup.grid.pipe > 1; }

  /// That plan a setup's step whole.
  const std::vector<policy::NamedPolicy>& planners_of(const StepSetup& setup) const {
    return has_stages(setup) ? options_.schedules : options_.policies;
  }

  void plan_finalists() {
    const std::size_t finalists = choose_finalists();
    std::vector<std::pair<std::size_t, const policy::NamedPolicy*>> plans;
    for (std::size_t i = 0; i < finalists; ++i) {
      for (const policy::NamedPolicy& each : planners_of(result_.configurations[i].setup)) plans.emplace_back(i, &each);
    }
    const std::int64_t all = std::ssize(plans) + (options_.searching ? 1 : 0);
    tell_({fmt::format("planning the best {} whole", finalists), 0, all});
    std::vector<Configuration> planned(plans.size());
    in_parallel(plans.size(), [&](std::size_t i) {
      planned[i].setup = result_.configurations[plans[i].first].setup;
      plan_whole(planned[i], *plans[i].second);
    });
    for (std::size_t i = 0; i < plans.size(); ++i) enter(result_.configurations[plans[i].first], planned[i]);
    sort_finalists(finalists);
    Configuration& first = result_.configurations.front();
    if (options_.searching && first.exact && first.tasks <= kTasksOfSearching && !has_stages(first.setup)) {
      tell_({fmt::format("planning the best by {}", options_.searching->name), all - 1, all});
      Configuration searched{.setup = first.setup};
      plan_whole(searched, *options_.searching);
      enter(first, searched);
    }
  }

  /// Plans the configuration's setup by a policy, if that can.
  void plan_whole(Configuration& configuration, const policy::NamedPolicy& policy) const {
    train::ResolvedRun run = run_;
    run.config = with_setup(std::move(run.config), configuration.setup);
    run.set_policy(policy);
    if (has_stages(configuration.setup)) {
      try {
        train::fill_in(run.config, 0);
      } catch (const UserError&) {
        return;  // it wants more stages than there are layers
      }
    }
    const auto report =
        std::make_shared<const simulate::Report>(simulate::report_plan(train::planning_problem(run), policy));
    configuration.exact = report->planned();
    configuration.report = report;
    if (!configuration.exact) return;
    configuration.policy = report->policy.name;
    configuration.step_ns = report->step_ns();
    configuration.memory_bytes = report->memory_bytes();
  }

  /// The faster of the configuration's plan and another.
  static void enter(Configuration& configuration, const Configuration& planned) {
    if (!planned.exact || (configuration.exact && configuration.step_ns <= planned.step_ns)) return;
    configuration.exact = true;
    configuration.report = planned.report;
    configuration.policy = planned.policy;
    configuration.step_ns = planned.step_ns;
    configuration.memory_bytes = planned.memory_bytes;
  }

  /// Drops finalists that no policy could plan within the memory, and estimates that exceed it.
  void sort_finalists(std::size_t finalists) {
    std::vector<Configuration>& all = result_.configurations;
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(finalists);
    const auto kept = std::stable_partition(all.begin(), end, [](const Configuration& each) { return each.exact; });
    result_.too_large += end - kept;
    all.erase(kept, end);
    result_.too_large += static_cast<std::int64_t>(std::erase_if(
        all, [&](const Configuration& each) { return !each.exact && memory_ > 0 && each.memory_bytes > memory_; }));
    std::ranges::stable_sort(all, {}, [](const Configuration& each) { return std::tuple(!each.exact, each.step_ns); });
    if (all.empty()) refuse_memory();
  }

  [[noreturn]] void refuse_ranks() const {
    const std::int64_t nearest = nearest_ranks(run_.config, options_.ranks, options_.kept);
    throw UserError(fmt::format("no grid of {} ranks fits {} with a global batch of {}", options_.ranks,
                                run_.config.model.name, run_.config.global_batch),
                    "ranks whose grid divides the model's sizes and the batch",
                    nearest > 0             ? fmt::format("--ranks {}", nearest)
                    : options_.kept.empty() ? "another --global-batch"
                                            : fmt::format("another --global-batch, or another value of {}",
                                                          fmt::join(options_.kept, ", ")));
  }

  [[noreturn]] void refuse_memory() const {
    throw UserError(fmt::format("{} on {} ranks needs {} of memory a rank or more", run_.config.model.name,
                                options_.ranks, human_bytes(static_cast<std::uint64_t>(least_bytes_))),
                    fmt::format("at most {}", human_bytes(static_cast<std::uint64_t>(memory_))),
                    "more --ranks, or more --memory");
  }

  const train::ResolvedRun& run_;
  const SearchOptions& options_;
  const TellStatus& tell_;
  const std::int64_t memory_;  // of a rank; 0: any
  std::int64_t least_bytes_ = std::numeric_limits<std::int64_t>::max();
  double best_ = std::numeric_limits<double>::infinity();  // of the estimates
  std::vector<Candidate> open_;                            // a heap
  SearchResult result_;
};

}  // namespace

train::ResolvedRun open_search(const train::RunConfig& config) {
  train::ResolvedRun run = train::read_texts(config);
  if (config.batch_split > 1) {
    throw UserError(fmt::format("rewrite batch-split={}", config.batch_split), "rewrites without the micro-batch",
                    "give --micro-batch instead, or leave it out: a search chooses it");
  }
  run.config.grid = {};
  run.config.grid_auto = false;
  run.config.ranks = 1;
  run.config.global_batch = run.config.micro_batch = 1;
  train::fill_in(run.config, 0);
  run.config.grid = config.grid;
  run.config.global_batch = config.global_batch;
  run.config.micro_batch = config.micro_batch;
  run.config.run_dir = config.run_dir;
  run.config.threads = config.threads;
  for (const plan::Rewrite& rewrite : run.config.rewrites) {
    const auto* recompute = std::get_if<plan::RecomputeLayers>(&rewrite);
    const auto* reshard = std::get_if<plan::ReshardAfterForward>(&rewrite);
    if ((recompute != nullptr && !recompute->layers.empty()) || (reshard != nullptr && !reshard->layers.empty())) {
      throw UserError(fmt::format("rewrite {} names layers", plan::to_string(rewrite)), "rewrites of all layers",
                      "leave it out: a search compares steps of fewer layers");
    }
  }
  if (!run.machine) {
    run.machine = std::make_shared<const cost::Machine>(cost::find_machine("laptop", cost::machine_folders()));
    run.config.machine = "laptop";
  }
  return run;
}

SearchResult search_configurations(const train::ResolvedRun& run, const SearchOptions& options,
                                   const TellStatus& tell) {
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(std::max(1, options.threads)));
  return Search(run, options, tell).search();
}

train::RunConfig config_of(const SearchResult& result, const Configuration& configuration) {
  train::RunConfig config = with_setup(result.config, configuration.setup);
  config.policy = configuration.policy;
  return config;
}

}  // namespace weft::study
