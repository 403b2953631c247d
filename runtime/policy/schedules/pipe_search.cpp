#include "runtime/policy/schedules/pipe_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/policy/builtin/random.h"
#include "runtime/policy/pipeline/unit_list.h"
#include "runtime/policy/schedules/dual_pipe_v.h"
#include "runtime/policy/schedules/gpipe.h"
#include "runtime/policy/schedules/interleaved.h"
#include "runtime/policy/schedules/one_forward_one_backward.h"
#include "runtime/policy/schedules/pipe_list.h"
#include "runtime/policy/schedules/zb_h1.h"
#include "runtime/policy/schedules/zb_v.h"
#include "runtime/policy/scheduling/random_numbers.h"

namespace weft::policy {
namespace {

constexpr double kWarmest = 5e-4;      // the first temperature, of the first makespan
constexpr std::size_t kFarthest = 16;  // places that a move takes a unit

/// The published schedules for the shape's chunks; those that refuse its number of micro-batches are left out.
std::vector<NamedSequences> published(const UnitModel& model) {
  std::vector<std::unique_ptr<FixedPipelinePolicy>> policies;
  policies.push_back(std::make_unique<GpipePolicy>());
  policies.push_back(std::make_unique<OneForwardOneBackwardPolicy>());
  policies.push_back(std::make_unique<ZbH1Policy>());
  policies.push_back(std::make_unique<ZbVPolicy>());
  policies.push_back(std::make_unique<DualPipeVPolicy>());
  const graph::PipelineChunks& chunks = model.shape().chunks;
  if (chunks.chunks > 1) policies.push_back(std::make_unique<InterleavedPolicy>(chunks.chunks));
  UnitClock clock(model);
  std::vector<NamedSequences> found;
  for (const auto& policy : policies) {
    if (policy->chunks() != chunks) continue;
    try {
      std::vector<RankSchedule> schedules;
      for (std::int32_t rank = 0; rank < model.shape().ranks; ++rank)
        schedules.push_back(policy->schedule(model.shape(), rank));
      UnitSequences sequences = model.sequences_of(schedules);
      const UnitTimes times = clock.times_of(sequences);
      found.push_back({policy->name(), std::move(sequences), times});
    } catch (const UserError&) {  // a number of micro-batches that it doesn't take
    }
  }
  return found;
}

/// Moves units of sequences about, and back again.
class UnitMoves {
 public:
  UnitMoves(UnitSequences& sequences, RandomNumbers& numbers) : sequences_(sequences), numbers_(numbers) {}

  void move() {
    moved_.clear();
    const std::size_t rank = numbers_.below(sequences_.size());
    if (sequences_[rank].size() < 2) return;
    const std::size_t from = numbers_.below(sequences_[rank].size());
    const std::size_t distance = 1 + numbers_.below(kFarthest);
    const bool later = numbers_.below(2) == 0, everywhere = numbers_.below(4) == 0;
    for (std::size_t each = 0; each < sequences_.size(); ++each) {
      if (each != rank && !everywhere) continue;
      const std::size_t last = sequences_[each].size() - 1;
      if (sequences_[each].empty() || from > last) continue;
      const std::size_t to = later ? std::min(from + distance, last) : from - std::min(from, distance);
      shift(each, from, to);
      moved_.push_back({each, from, to});
    }
  }

  void undo() {
    for (auto each = moved_.rbegin(); each != moved_.rend(); ++each) shift(each->rank, each->to, each->from);
  }

 private:
  struct Moved {
    std::size_t rank, from, to;
  };

  void shift(std::size_t rank, std::size_t from, std::size_t to) {
    const auto at = [&](std::size_t i) { return sequences_[rank].begin() + static_cast<std::ptrdiff_t>(i); };
    if (from < to) std::rotate(at(from), at(from + 1), at(to + 1));
    if (to < from) std::rotate(at(to), at(from), at(from + 1));
  }

  UnitSequences& sequences_;
  RandomNumbers& numbers_;
  std::vector<Moved> moved_;
};

NamedSequences searched(const UnitModel& model, NamedSequences best, std::int64_t moves, std::uint64_t seed) {
  RandomNumbers numbers(seed);
  UnitClock clock(model);
  UnitSequences sequences = best.sequences;
  UnitMoves unit_moves(sequences, numbers);
  const double first = best.times.makespan;
  const std::pair start(best.times.makespan, best.times.bytes);
  double current = first;
  for (std::int64_t i = 0; i < moves; ++i) {
    const double left = 1 - static_cast<double>(i) / static_cast<double>(moves);
    const double temperature = kWarmest * first * left * left;
    unit_moves.move();
    const UnitTimes times = clock.times_of(sequences);
    const double luck = numbers.unit();
    const bool allowed = times.fits || !best.times.fits;
    const bool kept = times.makespan <= current || luck < std::exp((current - times.makespan) / temperature);
    if (!allowed || !kept || std::isinf(times.makespan)) {
      unit_moves.undo();
      continue;
    }
    current = times.makespan;
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

PipeSearchPolicy::PipeSearchPolicy(PolicyParameters& parameters)
    : chunks_(chunks_parameter(parameters)),
      moves_(parameters.integer("moves", 2000, 0, 100'000'000)),
      seed_(seed_parameter(parameters)) {}

PipelineSchedules PipeSearchPolicy::schedules(const PipelineProgram& program, const PolicyOptions& options) const {
  const UnitModel model(program, options);
  std::vector<NamedSequences> starts = published(model);
  std::ranges::move(all_unit_lists(model), std::back_inserter(starts));
  const NamedSequences found = searched(model, best_of(starts), moves_, seed_.value_or(options.seed));
  return chosen_schedules(model, found, name(), starts.size() + static_cast<std::size_t>(moves_));
}

}  // namespace weft::policy
