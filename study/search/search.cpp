#include "study/search/search.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
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
constexpr std::int64_t kTasksOfSearching = 10'000;  // of a graph that the searching policy plans
constexpr double kEstimateError = 1.03;             // a step takes at most this many times its estimate
constexpr double kSkimError = 1.3;                  // a step takes at least this share of one schedule of small steps
constexpr double kAmple = 3;         // of the inputs of products that a layer keeps, it keeps less than as much in all
constexpr double kEstimating = 0.6;  // of the time that a search has; the rest is for planning
constexpr double kMemoryError = 0.02;  // an estimate of memory is at most this share too large

/// A setup with the bounds that are known of it.
struct Candidate {
  StepSetup setup;
  std::size_t number = 0;  // in the space: of equal bounds the lower comes first
  double least_ns = std::numeric_limits<double>::infinity();
  std::int64_t least_bytes = 0;
  bool refused = false;
  std::exception_ptr refusal = nullptr;  // by the configuration's own checks
  double share = 1;       // of the time of a step with all layers in one rank class, by share_of_stages()
  double skimmed_ns = 0;  // see StepBounds::skimmed_ns(); 0: not known
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
    expect_ranks_of_included();
    open_ = all_setups();
    const std::int64_t all = std::ssize(open_);
    while ((has_near(open_) || !near_.empty()) && !is_over()) {
      tell_({std::isfinite(best_) ? fmt::format("bounds and estimates, best {}", format_time(best_))
                                  : "bounds and estimates",
             all - std::ssize(open_), all});
      bound_some();
      estimate_some();
    }
    count_what_is_left();
    if (options_.included) include(*options_.included);
    if (result_.configurations.empty()) refuse_memory();
    std::ranges::stable_sort(result_.configurations, {}, &Configuration::step_ns);
    plan_finalists();
    find_included();
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
    for (StepSetup& setup : setups_of(run_.config, options_.ranks, options_.kept, options_.pipes, options_.tried)) {
      const auto orders = orders_of(setup);
      result_.choices += std::ssize(orders);
      const auto bytes = static_cast<std::int64_t>(forms.least_bytes(setup));
      if (memory_ > 0 && bytes > memory_) {
        drop(setup, bytes);
        continue;
      }
      if (is_dominated(setup, forms)) {
        result_.dominated += std::ssize(orders);
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

  /// Whether a setup only adds work to another one of the space for memory that isn't short.
  bool is_dominated(StepSetup setup, const ClosedForms& forms) const {
    const bool recomputes = setup.recompute != train::Recompute::none && !options_.kept.contains("recompute");
    const bool reshards = setup.reshard_after_forward && !options_.kept.contains("reshard-after-forward");
    // Stages keep the inputs of several micro-batches.
    if (has_stages(setup) || !(recomputes || reshards)) return false;
    if (recomputes) setup.recompute = train::Recompute::none;
    if (reshards) setup.reshard_after_forward = false;
    return memory_ <= 0 || ample_bytes(setup, forms) <= static_cast<double>(memory_);
  }

  /// What a step hardly needs: beside its least bytes all that layers keep, weights that stay gathered, and logits with
  /// their gradients in fp32.
  double ample_bytes(const StepSetup& setup, const ClosedForms& forms) const {
    constexpr double kBytesOfLogit = 8, kBytesOfWeight = 4;
    const auto tensor = static_cast<double>(setup.grid.x * setup.grid.y);
    const auto rows = static_cast<double>(setup.micro_batch) * static_cast<double>(run_.config.seq_len) /
                      static_cast<double>(setup.grid.context);
    const auto vocabulary = static_cast<double>(run_.config.model.vocab);
    return kAmple * forms.least_bytes(setup) + kBytesOfLogit * rows * vocabulary +
           kBytesOfWeight * forms.weights() / tensor;
  }

  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  double time_limit() const {
    return options_.max_seconds > 0 ? options_.max_seconds : std::numeric_limits<double>::infinity();
  }

  /// Whether the time for estimates is over. There is an estimate in any case.
  bool is_over() const { return has_estimate_ && is_late(); }
  bool is_late() const { return seconds() > kEstimating * time_limit(); }

  bool has_near(const std::vector<Candidate>& heap) const {
    return !heap.empty() && heap.front().least_ns <= kEstimateError * best_;
  }

  /// Bounds the candidates with the least bounds by closed forms. What remains waits for an estimate.
  void bound_some() {
    std::vector<Candidate> taken;
    while (taken.size() < kAtOnce && has_near(open_)) {
      std::pop_heap(open_.begin(), open_.end());
      taken.push_back(std::move(open_.back()));
      open_.pop_back();
    }
    std::vector<char> is_done(taken.size());
    in_parallel(taken.size(), [&](std::size_t i) {
      if (is_over()) return;
      bound(taken[i]);
      is_done[i] = 1;
    });
    for (Candidate& candidate : taken) {
      if (is_done[static_cast<std::size_t>(&candidate - taken.data())] == 0) {
        open_.push_back(std::move(candidate));
        continue;
      }
      if (!refusal_) refusal_ = candidate.refusal;
      if (candidate.refused) continue;
      if (memory_ > 0 && candidate.least_bytes > memory_) {
        drop(candidate.setup, candidate.least_bytes);
      } else {
        near_.push_back(std::move(candidate));
      }
    }
  }

  /// Estimates the candidates that one schedule of small steps has as the fastest, as long as they may beat the best.
  void estimate_some() {
    std::erase_if(near_, [&](const Candidate& each) {
      const bool too_slow = each.least_ns > kEstimateError * best_, far = each.skimmed_ns > kSkimError * best_;
      if (too_slow || far) {
        (too_slow ? result_.too_slow : result_.skimmed) += std::ssize(orders_of(each.setup));
      }
      return too_slow || far;
    });
    std::ranges::stable_sort(near_, {}, [](const Candidate& each) {
      return std::tuple(std::max(each.skimmed_ns, each.least_ns), each.number);
    });
    const auto end = near_.begin() + static_cast<std::ptrdiff_t>(std::min(kAtOnce, near_.size()));
    std::vector<Candidate> taken(std::move_iterator(near_.begin()), std::move_iterator(end));
    near_.erase(near_.begin(), end);
    std::vector<std::vector<Configuration>> found(taken.size());
    std::vector<std::int64_t> least(taken.size(), 0);
    std::vector<char> is_done(taken.size());
    in_parallel(taken.size(), [&](std::size_t i) {
      if (is_over()) return;
      found[i] = estimates_of(taken[i], best_, least[i]);
      if (!found[i].empty()) has_estimate_ = true;
      is_done[i] = 1;
    });
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (is_done[i] == 0) {
        near_.push_back(std::move(taken[i]));
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

  void count_what_is_left() {
    for (const std::vector<Candidate>* left : {&open_, &near_}) {
      for (const Candidate& each : *left) {
        const bool too_slow = each.least_ns > kEstimateError * best_;
        (too_slow ? result_.too_slow : result_.not_examined) += std::ssize(orders_of(each.setup));
      }
    }
  }

  void expect_ranks_of_included() const {
    if (!options_.included || options_.included->ranks() == options_.ranks) return;
    throw UserError(fmt::format("--include {} has {} ranks, and the search {}", graph::to_string(*options_.included),
                                options_.included->ranks(), options_.ranks),
                    "a grid of as many ranks", "other sizes of its axes");
  }

  /// Estimates the best configuration of a grid that isn't among the found ones.
  void include(const graph::Grid& grid) {
    result_.included = IncludedGrid{.grid = grid};
    if (std::ranges::any_of(result_.configurations, [&](const auto& each) { return is_on(each.setup, grid); })) return;
    train::RunConfig config = run_.config;
    config.grid = grid;
    config.grid.order = run_.config.grid.order;
    KeptKeys kept = options_.kept;
    kept.insert("grid");
    std::optional<Configuration> best;
    std::int64_t least_bytes = 0;
    for (const StepSetup& setup : setups_of(config, options_.ranks, kept, {grid.pipe}, options_.tried)) {
      Candidate candidate{.setup = setup};
      bound(candidate);
      if (candidate.refused) continue;
      std::int64_t bytes = candidate.least_bytes;
      for (Configuration& each : estimates_of(candidate, std::numeric_limits<double>::infinity(), bytes)) {
        if (!best || each.step_ns < best->step_ns) best = std::move(each);
      }
      least_bytes = least_bytes == 0 ? bytes : std::min(least_bytes, bytes);
    }
    if (best) result_.configurations.push_back(std::move(*best));
    result_.included->reason = least_bytes == 0 ? "its axes don't divide the model's sizes or the batch"
                                                : fmt::format("it needs {} of memory a rank or more, and has {}",
                                                              human_bytes(static_cast<std::uint64_t>(least_bytes)),
                                                              human_bytes(static_cast<std::uint64_t>(memory_)));
  }

  static bool is_on(const StepSetup& setup, graph::Grid grid) {
    grid.order = setup.grid.order;
    return setup.grid == grid;
  }

  /// The best configuration of the included grid, after it was planned.
  void find_included() {
    if (!result_.included) return;
    const auto found = std::ranges::find_if(
        result_.configurations, [&](const auto& each) { return is_on(each.setup, result_.included->grid); });
    if (found != result_.configurations.end()) result_.included->setup = found->setup;
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
      candidate.refusal = std::current_exception();
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
    if (!has_stages(candidate.setup)) candidate.skimmed_ns = bounds.skimmed_ns(candidate.orders.front().second);
  }

  /// Of the orders whose bound isn't beyond `best_ns`.
  std::vector<Configuration> estimates_of(const Candidate& candidate, double best_ns, std::int64_t& least_bytes) const {
    const auto limit = static_cast<std::int64_t>(static_cast<double>(memory_) * (1 + kMemoryError));
    std::span<const policy::NamedPolicy> schedules;
    if (has_stages(candidate.setup)) schedules = options_.schedules;
    const StepEstimate estimate(run_, candidate.setup, schedules, limit);
    const double share = candidate.share * static_cast<double>(candidate.setup.grid.pipe);
    std::vector<Configuration> found;
    least_bytes = estimate.least_bytes();
    for (const auto& [needs, order] : candidate.orders) {
      // What the share leaves out makes steps longer: messages, and communication that isn't hidden.
      if (needs.least_ns * share > kEstimateError * best_ns) continue;
      if (!found.empty() && is_late()) break;
      const std::optional<EstimatedStep> step = estimate.best(order, [&] { return is_late(); });
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

  /// Puts the finalists first: the best estimates, all within kNear of the best, and one of the included grid.
  std::size_t choose_finalists() {
    std::vector<Configuration>& all = result_.configurations;
    std::size_t chosen = 0;
    const double near = SearchOptions::kNear * all.front().step_ns;
    while (chosen < all.size() && (chosen < options_.finalists || all[chosen].step_ns <= near)) ++chosen;
    if (!options_.included) return chosen;
    const auto found =
        std::ranges::find_if(all, [&](const Configuration& each) { return is_on(each.setup, *options_.included); });
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(chosen);
    if (found == all.end() || found < end) return chosen;
    std::rotate(end, found, found + 1);
    return chosen + 1;
  }

  using Plan = std::pair<std::size_t, const policy::NamedPolicy*>;  // of a configuration, by its place

  static bool has_stages(const StepSetup& setup) { return setup.grid.pipe > 1; }

  /// That plan a setup's step whole.
  const std::vector<policy::NamedPolicy>& planners_of(const StepSetup& setup) const {
    return has_stages(setup) ? options_.schedules : options_.policies;
  }

  void plan_finalists() {
    const std::size_t finalists = choose_finalists();
    std::vector<Plan> plans;
    for (std::size_t i = 0; i < finalists; ++i) {
      for (const policy::NamedPolicy& each : planners_of(result_.configurations[i].setup)) plans.emplace_back(i, &each);
    }
    const std::vector<char> tried = plan_in_order(plans, "planning the best whole");
    std::vector<bool> refused(finalists, true);  // by each policy that tried
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (tried[i] == 0) refused[plans[i].first] = false;
    }
    sort_finalists(finalists, refused);
    if (options_.searching) plan_nearest(*options_.searching);
  }

  /// Plans the first by a searching policy, and all whose steps are so near that it may put them first.
  void plan_nearest(const policy::NamedPolicy& searching) {
    const double near = SearchOptions::kNear * result_.configurations.front().step_ns;
    std::vector<Plan> plans;
    for (std::size_t i = 0; i < result_.configurations.size(); ++i) {
      const Configuration& each = result_.configurations[i];
      const bool is_small = each.exact && each.tasks <= kTasksOfSearching && !has_stages(each.setup);
      if (is_small && each.step_ns <= near) plans.emplace_back(i, &searching);
    }
    if (seconds() > time_limit()) return;
    plan_in_order(plans, fmt::format("planning the best by {}", searching.name));
    sort_by_step();
  }

  /// The best estimates first, and the first of them in any case; the others as far as the time goes.
  /// By plan: whether it was tried to the end.
  std::vector<char> plan_in_order(const std::vector<Plan>& plans, const std::string& what) {
    std::vector<Configuration> planned(plans.size());
    std::vector<char> tried(plans.size());
    std::atomic<std::size_t> next = 0, done = 0;
    std::mutex telling;
    in_parallel(static_cast<std::size_t>(std::max(1, options_.threads)), [&](std::size_t) {
      for (std::size_t i = 0; (i = next++) < plans.size();) {
        const Configuration& of = result_.configurations[plans[i].first];
        const bool asked = !of.exact && (i == 0 || (options_.included && is_on(of.setup, *options_.included)));
        const auto is_over = [&] { return !asked && seconds() > time_limit(); };
        if (is_over()) continue;
        planned[i].setup = of.setup;
        plan_whole(planned[i], *plans[i].second, is_over);
        tried[i] = planned[i].exact || !is_over() ? 1 : 0;
        const std::lock_guard lock(telling);
        tell_({what, static_cast<std::int64_t>(++done), std::ssize(plans)});
      }
    });
    for (std::size_t i = 0; i < plans.size(); ++i) enter(result_.configurations[plans[i].first], planned[i]);
    return tried;
  }

  /// Plans the configuration's setup by a policy, if that can, and if the time isn't over first.
  void plan_whole(Configuration& configuration, const policy::NamedPolicy& policy,
                  const std::function<bool()>& is_over) const {
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
    simulate::Problem problem = train::planning_problem(run);
    problem.options.is_unwanted = is_over;
    const auto report = std::make_shared<const simulate::Report>(simulate::report_plan(problem, policy));
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
  void sort_finalists(std::size_t finalists, const std::vector<bool>& refused) {
    std::vector<Configuration>& all = result_.configurations;
    std::vector<Configuration> kept;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_finalist = i < finalists;
      if (is_finalist && refused[i] && !all[i].exact) {
        ++result_.too_large;
      } else {
        result_.not_planned += is_finalist && !all[i].exact ? 1 : 0;
        kept.push_back(std::move(all[i]));
      }
    }
    all = std::move(kept);
    result_.too_large += static_cast<std::int64_t>(std::erase_if(
        all, [&](const Configuration& each) { return !each.exact && memory_ > 0 && each.memory_bytes > memory_; }));
    if (all.empty()) refuse_memory();
    sort_by_step();
  }

  void sort_by_step() {
    std::ranges::stable_sort(result_.configurations, {},
                             [](const Configuration& each) { return std::tuple(!each.exact, each.step_ns); });
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
    if (least_bytes_ == std::numeric_limits<std::int64_t>::max() && refusal_) std::rethrow_exception(refusal_);
    throw UserError(fmt::format("{} on {} ranks needs {} of memory a rank or more", run_.config.model.name,
                                options_.ranks, human_bytes(static_cast<std::uint64_t>(least_bytes_))),
                    fmt::format("at most {}", human_bytes(static_cast<std::uint64_t>(memory_))),
                    fmt::format("{}, or more --memory", ranks_that_hold_it()));
  }

  /// The least doubling of the ranks for which formulas know a setup within the memory.
  std::string ranks_that_hold_it() const {
    constexpr std::int64_t kMostDoublings = 10;
    for (std::int64_t ranks = 2 * options_.ranks; ranks <= options_.ranks << kMostDoublings; ranks *= 2) {
      const ClosedForms forms(run_.config, *run_.machine, ranks);
      const auto fits = [&](const StepSetup& setup) {
        return forms.least_bytes(setup) <= static_cast<double>(memory_);
      };
      const auto setups = setups_of(run_.config, ranks, options_.kept, options_.pipes, options_.tried);
      if (std::ranges::any_of(setups, fits)) return fmt::format("--ranks {} or more", ranks);
    }
    return "more --ranks";
  }

  const train::ResolvedRun& run_;
  const SearchOptions& options_;
  const TellStatus& tell_;
  const std::int64_t memory_;  // of a rank; 0: any
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::int64_t least_bytes_ = std::numeric_limits<std::int64_t>::max();
  double best_ = std::numeric_limits<double>::infinity();  // of the estimates
  std::exception_ptr refusal_ = nullptr;                   // the first, by the checks of a configuration
  std::atomic<bool> has_estimate_ = false;
  std::vector<Candidate> open_;  // a heap, bounded by closed forms
  std::vector<Candidate> near_;  // bounded by graphs, to be estimated
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
  if (!run.config.model.dense_layers.empty()) {
    throw UserError(fmt::format("model.dense-layers = {}", to_string(run.config.model.dense_layers)),
                    "equal layers: a search compares steps of fewer layers",
                    "leave it out, or plan grids that you name with weft memory and weft simulate");
  }
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
  train::check_expert_load(run);
  run.equal_layers = true;
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
