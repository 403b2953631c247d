#include "runtime/policy/builtin/anneal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/policy/scheduling/program_order.h"
#include "runtime/policy/scheduling/random_numbers.h"
#include "runtime/policy/scheduling/wait_moves.h"

namespace weft::policy {
namespace {

constexpr int kSweepsOfStart = 8;
constexpr double kHottest = 5e-4;  // the first temperature, of the first makespan
constexpr int kCycles = 6;         // of a search
constexpr int kSweepsOfCycle = 30;
constexpr std::int64_t kUsualIterations = 500;
constexpr std::int64_t kNoIterations = -1;
// Tasks that the list schedules of a search place: for a step of few tasks about that many, so that its search takes
// as long as that of 4,000 tasks; never more than the second, half a minute of a core.
constexpr double kUsuallyPlaced = 2.4e6, kMostPlaced = 3e7;
constexpr std::int64_t kMostMoves = 3;  // times the usual ones

/// Tasks that stand at one place of their visits: "the third task of a layer's forward pass", over all layers.
struct Places {
  std::vector<std::vector<std::uint32_t>> tasks;
  std::vector<std::uint32_t> of;  // by task
};

Places places_of_tasks(const ClassTasks& all) {
  Places places;
  places.of.resize(all.size());
  std::map<std::tuple<graph::Phase, bool, std::size_t, std::size_t>, std::uint32_t> known;
  for (std::size_t k = 0; k < all.classes(); ++k) {
    for (const Visit& visit : visits_of(all.graph(k))) {
      for (std::size_t i = visit.first; i < visit.end; ++i) {
        const auto key = std::tuple(visit.phase, visit.layer < 0, visit.end - visit.first, i - visit.first);
        const auto [found, is_new] = known.try_emplace(key, static_cast<std::uint32_t>(places.tasks.size()));
        if (is_new) places.tasks.emplace_back();
        places.tasks[found->second].push_back(all.first(k) + static_cast<std::uint32_t>(i));
        places.of[all.first(k) + i] = found->second;
      }
    }
  }
  return places;
}

}  // namespace

Swept sweep(ListScheduler& forward, ListScheduler& backward, std::vector<double> priority, int rounds,
            const FitsMemory& fits) {
  Swept best{priority, forward.run(priority)};
  if (fits && !fits(forward)) best.makespan = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    backward.run(forward.finishes());
    priority.assign(backward.finishes().begin(), backward.finishes().end());
    const double makespan = forward.run(priority);
    if (makespan < best.makespan && (!fits || fits(forward))) best = {priority, makespan};
  }
  return best;
}

Annealed anneal(ListScheduler& scheduler, std::vector<double> priority, std::int64_t moves, std::uint64_t seed,
                const FitsMemory& fits) {
  RandomNumbers numbers(seed);
  Annealed result{priority, scheduler.run(priority), std::numeric_limits<double>::infinity()};
  if (!fits || fits(scheduler)) result.best = result.first;
  double current = result.first;
  struct Change {
    std::size_t task;
    double before;
  };
  std::vector<Change> changes;
  const ClassTasks& tasks = scheduler.tasks();
  changes.reserve(tasks.size() + 4);
  const auto change = [&](std::size_t task, double value) {
    changes.push_back({task, priority[task]});
    priority[task] = value;
  };
  const auto [places, place_of] = places_of_tasks(tasks);
  const double reach = result.first;  // the scale of priorities, which are times to the end of the step
  std::vector<ListScheduler::Blocked> blocked = scheduler.blocked();
  for (std::int64_t move = 0; move < moves && !priority.empty(); ++move) {
    changes.clear();
    const double left = 1 - static_cast<double>(move) / static_cast<double>(moves);
    const double temperature = kHottest * result.first * left * left;
    // Moves of all sizes: from a whole step down to 1/1024 of it.
    const auto scale = [&] { return reach * std::exp2(-static_cast<double>(numbers.below(11))); };
    const std::uint64_t kind = numbers.below(4);
    if (kind == 0) {
      const std::vector<std::uint32_t>& alike = places[place_of[numbers.below(tasks.size())]];
      const double shift = (2 * numbers.unit() - 1) * scale() / 8;
      for (const std::uint32_t task : alike) change(task, priority[task] + shift);
    } else if (kind == 1) {
      const auto one = static_cast<std::uint32_t>(numbers.below(tasks.size()));
      enum Part : std::uint64_t { whole, of_layer, of_class };
      const auto part = static_cast<Part>(numbers.below(tasks.classes() == 1 ? 2 : 3));
      const double shift = (2 * numbers.unit() - 1) * scale();
      for (std::uint32_t i = 0; i < tasks.size(); ++i) {
        const graph::Task& task = tasks.task(i);
        if (task.micro_batch != tasks.task(one).micro_batch || task.phase != tasks.task(one).phase) continue;
        if (part == of_layer && task.layer != tasks.task(one).layer) continue;
        if (part == of_class && tasks.rank_of(i) != tasks.rank_of(one)) continue;
        change(i, priority[i] + shift);
      }
    } else {
      for (std::size_t count = 1 + numbers.below(4); count > 0; --count) {
        if (!blocked.empty() && numbers.below(2) == 0) {
          const auto [task, by] = blocked[numbers.below(blocked.size())];
          change(task, std::max(priority[task], priority[by]) + numbers.unit() * scale() / 16);
        } else {
          const std::size_t task = numbers.below(tasks.size());
          change(task, priority[task] + (2 * numbers.unit() - 1) * scale());
        }
      }
    }
    const double makespan = scheduler.run(priority);
    const double luck = numbers.unit();
    const bool best = makespan < result.best && (!fits || fits(scheduler));
    const bool accepted = makespan <= current || luck < std::exp((current - makespan) / temperature);
    if (best || (accepted && makespan >= result.best)) {
      current = makespan;
      blocked = scheduler.blocked();
      if (best) {
        result.best = makespan;
        result.priority = priority;
      }
    } else {
      for (std::size_t i = changes.size(); i-- > 0;) priority[changes[i].task] = changes[i].before;
    }
  }
  return result;
}

SearchEffort search_effort(std::optional<std::int64_t> asked, std::int64_t usual, std::size_t tasks) {
  if (asked) return {*asked, kSweepsOfCycle};
  const auto count = static_cast<double>(std::max<std::size_t>(1, tasks));
  const auto few = static_cast<std::int64_t>(kUsuallyPlaced / count);
  SearchEffort effort{std::clamp(few, usual, kMostMoves * usual), kSweepsOfCycle};
  const double schedules = static_cast<double>(effort.moves + std::int64_t{2} * kCycles * effort.sweeps);
  const double share = std::min(1.0, kMostPlaced / (count * schedules));
  effort.moves = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(effort.moves) * share));
  effort.sweeps = std::max(1, static_cast<int>(effort.sweeps * share));
  return effort;
}

Annealed search(ListScheduler& forward, ListScheduler& backward, std::span<const std::vector<double>> starts,
                SearchEffort effort, std::uint64_t seed, const FitsMemory& fits) {
  const auto part = [&](int cycle, const std::vector<double>& from) {
    const std::int64_t moves = effort.moves * (cycle + 1) / kCycles - effort.moves * cycle / kCycles;
    const Annealed found = anneal(forward, from, moves, seed + static_cast<std::uint64_t>(cycle), fits);
    Swept swept = sweep(forward, backward, found.priority, effort.moves > 0 ? effort.sweeps : 0, fits);
    return Annealed{std::move(swept.priority), found.first, swept.makespan};
  };
  Annealed result = part(0, starts.front());
  for (const std::vector<double>& start : starts.subspan(1)) {
    if (Annealed found = part(0, start); found.best < result.best) result = std::move(found);
  }
  for (int cycle = 1; cycle < kCycles; ++cycle) {
    Annealed found = part(cycle, result.priority);
    result = {std::move(found.priority), result.first, found.best};
  }
  return result;
}

AnnealPolicy::AnnealPolicy(PolicyParameters& parameters) : seed_(seed_parameter(parameters)) {
  chunks_ = chunks_parameter(parameters);
  const std::int64_t iterations = parameters.integer("iterations", kNoIterations, 0, 100'000'000);
  if (iterations != kNoIterations) iterations_ = iterations;
}

std::vector<plan::Order> AnnealPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  const LimitedLists lists(classes, options);
  const std::vector<double> rank = upward_rank(lists.tasks());
  LimitedOrders start{.gathers_ahead = options.gathers_ahead};
  // A single class that may take any memory gathers as far ahead as the options say.
  if (lists.limited() || classes.size() > 1) start = lists.shortest(by_priority(rank));
  if (!start.fits()) return std::move(start.orders);
  const auto forward = lists.scheduler(start), backward = lists.scheduler(start, ListScheduler::Direction::backward);
  const FitsMemory fits = lists.fits();
  const Swept swept = sweep(*forward, *backward, rank, kSweepsOfStart, fits);
  const SearchEffort effort = search_effort(iterations_, kUsualIterations, lists.tasks().size());
  const Annealed found = search(*forward, *backward, {&swept.priority, 1}, effort, seed_.value_or(options.seed), fits);
  forward->run(found.priority);
  const std::vector<plan::Order> orders = forward->orders({.table = &kReasons,
                                                           .code = kBest,
                                                           .numbers = {static_cast<std::uint64_t>(effort.moves)},
                                                           .ns = {found.first, found.best}});
  return hold_back(lists.tasks(), orders, options, effort.moves, keeps_limits(classes, options)).orders;
}

}  // namespace weft::policy
