#include "runtime/time/engine.h"

#include "base/assertions.h"

namespace weft::time {

Engine::Engine(std::span<const ClassLoads> classes, const cost::Machine* machine,
               std::span<const std::uint32_t> class_of_rank, std::span<const cost::CorePool> pools)
    : pools_(pools),
      cores_(machine == nullptr ? 1 : machine->cores),
      shared_cores_(machine != nullptr && machine->shared_cores) {
  const std::size_t ranks = class_of_rank.empty() ? classes.size() : class_of_rank.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const ClassLoads& loads = classes[class_of_rank.empty() ? rank : class_of_rank[rank]];
    ranks_.push_back({&loads, streams_.size()});
    streams_.insert(streams_.end(), loads.streams.begin(), loads.streams.end());
    rank_of_.resize(streams_.size(), static_cast<std::uint32_t>(rank));
    links_ = std::max(links_, loads.links);
    has_messages_ = has_messages_ || loads.has_messages;
  }
  for (std::size_t pool = 0; pool < pools.size(); ++pool) {
    for (const std::int64_t rank : pools[pool].ranks)
      ranks_.at(static_cast<std::size_t>(rank)).pool = static_cast<std::uint32_t>(pool);
  }
  on_link_ = cost::LinkShares(links_ * (has_messages_ ? 2 : 1));
  state_.slots.resize(streams_.size());
  state_.running.resize(streams_.size());
  state_.ranks.resize(ranks_.size());
  state_.ends = EventQueue(streams_.size());
}

void Engine::reset() {
  while (!empty()) end(first());
  state_.now = 0;
}

void Engine::enter(std::size_t slot) {
  if (streams_[slot].local) return;
  std::uint32_t* const first = state_.running.data() + ranks_[rank_of_[slot]].begin;
  std::uint32_t* place = first + running(rank_of_[slot]).size();
  for (; place != first && place[-1] > slot; --place) *place = place[-1];
  *place = static_cast<std::uint32_t>(slot);
  count(slot, 1);
}

void Engine::leave(std::size_t slot) {
  if (streams_[slot].local) return;
  std::uint32_t* const first = state_.running.data() + ranks_[rank_of_[slot]].begin;
  std::uint32_t* const last = first + running(rank_of_[slot]).size();
  std::uint32_t* const place = std::find(first, last, static_cast<std::uint32_t>(slot));
  std::copy(place + 1, last, place);
  count(slot, -1);
}

void Engine::count(std::size_t slot, int tasks) {
  Running& running = state_.ranks[rank_of_[slot]];
  if (streams_[slot].compute) {
    running.computing += tasks;
  } else {
    running.communicating += tasks;
    running.changed = true;
  }
}

void Engine::start(std::size_t slot, std::uint32_t task, double ns) {
  assert_that("a slot runs one task at a time", [&] { return idle(slot); });
  const auto lead = static_cast<std::uint32_t>(slot);
  state_.slots[slot] = {task, lead, kIdle, &ranks_[rank_of_[slot]].loads->tasks[task], ns, 1, state_.now, 1};
  state_.ends.set(slot, state_.now + ns);
  enter(slot);
}

void Engine::join(std::size_t slot, std::uint32_t task, std::size_t before) {
  assert_that("a slot runs one task at a time", [&] { return idle(slot); });
  state_.slots[slot] = {
      .task = task, .lead = state_.slots[before].lead, .load = &ranks_[rank_of_[slot]].loads->tasks[task]};
  state_.slots[before].next = static_cast<std::uint32_t>(slot);
  enter(slot);
}

void Engine::end(std::size_t slot) {
  state_.ends.remove(slot);
  for (std::uint32_t member = static_cast<std::uint32_t>(slot); member != kIdle; member = state_.slots[member].next) {
    state_.slots[member].task = kIdle;
    leave(member);
  }
}

/// With messages, the directions of a link are shared by themselves: a collective uses both.
void Engine::use_link(const StreamLoad& stream, double use) {
  if (stream.sends) on_link_.add(stream.link, use);
  if (stream.receives && has_messages_) on_link_.add(links_ + stream.link, use);
}

double Engine::link_rate(const StreamLoad& stream, double use) const {
  const double out = stream.sends ? on_link_.rate(stream.link, use) : 1;
  return stream.receives && has_messages_ ? std::min(out, on_link_.rate(links_ + stream.link, use)) : out;
}

void Engine::settle(std::size_t rank) {
  const Rank& at = ranks_[rank];
  if (at.pool == kOwnCores) {
    if (!at.loads->contends) return;
    settle_transports(rank, 1);
  } else {
    const double share = share_of(pools_[at.pool]);
    for (const std::int64_t member : pools_[at.pool].ranks) settle_transports(static_cast<std::size_t>(member), share);
  }
  settle_computations(rank);
}

/// `share`: of its cores that the rank gets. While it computes, its transports progress between slices of its tasks, so
/// they get no more.
void Engine::settle_transports(std::size_t rank, double share) {
  Running& transports = state_.ranks[rank];
  const bool beside = transports.computing > 0;
  if (!transports.changed && transports.beside == beside && transports.share == share) return;
  transports.changed = false;
  transports.beside = beside;
  transports.share = share;
  on_link_.clear();
  for (const std::uint32_t slot : running(rank)) {
    if (communicates(slot)) use_link(streams_[slot], state_.slots[slot].load->use);
  }
  on_link_.divide();
  double wanted = 0;  // cores, by all transports
  for (const std::uint32_t slot : running(rank)) {
    const TaskLoad& load = *state_.slots[slot].load;
    if (shared_cores_ && communicates(slot)) wanted += load.cores * link_rate(streams_[slot], load.use);
  }
  const double granted = wanted > cores_ ? cores_ / wanted : 1;
  for (const std::uint32_t slot : running(rank)) {
    if (!communicates(slot)) continue;
    // offer() may settle other ranks, but only on a shared_cores machine, and then only their computations, which
    // don't overwrite on_link_.
    const TaskLoad& load = *state_.slots[slot].load;
    offer(slot, std::min(beside ? load.beside * share : 1, granted) * link_rate(streams_[slot], load.use));
  }
}

/// `share` is the rate that a slot's rank allows its collective, which runs at the lowest rate of its members.
void Engine::offer(std::size_t slot, double share) {
  Slot& state = state_.slots[slot];
  const double before = state.share;
  if (share == before) return;
  state.share = share;
  const Slot& lead = state_.slots[state.lead];
  double rate = std::min(share, lead.rate);
  if (share > before && before == lead.rate) {
    rate = share;
    for (std::uint32_t member = state.lead; member != kIdle; member = state_.slots[member].next)
      rate = std::min(rate, state_.slots[member].share);
  }
  if (rate == lead.rate) return;
  set_rate(state.lead, rate);
  if (!shared_cores_) return;
  for (std::uint32_t member = state.lead; member != kIdle; member = state_.slots[member].next) {
    if (rank_of_[member] != rank_of_[slot]) settle_computations(rank_of_[member]);
  }
}

/// Of a rank, and of the ranks with which it shares cores.
void Engine::settle_computations(std::size_t rank) {
  if (ranks_[rank].pool == kOwnCores) {
    if (shared_cores_ || !ranks_[rank].loads->slowdowns.none()) settle_own_computations(rank, 1);
    return;
  }
  const cost::CorePool& pool = pools_[ranks_[rank].pool];
  const double share = share_of(pool);
  for (const std::int64_t member : pool.ranks) settle_own_computations(static_cast<std::size_t>(member), share);
}

/// The share of its cores that each rank of the pool gets.
double Engine::share_of(const cost::CorePool& pool) const {
  double wanted = 0;
  for (const std::int64_t member : pool.ranks) {
    const auto rank = static_cast<std::size_t>(member);
    wanted += state_.ranks[rank].computing > 0 ? cores_ : std::min(cores_, cores_taken(rank));
  }
  const auto cores = static_cast<double>(pool.cores);
  return wanted > cores ? cores / wanted : 1;
}

/// By a rank's transports.
double Engine::cores_taken(std::size_t rank) const {
  double taken = 0;
  for (const std::uint32_t slot : running(rank)) {
    const Slot& state = state_.slots[slot];
    if (shared_cores_ && communicates(slot)) taken += state.load->cores * state_.slots[state.lead].rate;
  }
  return taken;
}

/// `share`: of its cores that the rank gets.
void Engine::settle_own_computations(std::size_t rank, double share) {
  const ClassLoads& loads = *ranks_[rank].loads;
  const int computing = state_.ranks[rank].computing;
  double granted = 1;
  if (shared_cores_ && computing > 0) {
    const double wanted = cores_ * computing / static_cast<double>(loads.compute_streams);
    granted = std::min(1.0, std::max(0.0, cores_ - cores_taken(rank)) / wanted);
  }
  const std::span<const std::uint32_t> slots = running(rank);
  for (const std::uint32_t slot : slots) {
    if (communicates(slot)) continue;
    const std::uint32_t kind = state_.slots[slot].load->kind;
    double factor = 1;
    for (const std::uint32_t other : slots) {
      if (communicates(other)) factor = std::max(factor, loads.slowdowns.factor(kind, state_.slots[other].load->kind));
    }
    const double rate = share * granted / factor;
    if (rate != state_.slots[slot].rate) set_rate(slot, rate);
  }
}

void Engine::set_rate(std::size_t slot, double rate) {
  Slot& state = state_.slots[slot];
  state.remaining = remaining(slot);
  state.updated = state_.now;
  state.rate = rate;
  state_.ends.set(slot, state.remaining == 0 ? state_.now : rate == 0 ? kNever : state_.now + state.remaining / rate);
}

}  // namespace weft::time
