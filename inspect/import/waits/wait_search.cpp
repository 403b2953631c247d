#include "inspect/import/waits/wait_search.h"

#include <cmath>
#include <cstddef>
#include <map>
#include <unordered_set>
#include <utility>

#include "inspect/import/waits/wait_model.h"

namespace weft::inspect {
namespace {

constexpr std::int32_t kNoChoice = -1;
constexpr int kSearchRounds = 4;                               // of searching and learning
constexpr std::size_t kHypotheses = 48, kFewHypotheses = 4;    // that are carried along
constexpr double kHopeless = -18;                              // so much less plausible than the best one: given up
constexpr std::size_t kOldestEvents = 32, kNewestEvents = 16;  // events of a stream that are looked at

constexpr std::size_t kMostEvents = 1024;   // of a stream that no wait is known to have been for
constexpr std::size_t kMostSearched = 256;  // among which waits are looked for
constexpr std::size_t kMuchWork = 100'000;  // waits times streams, from which on a search makes do with less

/// What a hypothesis decided about one wait; a chain to the first one.
struct Choice {
  std::int32_t before = kNoChoice;            // the hypothesis's choice before this one
  std::int32_t before_on_stream = kNoChoice;  // and the one on the waiting stream
  std::uint32_t group = 0, event = kNoEvent;
};

/// Waits up to a point of the calls. Clocks count, for each stream, the work of each other stream that has ended for
/// sure when its next work begins.
struct Hypothesis {
  std::int32_t last = kNoChoice;
  double plausible = 0;
  std::vector<std::int32_t> last_on_stream;
  std::vector<std::uint32_t> clocks;      // by stream, by stream
  std::vector<std::uint64_t> awaited;     // bits, by event
  std::uint32_t outside = 0;              // waits for events of other steps
  std::uint32_t before_event = kNoEvent;  // of this group: later waits are for earlier events
  bool explained = false;                 // of this group

  bool waits_for(std::uint32_t event) const { return (awaited[event / 64] >> (event % 64) & 1) != 0; }
};

/// A hypothesis with one wait more.
struct Extension {
  std::size_t of = 0;
  std::uint32_t event = kNoEvent;
  double plausible = 0;
  bool explains = false;
};

class WaitSearch {
 public:
  WaitSearch(const WaitProblem& problem, const WaitModel& model, std::size_t hypotheses)
      : problem_(problem),
        model_(model),
        streams_(problem.streams),
        most_hypotheses_(hypotheses),
        events_on_(streams_) {
    for (std::uint32_t event = 0; event < problem.events.size(); ++event) {
      events_on_[problem.work[problem.events[event]].stream].push_back(event);
    }
    std::vector<std::uint32_t> last(streams_, kNoEvent);
    std::size_t next = 0;
    for (std::uint32_t i = 0; i < problem.work.size(); ++i) {
      const std::uint32_t stream = problem.work[i].stream;
      if (next < problem.groups.size() && problem.groups[next].to == i)
        last[stream] = static_cast<std::uint32_t>(next++);
      group_of_.push_back(last[stream]);
    }
  }

  std::vector<FoundWait> run() && {
    Hypothesis first;
    first.last_on_stream.assign(streams_, kNoChoice);
    first.clocks.assign(std::size_t{streams_} * streams_, 0);
    first.awaited.assign(problem_.events.size() / 64 + 1, 0);
    hypotheses_.push_back(std::move(first));
    for (std::uint32_t group = 0; group < problem_.groups.size(); ++group) decide(group);
    return best();
  }

 private:
  const WaitWork& source(std::uint32_t event) const { return problem_.work[problem_.events[event]]; }
  std::uint32_t* clock(Hypothesis& of, std::uint32_t stream) const {
    return &of.clocks[std::size_t{stream} * streams_];
  }

  void decide(std::uint32_t index) {
    const WaitGroup& group = problem_.groups[index];
    const WaitWork& to = problem_.work[group.to];
    for (Hypothesis& each : hypotheses_) {
      clock(each, to.stream)[to.stream] = to.place;
      each.before_event = group.events;
      each.explained = false;
    }
    for (std::uint32_t wait = 0; wait < group.waits; ++wait) {
      const bool last = wait + 1 == group.waits;
      extensions_.clear();
      for (std::size_t i = 0; i < hypotheses_.size(); ++i) extend(i, group, last && to.held_up);
      take(index);
    }
  }

  /// All that the next wait of a hypothesis may be for.
  void extend(std::size_t index, const WaitGroup& group, bool must_explain) {
    const Hypothesis& of = hypotheses_[index];
    const WaitWork& to = problem_.work[group.to];
    const std::uint32_t* known = &of.clocks[std::size_t{to.stream} * streams_];
    bool news = false;
    for (std::uint32_t stream = 0; stream < streams_; ++stream) {
      news |= stream != to.stream && known[stream] == 0 && !events_on_[stream].empty();
    }
    const auto add = [&](std::uint32_t event, double plausible, bool explains) {
      if (must_explain && !explains && !of.explained) plausible += WaitModel::kUnexplained;
      extensions_.push_back({index, event, of.plausible + plausible, explains});
    };
    add(kNoEvent, model_.of_outside(group, news), false);
    if (of.before_event == kNoEvent) return;  // waits for other steps come last
    for (std::uint32_t stream = 0; stream < streams_; ++stream) {
      if (stream != to.stream) extend_by(of, group, stream, known[stream], add);
    }
  }

  template <class Add>
  void extend_by(const Hypothesis& of, const WaitGroup& group, std::uint32_t stream, std::uint32_t known,
                 const Add& add) const {
    const WaitWork& to = problem_.work[group.to];
    const std::vector<std::uint32_t>& events = events_on_[stream];
    const auto end = std::ranges::lower_bound(events, of.before_event);
    auto first =
        std::partition_point(events.begin(), end, [&](std::uint32_t event) { return source(event).place < known; });
    const auto last = std::partition_point(
        first, end, [&](std::uint32_t event) { return source(event).end <= to.begin + problem_.slack; });
    if (std::cmp_greater(last - first, kMostEvents)) first = last - static_cast<std::ptrdiff_t>(kMostEvents);
    const auto count = static_cast<std::size_t>(last - first);
    std::size_t skipped = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t event = first[static_cast<std::ptrdiff_t>(i)];
      const bool awaited = of.waits_for(event), releases = problem_.releases(event, to);
      if (i < kOldestEvents || i + kNewestEvents >= count || releases) {
        double plausible = model_.of_event(group, event) + model_.of_turn(skipped, i + 1 == count, awaited);
        plausible += model_.of_passing(stream, to.stream) * static_cast<double>(skipped);
        if (!awaited) plausible += passed_over(of, event, to.stream);
        add(event, plausible, releases);
      }
      skipped += awaited ? 0 : 1;
    }
  }

  /// What was held against the streams that passed an event over, since it's awaited now.
  double passed_over(const Hypothesis& of, std::uint32_t event, std::uint32_t waiting) const {
    double out = 0;
    for (std::uint32_t stream = 0; stream < streams_; ++stream) {
      if (stream == waiting || stream == source(event).stream) continue;
      if (of.clocks[std::size_t{stream} * streams_ + source(event).stream] > source(event).place) {
        out -= model_.of_passing(source(event).stream, stream);
      }
    }
    return out;
  }

  /// Keeps the most plausible extensions; of those that don't differ in anything that counts later, one.
  void take(std::uint32_t group) {
    std::ranges::sort(extensions_, std::greater(), &Extension::plausible);
    std::vector<Hypothesis> out;
    std::unordered_set<std::uint64_t> seen;
    for (const Extension& each : extensions_) {
      if (out.size() >= most_hypotheses_ || each.plausible < extensions_.front().plausible + kHopeless) break;
      Hypothesis next = hypotheses_[each.of];
      apply(each, group, next);
      if (!seen.insert(digest(next)).second) continue;
      choices_.push_back({next.last, next.last_on_stream[stream_of(group)], group, each.event});
      clocks_.insert(clocks_.end(), clock(next, stream_of(group)), clock(next, stream_of(group)) + streams_);
      next.last = next.last_on_stream[stream_of(group)] = static_cast<std::int32_t>(choices_.size()) - 1;
      out.push_back(std::move(next));
    }
    hypotheses_ = std::move(out);
  }

  std::uint32_t stream_of(std::uint32_t group) const { return problem_.work[problem_.groups[group].to].stream; }

  void apply(const Extension& extension, std::uint32_t group, Hypothesis& to) const {
    to.plausible = extension.plausible;
    to.before_event = extension.event;
    to.explained |= extension.explains;
    if (extension.event == kNoEvent) {
      ++to.outside;
      return;
    }
    to.awaited[extension.event / 64] |= std::uint64_t{1} << (extension.event % 64);
    std::uint32_t* known = clock(to, stream_of(group));
    const WaitWork& from = source(extension.event);
    // What the event's stream knew when it began the work that the event marks.
    const std::uint32_t until = group_of_[problem_.events[extension.event]];
    std::int32_t at = until == kNoEvent ? kNoChoice : to.last_on_stream[from.stream];
    while (at != kNoChoice && choices_[static_cast<std::size_t>(at)].group > until) {
      at = choices_[static_cast<std::size_t>(at)].before_on_stream;
    }
    for (std::uint32_t stream = 0; stream < streams_ && at != kNoChoice; ++stream) {
      if (stream == stream_of(group)) continue;
      known[stream] = std::max(known[stream], clocks_[static_cast<std::size_t>(at) * streams_ + stream]);
    }
    known[from.stream] = std::max(known[from.stream], from.place + 1);
  }

  static std::uint64_t digest(const Hypothesis& of) {
    std::uint64_t out = 1469598103934665603ULL;
    const auto mix = [&](std::uint64_t value) {
      out = (out ^ value) * 1099511628211ULL;
      out ^= out >> 29;
    };
    for (const std::uint32_t value : of.clocks) mix(value);
    for (const std::uint64_t value : of.awaited) mix(value);
    mix(of.before_event);
    return out;
  }

  std::vector<FoundWait> best() {
    for (Hypothesis& each : hypotheses_) {
      std::int64_t unawaited = 0;
      for (std::uint32_t event = 0; event < problem_.events.size(); ++event) unawaited += each.waits_for(event) ? 0 : 1;
      each.plausible += model_.of_rest(unawaited, each.outside);
    }
    const Hypothesis& best = *std::ranges::max_element(hypotheses_, {}, &Hypothesis::plausible);
    // How sure a choice is: the share of the hypotheses that were left, by plausibility, that made it.
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> shares;
    double all = 0;
    const auto each_choice = [&](const Hypothesis& of, const auto& tell) {
      for (std::int32_t at = of.last; at != kNoChoice; at = choices_[static_cast<std::size_t>(at)].before) {
        tell(choices_[static_cast<std::size_t>(at)]);
      }
    };
    for (const Hypothesis& each : hypotheses_) {
      const double weight = std::exp(each.plausible - best.plausible);
      all += weight;
      each_choice(each, [&](const Choice& choice) { shares[{choice.group, choice.event}] += weight; });
    }
    std::vector<FoundWait> out;
    each_choice(best, [&](const Choice& choice) {
      out.push_back({choice.group, choice.event, std::min(1.0, shares[{choice.group, choice.event}] / all)});
    });
    std::ranges::reverse(out);
    return out;
  }

  const WaitProblem& problem_;
  const WaitModel& model_;
  const std::uint32_t streams_;
  const std::size_t most_hypotheses_;
  std::vector<std::vector<std::uint32_t>> events_on_;  // by stream
  std::vector<std::uint32_t> group_of_;                // by work: the last group of its stream up to it
  std::vector<Hypothesis> hypotheses_;
  std::vector<Extension> extensions_;
  std::vector<Choice> choices_;
  std::vector<std::uint32_t> clocks_;  // by choice: of the waiting stream, after it
};

}  // namespace

std::vector<FoundWait> find_waits(const WaitProblem& problem) {
  if (problem.streams > kMostSearched) return {};
  std::size_t work = 0;
  for (const WaitGroup& group : problem.groups) work += std::size_t{group.waits} * problem.streams;
  const bool much = work > kMuchWork;
  const std::size_t hypotheses = much ? std::max(kFewHypotheses, kHypotheses * kMuchWork / work) : kHypotheses;
  const auto named = [](const FoundWait& wait) { return std::pair(wait.group, wait.event); };
  std::vector<FoundWait> best;
  double most = -std::numeric_limits<double>::infinity();
  for (const bool recent_first : {true, false}) {
    for (const bool from_times : {true, false}) {
      if (much && !(recent_first && from_times)) continue;
      WaitModel model(problem, recent_first);
      if (from_times) model.learn_from_times();
      std::vector<FoundWait> before;
      for (int round = 0; round < (much ? 2 : kSearchRounds); ++round) {
        std::vector<FoundWait> found = WaitSearch(problem, model, hypotheses).run();
        const bool settled = std::ranges::equal(found, before, {}, named, named);
        before = found;
        if (settled) break;
        model.learn(found);
        const double plausible = model.of_all(found);
        if (plausible <= most) continue;
        most = plausible;
        best = std::move(found);
      }
    }
  }
  return best;
}

}  // namespace weft::inspect
