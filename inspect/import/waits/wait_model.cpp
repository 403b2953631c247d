#include "inspect/import/waits/wait_model.h"

#include <bit>
#include <cmath>

namespace weft::inspect {
namespace {

// Weights of what is assumed before anything is learned, in numbers of waits.
constexpr double kAssumedWaits = 2;
constexpr double kAssumedOutside = 0.02;  // of them for events of other steps
constexpr double kPartnerKinds = 20;      // among which a wait's partner is chosen at first
constexpr double kLeastWaitChance = 1e-3;
constexpr double kLaterPass = -8;       // a forward pass that waits for its own backward pass
constexpr double kAwaitedTwice = -1.4;  // another stream waits for the event already: one in four
constexpr double kMostAwaited = 0.95;   // of events: few are recorded for nothing, but by programs that record many
constexpr double kOtherStep = -1.5;     // an event of another step is the last resort,
constexpr double kNoNews = -2;          // more so after an event of this step
constexpr double kTurnOfOldest = 0.5, kTurnOfNewest = 0.25, kTurnPassed = 1.0 / 3;  // if all events are awaited
constexpr int kFarLayers = 3;

/// The number of launches between two, in powers of two.
int distance_class(std::uint32_t from, std::uint32_t to) {
  return to > from ? std::bit_width(to - from) - 1 : 0;
}

bool equally_marked(const WaitWork& from, const WaitWork& to) {
  if (to.phase == graph::Phase::update) {
    return from.phase == graph::Phase::backward && (to.layer < 0 || from.layer == to.layer);
  }
  return from.layer >= 0 && from.layer == to.layer && from.micro_batch == to.micro_batch && from.phase == to.phase;
}

/// A forward pass waits for nothing of its backward pass, and neither for an update.
bool of_later_pass(const WaitWork& from, const WaitWork& to) {
  const bool one_batch = to.micro_batch >= 0 && from.micro_batch == to.micro_batch;
  return one_batch && from.phase && to.phase && *from.phase > *to.phase;
}

}  // namespace

WaitModel::WaitModel(const WaitProblem& problem, bool recent_first)
    : problem_(problem), recent_first_(recent_first), share_(std::size_t{problem.streams} * problem.streams, 0.5) {
  double waits = 0;
  for (const WaitGroup& group : problem.groups) waits += group.waits;
  const double events = std::max(1.0, static_cast<double>(problem.events.size()));
  awaited_share_ = std::min(kMostAwaited, waits / events);
  unawaited_ = std::log(1 - awaited_share_);
}

WaitModel::Partner WaitModel::partner_of(const WaitWork& from, const WaitWork& to) {
  constexpr int kUnknown = 99;
  Partner out{side_of(from), kUnknown, kUnknown};
  if (from.layer >= 0 && to.layer >= 0) out.layers = std::clamp(to.layer - from.layer, -kFarLayers, kFarLayers);
  if (from.micro_batch >= 0 && to.micro_batch >= 0) out.micro_batches = from.micro_batch == to.micro_batch ? 0 : 1;
  return out;
}

double WaitModel::prior(std::uint32_t from, std::uint32_t to, bool recent_first) const {
  const WaitWork &a = problem_.work[from], &b = problem_.work[to];
  double weight = recent_first ? 1 / (1 + 0.25 * distance_class(from, to)) : 1;
  if (a.communicates != b.communicates) weight *= 3;
  if (equally_marked(a, b)) {
    weight *= 4;
  } else if (a.micro_batch != b.micro_batch && a.micro_batch >= 0 && b.micro_batch >= 0) {
    weight /= 2;
  }
  return weight / kPartnerKinds;
}

double WaitModel::of_event(const WaitGroup& group, std::uint32_t event) const {
  const std::uint32_t from = problem_.events[event];
  const WaitWork &a = problem_.work[from], &b = problem_.work[group.to];
  double seen = 0, all = 0;
  if (const auto side = counts_.find(side_of(b)); side != counts_.end()) {
    all = side->second.all;
    const auto partner = side->second.of.find(partner_of(a, b));
    if (partner != side->second.of.end()) seen = partner->second;
  }
  double out = std::log((seen + kAssumedWaits * prior(from, group.to, recent_first_)) / (all + kAssumedWaits));
  if (problem_.releases(event, b)) out -= std::log(std::max(kLeastWaitChance, problem_.chance));
  if (of_later_pass(a, b)) out += kLaterPass;
  if (group.just_before != kNoEvent) {
    out += std::log((event == group.just_before ? just_before_ : elsewhere_) / (just_before_ + elsewhere_));
  }
  return out;
}

double WaitModel::of_outside(const WaitGroup& group, bool news) const {
  double outside = 0, all = 0;
  if (const auto side = counts_.find(side_of(problem_.work[group.to])); side != counts_.end()) {
    outside = side->second.outside;
    all = side->second.all;
  }
  return std::log((outside + kAssumedWaits * kAssumedOutside) / (all + outside + kAssumedWaits)) + kOtherStep +
         (news ? 0 : kNoNews);
}

double WaitModel::of_turn(std::size_t skipped, bool newest, bool awaited) const {
  if (awaited) return std::log(newest ? kTurnOfNewest + 0.05 : 0.1) + kAwaitedTwice;
  constexpr double kMostSkipped = 12;
  const double regular = awaited_share_ / kMostAwaited;  // else the last event is meant
  const double turn = kTurnOfOldest * std::pow(kTurnPassed, std::min(static_cast<double>(skipped), kMostSkipped));
  return std::log(regular * turn + (newest ? 1 - regular * (1 - kTurnOfNewest) : 0));
}

double WaitModel::of_rest(std::int64_t unawaited, std::int64_t outside) const {
  return unawaited > outside ? unawaited_ * static_cast<double>(unawaited - outside)
                             : unawaited_ / 2 * static_cast<double>(outside - unawaited);
}

void WaitModel::learn_from_times() {
  for (const WaitGroup& group : problem_.groups) {
    const WaitWork& to = problem_.work[group.to];
    if (!to.held_up) continue;
    std::vector<std::uint32_t> releasing;
    for (std::uint32_t event = 0; event < group.events; ++event) {
      const WaitWork& from = problem_.work[problem_.events[event]];
      if (from.stream != to.stream && problem_.releases(event, to)) releasing.push_back(event);
    }
    if (releasing.size() != 1) continue;
    Counts& counts = counts_[side_of(to)];
    counts.of[partner_of(problem_.work[problem_.events[releasing.front()]], to)] += 1;
    counts.all += 1;
  }
}

void WaitModel::learn(const std::vector<FoundWait>& found) {
  constexpr double kVisible = 1.5;  // the weight of a wait that times tell
  counts_.clear();
  just_before_ = elsewhere_ = 1;
  std::vector<double> awaited(share_.size(), 0.5), events(problem_.streams, 1);
  for (const std::uint32_t work : problem_.events) events[problem_.work[work].stream] += 1;
  for (const FoundWait& wait : found) {
    const WaitGroup& group = problem_.groups[wait.group];
    const WaitWork& to = problem_.work[group.to];
    Counts& counts = counts_[side_of(to)];
    if (wait.event == kNoEvent) {
      counts.outside += wait.confidence;
      continue;
    }
    const WaitWork& from = problem_.work[problem_.events[wait.event]];
    const double weight = wait.confidence * (problem_.releases(wait.event, to) ? kVisible : 1);
    counts.of[partner_of(from, to)] += weight;
    counts.all += weight;
    awaited[std::size_t{from.stream} * problem_.streams + to.stream] += weight;
    if (group.just_before != kNoEvent) (wait.event == group.just_before ? just_before_ : elsewhere_) += weight;
  }
  for (std::size_t i = 0; i < share_.size(); ++i) share_[i] = std::min(1.0, awaited[i] / events[i / problem_.streams]);
}

double WaitModel::of_all(std::vector<FoundWait> found) const {
  // Each wait is judged by those before it, so that regular steps cost little and nothing is counted for itself.
  constexpr std::size_t kTurns = 6;
  constexpr std::array<double, kTurns> kAssumedTurns = {0.6, 0.15, 0.1, 0.05, 0.05, 0.05};
  std::ranges::sort(found, {}, [](const FoundWait& wait) { return std::pair(wait.group, ~wait.event); });
  std::map<Side, Counts> counts;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::array<double, kTurns>> turns;
  std::vector<std::vector<std::uint32_t>> events_on(problem_.streams);
  for (std::uint32_t event = 0; event < problem_.events.size(); ++event) {
    events_on[problem_.work[problem_.events[event]].stream].push_back(event);
  }
  std::vector<bool> awaited(problem_.events.size()), explained(problem_.groups.size());
  std::vector<std::size_t> next(share_.size());  // by stream and waiting stream: the first event that isn't known
  double out = 0, just_before = 1, elsewhere = 1;
  std::int64_t outside = 0;
  for (const FoundWait& wait : found) {
    const WaitGroup& group = problem_.groups[wait.group];
    const WaitWork& to = problem_.work[group.to];
    Counts& side = counts[side_of(to)];
    double& all = side.all;
    if (wait.event == kNoEvent) {
      out += std::log((side.outside + kAssumedWaits * kAssumedOutside) / (all + kAssumedWaits)) + kNoNews;
      side.outside += 1;
      all += 1;
      ++outside;
      continue;
    }
    const std::uint32_t index = problem_.events[wait.event];
    const WaitWork& from = problem_.work[index];
    double& seen = side.of[partner_of(from, to)];
    out += std::log((seen + kAssumedWaits * prior(index, group.to, true) / 2) / (all + kAssumedWaits));
    seen += 1;
    all += 1;
    std::size_t& first = next[std::size_t{from.stream} * problem_.streams + to.stream];
    std::size_t skipped = 0;
    const std::vector<std::uint32_t>& on = events_on[from.stream];
    for (; first < on.size() && on[first] < wait.event; ++first) skipped += awaited[on[first]] ? 0 : 1;
    if (first < on.size() && on[first] == wait.event) ++first;
    std::array<double, kTurns>& turn = turns[{from.stream, to.stream}];
    double taken = kAssumedWaits;
    for (const double count : turn) taken += count;
    skipped = std::min(skipped, kTurns - 1);
    out += std::log((turn[skipped] + kAssumedWaits * kAssumedTurns[skipped]) / taken);
    turn[skipped] += 1;
    if (awaited[wait.event]) out += kAwaitedTwice;
    awaited[wait.event] = true;
    if (group.just_before != kNoEvent) {
      double& count = wait.event == group.just_before ? just_before : elsewhere;
      out += std::log(count / (just_before + elsewhere));
      count += 1;
    }
    if (of_later_pass(from, to)) out += kLaterPass;
    if (problem_.releases(wait.event, to) && !explained[wait.group]) {
      explained[wait.group] = true;
      out -= std::log(std::max(kLeastWaitChance, problem_.chance));
    }
  }
  for (std::size_t i = 0; i < problem_.groups.size(); ++i) {
    if (problem_.work[problem_.groups[i].to].held_up && !explained[i]) out += kUnexplained;
  }
  return out + of_rest(std::ranges::count(awaited, false), outside);
}

}  // namespace weft::inspect
