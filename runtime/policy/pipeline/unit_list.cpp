#include "runtime/policy/pipeline/unit_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

namespace weft::policy {
namespace {

constexpr double kNotDone = std::numeric_limits<double>::infinity();

class UnitList {
 public:
  UnitList(const UnitModel& model, const UnitListOptions& options)
      : model_(model),
        options_(options),
        way_(model.ways_to_end()),
        end_(model.size(), kNotDone),
        ranks_(static_cast<std::size_t>(model.shape().ranks)),
        sequences_(ranks_.size()) {
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
      ranks_[k].next.assign(kParts.size() * static_cast<std::size_t>(model.shape().chunks.chunks), 0);
      ranks_[k].bytes = model.base(static_cast<std::int32_t>(k));
      ranks_[k].front_needs = needs(static_cast<std::int32_t>(k), 0);
    }
  }

  UnitSequences run() {
    for (std::size_t k = 0; k < ranks_.size(); ++k) wake(0, k);
    std::size_t left = 0;
    for (UnitId unit = 0; unit < model_.size(); ++unit) left += model_[unit].exists ? 1 : 0;
    while (left > 0) {
      if (events_.empty()) {
        start_first();
        --left;
        continue;
      }
      const auto [time, k] = events_.top();
      events_.pop();
      Rank& rank = ranks_[k];
      if (rank.running && end_[*rank.running] <= time) finish(k);
      if (rank.running) continue;
      const std::optional<UnitId> best = choose(k, time);
      if (!best) continue;
      start(k, *best, time);
      --left;
    }
    return std::move(sequences_);
  }

 private:
  struct Rank {
    std::vector<std::int32_t> next;  // [part][chunk]: the next micro-batch
    std::int32_t in_flight = 0, front = 0;
    std::int64_t bytes = 0;
    std::int64_t front_needs = 0;  // bytes that units of the front micro-batch will take
    std::optional<UnitId> running = {};
    double free = 0;
  };

  std::int32_t chunks() const { return static_cast<std::int32_t>(model_.shape().chunks.chunks); }
  std::int32_t& next_of(Rank& rank, Work part, std::int32_t chunk) const {
    return rank
        .next[static_cast<std::size_t>(part) * static_cast<std::size_t>(chunks()) + static_cast<std::size_t>(chunk)];
  }
  UnitId unit_of(std::size_t k, Work part, std::int32_t chunk, std::int32_t micro_batch) const {
    return model_.shape().id({part, micro_batch, model_.shape().stage_on(static_cast<std::int32_t>(k), chunk)});
  }

  std::int64_t needs(std::int32_t rank, std::int32_t micro_batch) const {
    std::int64_t bytes = 0;
    if (micro_batch >= model_.shape().micro_batches) return 0;
    for (std::int32_t chunk = 0; chunk < chunks(); ++chunk) {
      for (const Work part : kParts) {
        const UnitId unit = unit_of(static_cast<std::size_t>(rank), part, chunk, micro_batch);
        if (end_[unit] == kNotDone) bytes += model_[unit].takes;
      }
    }
    return bytes;
  }

  /// Units without tasks take no place in a sequence.
  void skip_missing(std::size_t k, Work part, std::int32_t chunk) {
    std::int32_t& next = next_of(ranks_[k], part, chunk);
    while (next < model_.shape().micro_batches && !model_[unit_of(k, part, chunk, next)].exists) {
      const UnitId unit = unit_of(k, part, chunk, next);
      const UnitModel::Before before = model_.before(unit);
      const bool known =
          (!before.own || end_[*before.own] != kNotDone) && (!before.neighbour || end_[*before.neighbour] != kNotDone);
      if (!known) return;
      end_[unit] = model_.ready(unit, end_);
      ++next;
      if (part == Work::weight) --ranks_[k].in_flight;
    }
  }

  void wake(double time, std::size_t k) { events_.push({time, k}); }

  bool fits(std::size_t k, UnitId unit) const {
    const Rank& rank = ranks_[k];
    const std::int64_t limit = model_.limit(static_cast<std::int32_t>(k));
    if (limit == std::numeric_limits<std::int64_t>::max() || model_[unit].takes == 0) return true;
    const bool of_front = model_.shape().unit(unit).micro_batch == rank.front;
    return rank.bytes + rank.front_needs + (of_front ? 0 : model_[unit].takes) <= limit;
  }

  /// The larger, the better.
  std::tuple<int, double, std::int32_t> value(UnitId unit) const {
    const Unit at = model_.shape().unit(unit);
    const double way = way_[unit];
    const std::int32_t early = -at.micro_batch;
    if (options_.rule == UnitRule::longest_way) return {0, way, early};
    if (at.work == Work::input) return {2, way, early};
    if (at.work == Work::weight) return {0, way, early};
    return {1, options_.rule == UnitRule::input_then_deep ? -way : way, early};
  }

  /// Calls visit(part, chunk, micro-batch, unit) for the next unit of each part and chunk of a rank.
  template <class F>
  void each_next(std::size_t k, F&& visit) {
    for (std::int32_t chunk = 0; chunk < chunks(); ++chunk) {
      for (const Work part : kParts) {
        skip_missing(k, part, chunk);
        const std::int32_t micro_batch = next_of(ranks_[k], part, chunk);
        if (micro_batch < model_.shape().micro_batches)
          visit(part, chunk, micro_batch, unit_of(k, part, chunk, micro_batch));
      }
    }
  }

  std::optional<UnitId> choose(std::size_t k, double time) {
    const Rank& rank = ranks_[k];
    std::optional<UnitId> best;
    each_next(k, [&](Work part, std::int32_t, std::int32_t micro_batch, UnitId unit) {
      if (model_.ready(unit, end_) > time || !fits(k, unit)) return;
      const bool full = rank.in_flight >= options_.most_in_flight && micro_batch != rank.front;
      if (part == Work::forward && full) return;
      if (!best || value(unit) > value(*best)) best = unit;
    });
    return best;
  }

  void start(std::size_t k, UnitId unit, double time) {
    Rank& rank = ranks_[k];
    const Unit at = model_.shape().unit(unit);
    const std::int32_t chunk =
        static_cast<std::int32_t>(graph::PipelineChunks::chunk_of_stage(at.stage, model_.shape().ranks));
    ++next_of(rank, at.work, chunk);
    if (at.work == Work::forward) ++rank.in_flight;
    rank.bytes += model_[unit].takes;
    if (at.micro_batch == rank.front) rank.front_needs -= model_[unit].takes;
    rank.running = unit;
    end_[unit] = time + model_[unit].ns;
    rank.free = end_[unit];
    sequences_[k].push_back(unit);
    wake(end_[unit], k);
    // A unit of another rank may begin when the message is there.
    const double there = end_[unit] + model_[unit].message_ns;
    const std::int32_t next = at.work == Work::forward ? at.stage + 1 : at.stage - 1;
    if (at.work != Work::weight && next >= 0 && next < model_.shape().stages())
      wake(there, static_cast<std::size_t>(model_.shape().rank_of(next)));
  }

  void finish(std::size_t k) {
    Rank& rank = ranks_[k];
    const UnitId unit = *std::exchange(rank.running, std::nullopt);
    rank.bytes -= model_[unit].frees;
    if (model_.shape().unit(unit).work == Work::weight) --rank.in_flight;
    while (rank.front < model_.shape().micro_batches && front_is_done(k)) {
      ++rank.front;
      rank.front_needs = needs(static_cast<std::int32_t>(k), rank.front);
    }
  }

  bool front_is_done(std::size_t k) {
    Rank& rank = ranks_[k];
    for (std::int32_t chunk = 0; chunk < chunks(); ++chunk) {
      skip_missing(k, Work::weight, chunk);
      if (next_of(rank, Work::weight, chunk) <= rank.front) return false;
    }
    return true;
  }

  /// Nothing runs and nothing fits: starts the first unit in program order that can begin.
  void start_first() {
    std::optional<std::tuple<std::int32_t, Work, std::int32_t, std::size_t, UnitId>> first;
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
      each_next(k, [&](Work part, std::int32_t chunk, std::int32_t micro_batch, UnitId unit) {
        if (model_.ready(unit, end_) == kNotDone) return;
        const std::tuple candidate(micro_batch, part, chunk, k, unit);
        if (!first || candidate < *first) first = candidate;
      });
    }
    const std::size_t k = std::get<std::size_t>(*first);
    const UnitId unit = std::get<UnitId>(*first);
    start(k, unit, std::max(ranks_[k].free, model_.ready(unit, end_)));
  }

  const UnitModel& model_;
  const UnitListOptions& options_;
  std::vector<double> way_, end_;
  std::vector<Rank> ranks_;
  UnitSequences sequences_;
  using Event = std::pair<double, std::size_t>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

std::string_view to_string(UnitRule rule) {
  constexpr std::array<std::string_view, 3> kNames = {"longest way to the end",
                                                      "gradients of inputs, then the deepest forward",
                                                      "gradients of inputs, then the first forward"};
  return kNames.at(static_cast<std::size_t>(rule));
}

UnitSequences list_units(const UnitModel& model, const UnitListOptions& options) {
  return UnitList(model, options).run();
}

std::vector<NamedSequences> all_unit_lists(const UnitModel& model) {
  const std::int32_t stages = model.shape().stages();
  UnitClock clock(model);
  std::vector<NamedSequences> lists;
  for (const UnitRule rule : {UnitRule::longest_way, UnitRule::input_then_deep, UnitRule::input_then_shallow}) {
    for (const std::int32_t most : {stages, stages + stages / 2, 2 * stages, INT32_MAX}) {
      UnitSequences sequences = list_units(model, {rule, most});
      const UnitTimes times = clock.times_of(sequences);
      std::string name(to_string(rule));
      if (most != INT32_MAX) name += fmt::format(", {} passes in flight", most);
      lists.push_back({std::move(name), std::move(sequences), times});
    }
  }
  return lists;
}

const NamedSequences& best_of(const std::vector<NamedSequences>& all) {
  return *std::ranges::min_element(all, [](const auto& a, const auto& b) { return a.better_than(b); });
}

PipelineSchedules chosen_schedules(const UnitModel& model, const NamedSequences& chosen,
                                   const plan::ReasonTable& reasons, std::size_t orders) {
  PipelineSchedules schedules;
  schedules.selection = {.order = chosen.name, .orders = orders, .makespan_ns = chosen.times.makespan};
  for (const std::vector<UnitId>& sequence : chosen.sequences) {
    RankSchedule& schedule = schedules.ranks.emplace_back();
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      const Unit unit = model.shape().unit(sequence[i]);
      const auto work = static_cast<std::uint64_t>(unit.work), stage = static_cast<std::uint64_t>(unit.stage);
      schedule.push_back(
          {unit, {}, {.table = &reasons, .code = kUnitOfStage, .numbers = {work, stage, i + 1, sequence.size()}}});
    }
  }
  return schedules;
}

}  // namespace weft::policy
