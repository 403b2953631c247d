// How plausible it is that a wait is for an event: by what this step's other waits are for, by times and by turns.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "inspect/import/waits/wait_search.h"

namespace weft::inspect {

/// Steps repeat themselves: layer after layer, work of one kind waits for work of one kind. Which for which is learned
/// from the waits that have been found so far. Plausibilities are logarithms of probabilities.
class WaitModel {
 public:
  /// `recent_first`: before anything is learned, events that were recorded shortly before are preferred.
  WaitModel(const WaitProblem& problem, bool recent_first);

  /// From waits that times alone tell: held-up work, and just one event at whose end it began.
  void learn_from_times();
  void learn(const std::vector<FoundWait>& found);

  /// Of `event` for the work of a group: kind, layer, phase and time.
  double of_event(const WaitGroup& group, std::uint32_t event) const;
  /// That the wait is for an event outside of the step. `news`: it tells the stream anything.
  double of_outside(const WaitGroup& group, bool news) const;
  /// That of a stream's events, `skipped` older ones wait for another stream. `newest`: none is newer.
  double of_turn(std::size_t skipped, bool newest, bool awaited) const;
  /// That work began late though none of its waits explains it.
  static constexpr double kUnexplained = -6;
  /// That as many events are left without a wait as waits are for events of other steps: steps repeat, so what no wait
  /// of this step is for is awaited in the next one.
  double of_rest(std::int64_t unawaited, std::int64_t outside) const;
  /// That a stream passes over events for which it could have waited, before another stream has.
  double of_passing(std::uint32_t stream, std::uint32_t waiting) const {
    return unawaited_ / 2 * share_[std::size_t{stream} * problem_.streams + waiting];
  }

  /// Of all waits together: how well they agree with each other and with the times. Nothing learned counts, so that
  /// results of different models can be compared.
  double of_all(std::vector<FoundWait> found) const;

 private:
  struct Side {  // whose wait it is
    std::uint32_t kind = 0, stream = 0;
    std::optional<graph::Phase> phase = {};
    auto operator<=>(const Side&) const = default;
  };
  struct Partner : Side {               // for which work
    int layers = 0, micro_batches = 0;  // apart
    auto operator<=>(const Partner&) const = default;
  };
  struct Counts {
    std::map<Partner, double> of = {};
    double outside = 0, all = 0;  // all: without outside
  };

  static Side side_of(const WaitWork& to) { return {to.kind, to.stream, to.phase}; }
  static Partner partner_of(const WaitWork& from, const WaitWork& to);
  double prior(std::uint32_t from, std::uint32_t to, bool recent_first) const;

  const WaitProblem& problem_;
  const bool recent_first_;
  double awaited_share_ = 0;  // of all events
  double unawaited_ = 0;      // that nobody waits for an event: as a logarithm
  std::map<Side, Counts> counts_;
  double just_before_ = 1, elsewhere_ = 1;  // waits for the event right before them, and for others
  std::vector<double> share_;  // of a stream's events for which another stream waits: by stream, by waiting stream
};

}  // namespace weft::inspect
