#include "runtime/policy/schedules/pipe_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/policy/pipeline/unit_list.h"
#include "runtime/policy/schedules/published.h"
#include "runtime/policy/scheduling/random_numbers.h"

namespace weft::policy {

PipelineSchedules PipeListPolicy::schedules(const PipelineProgram& program, const PolicyOptions& options) const {
  const UnitModel model(program, options);
  const std::vector<NamedSequences> lists = all_unit_lists(model);
  return chosen_schedules(model, best_of(lists), kReasons, lists.size());
}

namespace {

constexpr double kWarmest = 5e-4;                          // the first temperature, of the first makespan
constexpr std::size_t kFarthest = 16, kFarthestAlike = 4;  // places that a move takes a unit, or units that are alike
constexpr double kRounding = 1e-12;

/// The published schedules for the shape's chunks; those that refuse its number of micro-batches are left out.
std::vector<NamedSequences> published(const UnitModel& model) {
  UnitClock clock(model);
  std::vector<NamedSequences> found;
  for (const PublishedPolicy& policy : published_policies(model.shape().chunks)) {
    try {
      std::vector<RankSchedule> schedules;
      for (std::int32_t rank = 0; rank < model.shape().ranks; ++rank)
        schedules.push_back(policy.schedule(model.shape(), rank));
      UnitSequences sequences = model.sequences_of(schedules);
      const UnitTimes times = clock.times_of(sequences);
      found.push_back({policy.name(), std::move(sequences), times});
    } catch (const UserError&) {  // a number of micro-batches that it doesn't take
    }
  }
  return found;
}

/// Moves units of sequences about, and back again. A unit doesn't pass one of the same work and stage: losses and
/// gradients of all micro-batches add up in their order, which the model doesn't know.
class UnitMoves {
 public:
  UnitMoves(const UnitModel& model, UnitSequences& sequences, RandomNumbers& numbers)
      : model_(model), sequences_(sequences), numbers_(numbers) {}

  /// `ends`: by unit, in the sequences as they are.
  void move(const std::vector<double>& ends) {
    moved_.clear();
    const std::size_t rank = numbers_.below(sequences_.size());
    if (sequences_[rank].size() < 2) return;
    const std::uint64_t kind = numbers_.below(8);
    if (kind < 3 && fill_a_gap(rank, ends)) return;
    if (kind == 3) return move_alike(rank);
    move_one(rank);
  }

  void undo() {
    for (auto each = moved_.rbegin(); each != moved_.rend(); ++each) shift(each->rank, each->to, each->from);
  }

 private:
  struct Moved {
    std::size_t rank, from, to;
  };

  /// A unit, or the units at one place of all ranks.
  void move_one(std::size_t rank) {
    const std::size_t from = numbers_.below(sequences_[rank].size());
    const std::size_t distance = 1 + numbers_.below(kFarthest);
    const bool later = numbers_.below(2) == 0, everywhere = numbers_.below(4) == 0;
    for (std::size_t each = 0; each < sequences_.size(); ++each) {
      if (each == rank || everywhere) move_by(each, from, distance, later);
    }
  }

  /// The same work of a stage on all micro-batches, or on those from a place of the sequence on.
  void move_alike(std::size_t rank) {
    const std::vector<UnitId>& sequence = sequences_[rank];
    const std::size_t first = numbers_.below(sequence.size()), distance = 1 + numbers_.below(kFarthestAlike);
    const Unit like = model_.shape().unit(sequence[first]);
    const bool later = numbers_.below(2) == 0, all = numbers_.below(2) == 0;
    std::vector<UnitId> units;
    for (std::size_t i = all ? 0 : first; i < sequence.size(); ++i) {
      const Unit unit = model_.shape().unit(sequence[i]);
      if (unit.work == like.work && unit.stage == like.stage) units.push_back(sequence[i]);
    }
    if (later) std::ranges::reverse(units);
    for (const UnitId unit : units) {
      const auto at = std::ranges::find(sequence, unit);
      move_by(rank, static_cast<std::size_t>(at - sequence.begin()), distance, later);
    }
  }

  /// Moves a unit that could begin in a gap of the rank to the place behind that gap.
  bool fill_a_gap(std::size_t rank, const std::vector<double>& ends) {
    const std::vector<UnitId>& sequence = sequences_[rank];
    const std::size_t from = numbers_.below(sequence.size());
    for (std::size_t step = 0; step < sequence.size(); ++step) {
      const std::size_t at = (from + step) % sequence.size();
      const double idle_from = at == 0 ? 0 : ends[sequence[at - 1]];
      const double begin = ends[sequence[at]] - model_[sequence[at]].ns;
      if (begin <= idle_from * (1 + kRounding)) continue;
      const std::size_t last = std::min(sequence.size(), at + 1 + kFarthest);
      std::vector<std::size_t> able;
      for (std::size_t later = at + 1; later < last; ++later) {
        if (model_.ready(sequence[later], ends) < begin && reach(rank, later, at) == at) able.push_back(later);
      }
      if (able.empty()) continue;
      const std::size_t chosen = able[numbers_.below(able.size())];
      shift(rank, chosen, at);
      moved_.push_back({rank, chosen, at});
      return true;
    }
    return false;
  }

  void move_by(std::size_t rank, std::size_t from, std::size_t distance, bool later) {
    if (sequences_[rank].empty() || from >= sequences_[rank].size()) return;
    const std::size_t to = reach(
        rank, from, later ? std::min(from + distance, sequences_[rank].size() - 1) : from - std::min(from, distance));
    shift(rank, from, to);
    moved_.push_back({rank, from, to});
  }

  /// The place nearest to `to` that a unit may be moved to.
  std::size_t reach(std::size_t rank, std::size_t from, std::size_t to) const {
    const Unit moved = model_.shape().unit(sequences_[rank][from]);
    std::size_t at = from;
    while (at != to) {
      const std::size_t next = from < to ? at + 1 : at - 1;
      const Unit passed = model_.shape().unit(sequences_[rank][next]);
      if (passed.work == moved.work && passed.stage == moved.stage) break;
      at = next;
    }
    return at;
  }

  void shift(std::size_t rank, std::size_t from, std::size_t to) {
    const auto at = [&](std::size_t i) { return sequences_[rank].begin() + static_cast<std::ptrdiff_t>(i); };
    if (from < to) std::rotate(at(from), at(from + 1), at(to + 1));
    if (to < from) std::rotate(at(to), at(from), at(from + 1));
  }

  const UnitModel& model_;
  UnitSequences& sequences_;
  RandomNumbers& numbers_;
  std::vector<Moved> moved_;
};

NamedSequences searched(const UnitModel& model, NamedSequences best, std::int64_t moves, std::uint64_t seed) {
  RandomNumbers numbers(seed);
  UnitClock clock(model);
  UnitSequences sequences = best.sequences;
  UnitMoves unit_moves(model, sequences, numbers);
  clock.times_of(sequences);
  std::vector<double> ends = clock.ends();
  const double first = best.times.makespan;
  const std::pair start(best.times.makespan, best.times.bytes);
  double current = first;
  for (std::int64_t i = 0; i < moves; ++i) {
    const double left = 1 - static_cast<double>(i) / static_cast<double>(moves);
    const double temperature = kWarmest * first * left * left;
    unit_moves.move(ends);
    const UnitTimes times = clock.times_of(sequences);
    const double luck = numbers.unit();
    const bool allowed = times.fits || !best.times.fits;
    const bool kept = times.makespan <= current || luck < std::exp((current - times.makespan) / temperature);
    if (!allowed || !kept || std::isinf(times.makespan)) {
      unit_moves.undo();
      continue;
    }
    current = times.makespan;
    ends = clock.ends();
    const NamedSequences found{{}, {}, times};
    if (!found.better_than(best)) continue;
    best.sequences = sequences;
    best.times = times;
  }
  if (std::pair(best.times.makespan, best.times.bytes) != start)
    best.name += fmt::format(", improved by {} moves", moves);
  return best;
}

}  // namespace

PipeSearchPolicy::PipeSearchPolicy(PolicyParameters& parameters) {
  chunks_ = chunks_parameter(parameters);
  moves_ = parameters.integer("moves", moves_, 0, 100'000'000);
  seed_ = seed_parameter(parameters);
}

PipelineSchedules PipeSearchPolicy::schedules(const PipelineProgram& program, const PolicyOptions& options) const {
  const UnitModel model(program, options);
  std::vector<NamedSequences> starts = published(model);
  std::ranges::move(all_unit_lists(model), std::back_inserter(starts));
  const NamedSequences found = searched(model, best_of(starts), moves_, seed_.value_or(options.seed));
  return chosen_schedules(model, found, kReasons, starts.size() + static_cast<std::size_t>(moves_));
}

}  // namespace weft::policy
