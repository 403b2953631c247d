#include "runtime/time/engine.h"

namespace weft::time {

Engine::Engine(std::span<const ClassLoads> classes, const cost::Machine* machine,
               std::span<const std::uint32_t> class_of_rank, std::span<const cost::CorePool> pools)
    : pools_(pools),
      cores_(machine == nullptr ? 1 : machine->cores),
      shared_cores_(machine != nullptr && machine->shared_cores) {
  const std::size_t ranks = class_of_rank.empty() ? classes.size() : class_of_rank.size();
  std::size_t words = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const ClassLoads& loads = classes[class_of_rank.empty() ? rank : class_of_rank[rank]];
    const std::size_t first_word = words, begin = places_.size();
    for (const StreamLoad& stream : loads.streams) {
      const std::size_t place = places_.size() - begin;
      words = first_word + place / 64 + 1;
      places_.push_back({stream, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(words - 1),
                         std::uint64_t{1} << place % 64, loads.tasks.data()});
    }
    ranks_.push_back({&loads, begin, first_word, words});
    links_ = std::max(links_, loads.links);
    has_messages_ = has_messages_ || loads.has_messages;
  }
  for (std::size_t pool = 0; pool < pools.size(); ++pool) {
    for (const std::int64_t rank : pools[pool].ranks)
      ranks_.at(static_cast<std::size_t>(rank)).pool = static_cast<std::uint32_t>(pool);
  }
  on_link_ = LinkShares(links_ * (has_messages_ ? 2 : 1));
  state_.slots.resize(places_.size());
  state_.computing.resize(words, 0);
  state_.communicating.resize(words, 0);
  state_.ranks.resize(ranks_.size());
  state_.ends = EventQueue(places_.size());
}

void Engine::reset() {
  while (!empty()) end(first());
  state_.now = 0;
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
  const auto settle_transports_of = [&](std::size_t each, double share) {
    if (transports_change(state_.ranks[each], share)) settle_transports(each, share);
  };
  if (at.pool == kOwnCores) {
    if (!at.loads->contends) return;
    settle_transports_of(rank, 1);
  } else {
    const double share = share_of(pools_[at.pool]);
    for (const std::int64_t each : pools_[at.pool].ranks) settle_transports_of(static_cast<std::size_t>(each), share);
  }
  settle_computations(rank);
}

/// `share`: of its cores that the rank gets. While it computes, its transports progress between slices of its tasks, so
/// they get no more.
void Engine::settle_transports(std::size_t rank, double share) {
  Running& transports = state_.ranks[rank];
  const bool beside = transports.computing > 0;
  transports.changed = false;
  transports.beside = beside;
  transports.share = share;
  on_link_.clear();
  const Rank& at = ranks_[rank];
  each(state_.communicating, at, [&](std::size_t slot) { use_link(stream(slot), state_.slots[slot].load->use); });
  on_link_.divide();
  double wanted = 0;  // cores, by all transports
  if (shared_cores_) {
    each(state_.communicating, at, [&](std::size_t slot) {
      const TaskLoad& load = *state_.slots[slot].load;
      wanted += load.cores * link_rate(stream(slot), load.use);
    });
  }
  const double granted = wanted > cores_ ? cores_ / wanted : 1;
  // offer() may settle other ranks, but only on a shared_cores machine, and then only their computations, which don't
  // overwrite on_link_.
  each(state_.communicating, at, [&](std::size_t slot) {
    const TaskLoad& load = *state_.slots[slot].load;
    offer(slot, std::min(beside ? load.beside * share : 1, granted) * link_rate(stream(slot), load.use));
  });
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
    if (rank_of(member) != rank_of(slot)) settle_computations(rank_of(member));
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
    wanted += state_.ranks[rank].computing > 0 ? cores_ : std::min(cores_, cores_taken(ranks_[rank]));
  }
  const auto cores = static_cast<double>(pool.cores);
  return wanted > cores ? cores / wanted : 1;
}

/// By a rank's transports.
double Engine::cores_taken(const Rank& rank) const {
  double taken = 0;
  if (!shared_cores_) return taken;
  each(state_.communicating, rank,
       [&](std::size_t slot) { taken += state_.slots[slot].load->cores * state_.slots[state_.slots[slot].lead].rate; });
  return taken;
}

/// `share`: of its cores that the rank gets.
void Engine::settle_own_computations(std::size_t rank, double share) {
  const Rank& at = ranks_[rank];
  const int computing = state_.ranks[rank].computing;
  if (computing == 0) return;
  double granted = 1;
  if (shared_cores_) {
    const double wanted = cores_ * computing / static_cast<double>(at.loads->compute_streams);
    granted = std::min(1.0, std::max(0.0, cores_ - cores_taken(at)) / wanted);
  }
  each(state_.computing, at, [&](std::size_t slot) {
    const std::uint32_t kind = state_.slots[slot].load->kind;
    double factor = 1;
    each(state_.communicating, at, [&](std::size_t other) {
      factor = std::max(factor, at.loads->slowdowns.factor(kind, state_.slots[other].load->kind));
    });
    const double rate = share * granted / factor;
    if (rate != state_.slots[slot].rate) set_rate(slot, rate);
  });
}

void Engine::set_rate(std::size_t slot, double rate) {
  Slot& state = state_.slots[slot];
  state.remaining = remaining(slot);
  state.updated = state_.now;
  state.rate = rate;
  state_.ends.set(slot, state.remaining == 0 ? state_.now : rate == 0 ? kNever : state_.now + state.remaining / rate);
}

}  // namespace weft::time
