#include "runtime/simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/link_shares.h"
#include "runtime/simulate/event_queue.h"
#include "runtime/simulate/flat_program.h"

namespace weft::simulate {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

void check_options(const SimulationOptions& options) {
  const auto require = [](bool holds, std::string_view what, double found, std::string_view expected) {
    if (!holds)
      throw UserError(fmt::format("{} = {} in a simulation", what, found), expected, "choose a value in this range");
  };
  require(options.steps >= 1, "steps", options.steps, "at least 1");
  require(options.noise >= 0 && options.noise <= 10, "noise", options.noise, "from 0 to 10");
  require(options.slow_rank > 0 && std::isfinite(options.slow_rank), "slow rank", options.slow_rank, "above 0");
  require(options.grid.ranks() >= 1, "ranks", static_cast<double>(options.grid.ranks()), "at least 1");
}

void check_plan(const plan::Plan& plan, const cost::TaskCosts& costs, const std::vector<int>& links) {
  const std::size_t tasks = plan.graph->tasks().size();
  if (costs.ns.size() != tasks || costs.cpu_ns.size() != tasks ||
      (!costs.beside_ns.empty() && costs.beside_ns.size() != tasks) || costs.on_link().size() != tasks) {
    throw std::logic_error(fmt::format("{} costs for {} tasks", costs.ns.size(), tasks));
  }
  for (const plan::StreamPlan& stream : plan.streams) {
    if (stream.stream.compute || static_cast<std::size_t>(stream.stream.channel) < links.size()) continue;
    throw std::logic_error(fmt::format("{} links, none for channel {}", links.size(), stream.stream.name));
  }
}

/// The state of a stream of a rank.
enum class Doing : std::uint8_t { blocked, arrived, running, drained };

struct SlotState {
  std::uint32_t next = 0;  // index of the stream's current entry; earlier entries are done
  Doing doing = Doing::blocked;
  double begin = 0;
  // For a computation, and for a collective in the slot of its group's first member:
  double alone = 0, remaining = 0, rate = 0, updated = 0;  // in ns of work alone; rate 1: as if alone
  double share = 1;                                        // of a collective: the rate that this rank allows
  std::uint32_t arrivals = 0;                              // of a collective, at the first member
};

class Simulator {
 public:
  /// `links` by channel.
  Simulator(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
            const cost::Machine& machine, const SimulationOptions& options, std::span<const int> links)
      : machine_(machine),
        options_(options),
        alike_(options.noise == 0 && options.slow_rank == 1 && options.core_pools.empty()),
        ranks_(alike_ ? plans.size() : static_cast<std::size_t>(options.grid.ranks())),
        program_(plans, costs, machine, links) {
    make_slots();
    make_groups();
    make_pools();
    queue_ = EventQueue(slots_.size());
    on_link_ = cost::LinkShares(program_.links() * (program_.has_messages() ? 2 : 1));
    if (options.noise > 0) {
      sigma_ = std::sqrt(std::log1p(options.noise * options.noise));
      mean_ = -sigma_ * sigma_ / 2;  // of the logarithm, so that the factor's mean is 1
    }
  }

  Simulation run() {
    Simulation result;
    const std::size_t traced = alike_ || options_.traced_ranks <= 0
                                   ? ranks_
                                   : std::min(ranks_, static_cast<std::size_t>(options_.traced_ranks));
    result.ranks.resize(traced);
    for (std::size_t rank = 0; rank < traced; ++rank) result.ranks[rank].rank = static_cast<int>(rank);
    ranks_result_ = &result.ranks;
    for (step_ = 0; step_ < options_.steps; ++step_) {
      const double begin = now_;
      run_step();
      result.step_ns = now_ - begin;
      for (SimulatedRank& rank : result.ranks) {
        rank.steps.back().begin = std::llround(begin);
        rank.steps.back().end = std::llround(now_);
      }
    }
    result.events = events_;
    return result;
  }

 private:
  // ---- slots: the streams of all ranks

  void make_slots() {
    const std::vector<FlatClass>& classes = program_.classes();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::size_t class_index = 0;
      if (classes.size() > 1) {
        class_index =
            alike_
                ? rank
                : static_cast<std::size_t>(graph::coordinates_of(options_.grid, static_cast<std::int64_t>(rank)).pipe);
      }
      class_of_.push_back(static_cast<std::uint32_t>(class_index));
      first_slot_.push_back(places_.size());
      for (const FlatStream& stream : classes[class_index].streams) {
        places_.push_back(
            {static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(places_.size() - first_slot_[rank])});
        streams_.push_back(&stream);
      }
    }
    first_slot_.push_back(places_.size());
    slots_.resize(places_.size());
  }

  void make_groups() {
    group_of_.assign(slots_.size(), kNoGroup);
    std::map<std::pair<graph::Channel, std::int64_t>, std::uint32_t> by_color;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const FlatStream& stream = stream_of(slot);
      const std::size_t rank = places_[slot].rank;
      if (stream.compute || (!stream.sends && stream.receives)) continue;  // a receive joins its send
      if (stream.sends && !stream.receives) {
        const std::size_t peer = peer_of(rank, stream.channel);
        const std::size_t other = program_.stream_of(class_of_[peer], graph::other_end(stream.channel));
        group_of_[slot] = group_of_[first_slot_[peer] + other] = static_cast<std::uint32_t>(groups_.size());
        groups_.push_back({static_cast<std::uint32_t>(slot), static_cast<std::uint32_t>(first_slot_[peer] + other)});
        continue;
      }
      const auto [found, is_new] =
          by_color.emplace(std::pair(stream.channel, color_of(rank, stream.channel)), groups_.size());
      if (is_new) groups_.emplace_back();
      group_of_[slot] = found->second;
      groups_[found->second].push_back(static_cast<std::uint32_t>(slot));
    }
  }

  void make_pools() {
    pool_of_.assign(ranks_, kNoGroup);
    for (std::size_t pool = 0; pool < options_.core_pools.size(); ++pool) {
      for (const std::int64_t rank : options_.core_pools[pool].ranks)
        pool_of_.at(static_cast<std::size_t>(rank)) = static_cast<std::uint32_t>(pool);
    }
  }

  std::size_t peer_of(std::size_t rank, graph::Channel channel) const {
    const auto number = static_cast<std::int64_t>(rank);
    return static_cast<std::size_t>(alike_ ? graph::peer_stage(channel, number, static_cast<std::int64_t>(ranks_))
                                           : graph::peer_rank(options_.grid, channel, number));
  }

  /// Ranks with equal colours form a group. Where all ranks of a class are alike, the one that is simulated stands for
  /// its group's members in its class.
  std::int64_t color_of(std::size_t rank, graph::Channel channel) const {
    const auto number = static_cast<std::int64_t>(rank);
    if (!alike_) return graph::group_color(options_.grid, channel, number);
    const std::vector<std::size_t> stages = graph::classes_of_channel(channel, ranks_);
    return std::ranges::find(stages, rank) == stages.end() ? number : 0;
  }

  const FlatClass& class_of(std::size_t rank) const { return program_.classes()[class_of_[rank]]; }
  const FlatStream& stream_of(std::size_t slot) const { return *streams_[slot]; }
  const FlatEntry& entry_of(std::size_t slot) const { return stream_of(slot).entries[slots_[slot].next]; }
  const std::vector<std::uint32_t>& members_of(std::size_t slot) const { return groups_[group_of_[slot]]; }
  SlotState& lead_of(std::size_t slot) { return slots_[members_of(slot).front()]; }
  const SlotState& lead_of(std::size_t slot) const { return slots_[members_of(slot).front()]; }

  // ---- one step

  void run_step() {
    left_ = 0;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const std::size_t entries = stream_of(slot).entries.size();
      slots_[slot] = SlotState{};
      slots_[slot].doing = entries == 0 ? Doing::drained : Doing::blocked;
      left_ += entries;
    }
    for (std::size_t rank = 0; rank < ranks_result_->size(); ++rank) {
      SimulatedRank& result = (*ranks_result_)[rank];
      plan::StepTrace& trace = result.steps.emplace_back();
      trace.step = step_;
      for (const FlatStream& stream : class_of(rank).streams) trace.times.emplace_back(stream.entries.size());
      result.contention_ns = 0;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) advance(rank, false);
    while (!queue_.empty() && queue_.time() < kNever) {
      now_ = queue_.time();
      finish(queue_.first());
    }
    if (left_ > 0) throw RuntimeFault(standstill());
  }

  bool ready(std::size_t rank, const FlatEntry& entry) const {
    for (std::uint32_t i = entry.first_wait; i < entry.first_wait + entry.waits; ++i) {
      const FlatWait& wait = program_.waits()[i];
      if (slots_[first_slot_[rank] + wait.stream].next <= wait.entry) return false;
    }
    return true;
  }

  /// Starts every entry that can start on a rank; `changed`: an entry has just ended there.
  void advance(std::size_t rank, bool changed) {
    for (std::size_t slot = first_slot_[rank]; slot < first_slot_[rank + 1]; ++slot) {
      SlotState& state = slots_[slot];
      if (state.doing != Doing::blocked) continue;
      const FlatEntry& entry = entry_of(slot);
      if (!ready(rank, entry)) continue;
      state.begin = now_;
      if (stream_of(slot).compute) {
        state.doing = Doing::running;
        begin_work(slot, alone(slot));
        changed = true;
      } else {
        state.doing = Doing::arrived;
        if (++lead_of(slot).arrivals == members_of(slot).size()) start_collective(members_of(slot));
      }
    }
    if (changed) settle(rank);
  }

  void start_collective(const std::vector<std::uint32_t>& members) {
    slots_[members.front()].arrivals = 0;
    for (const std::uint32_t member : members) {
      slots_[member].doing = Doing::running;
      slots_[member].share = 1;
    }
    begin_work(members.front(), alone(members.front()));
    for (const std::uint32_t member : members) settle(places_[member].rank);
  }

  void begin_work(std::size_t slot, double ns) {
    SlotState& state = slots_[slot];
    state.alone = state.remaining = ns;
    state.rate = 1;
    state.updated = now_;
    queue_.set(slot, now_ + ns);
  }

  /// Time of a slot's entry alone in this step; for a collective, the slot is its group's first member.
  double alone(std::size_t slot) const {
    const std::size_t rank = places_[slot].rank;
    const FlatEntry& entry = entry_of(slot);
    const double ns = rank == 0 && stream_of(slot).compute ? entry.ns * options_.slow_rank : entry.ns;
    if (sigma_ == 0) return ns;
    const PhiloxBlock words = philox_quad(options_.seed, static_cast<std::uint32_t>(step_), entry.task, rank);
    const double u = (static_cast<double>(words[0]) + 1) * 0x1p-32, v = static_cast<double>(words[1]) * 0x1p-32;
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);  // Box and Muller
    return ns * std::exp(mean_ + sigma_ * normal);
  }

  void finish(std::size_t slot) {
    queue_.remove(slot);
    if (stream_of(slot).compute) {
      complete(slot);
      advance(places_[slot].rank, true);
      return;
    }
    const std::vector<std::uint32_t>& members = members_of(slot);
    for (const std::uint32_t member : members) complete(member);
    for (const std::uint32_t member : members) advance(places_[member].rank, true);
  }

  void complete(std::size_t slot) {
    SlotState& state = slots_[slot];
    const Place at = places_[slot];
    if (at.rank < ranks_result_->size()) {
      SimulatedRank& result = (*ranks_result_)[at.rank];
      result.steps.back().times[at.stream][state.next] = {std::llround(state.begin), std::llround(now_)};
      if (stream_of(slot).compute) result.contention_ns += std::max(0.0, now_ - state.begin - state.alone);
    }
    ++state.next;
    ++events_;
    --left_;
    state.doing = state.next < stream_of(slot).entries.size() ? Doing::blocked : Doing::drained;
  }

  // ---- rates

  static bool communicates(const FlatStream& stream, const SlotState& state) {
    return !stream.compute && !stream.local && state.doing == Doing::running;
  }

  /// With messages, the directions of a link are shared by themselves: a collective uses both.
  void use_link(const FlatStream& stream, double use) {
    if (stream.sends) on_link_.add(stream.link, use);
    if (stream.receives && program_.has_messages()) on_link_.add(program_.links() + stream.link, use);
  }
  double link_rate(const FlatStream& stream, double use) const {
    if (!program_.has_messages()) return on_link_.rate(stream.link, use);
    const double out = stream.sends ? on_link_.rate(stream.link, use) : 1;
    return stream.receives ? std::min(out, on_link_.rate(program_.links() + stream.link, use)) : out;
  }

  /// Recomputes the rates of a rank's running entries after an entry started or ended there, and those of the ranks
  /// with which it shares cores.
  void settle(std::size_t rank) {
    if (pool_of_[rank] == kNoGroup) {
      settle_transports(rank, 1);
    } else {
      const cost::CorePool& pool = options_.core_pools[pool_of_[rank]];
      const double share = share_of(pool);
      for (const std::int64_t member : pool.ranks) settle_transports(static_cast<std::size_t>(member), share);
    }
    settle_computations(rank);
  }

  /// `share`: of its cores that the rank gets. While it computes, its transports progress between slices of its tasks,
  /// so they get no more.
  void settle_transports(std::size_t rank, double share) {
    const std::size_t begin = first_slot_[rank], end = first_slot_[rank + 1];
    on_link_.clear();
    bool communicating = false, computing = false;
    for (std::size_t slot = begin; slot < end; ++slot) {
      const FlatStream& stream = stream_of(slot);
      if (slots_[slot].doing != Doing::running || stream.local) continue;
      (stream.compute ? computing : communicating) = true;
      if (!stream.compute) use_link(stream, entry_of(slot).use);
    }
    if (communicating) {
      on_link_.divide();
      double wanted = 0;  // cores, by all transports
      for (std::size_t slot = begin; slot < end; ++slot) {
        const FlatStream& stream = stream_of(slot);
        if (!communicates(stream, slots_[slot])) continue;
        const FlatEntry& entry = entry_of(slot);
        wanted += entry.cpu * link_rate(stream, entry.use);
      }
      const double granted = wanted > machine_.cores ? machine_.cores / wanted : 1;
      for (std::size_t slot = begin; slot < end; ++slot) {
        const FlatStream& stream = stream_of(slot);
        if (!communicates(stream, slots_[slot])) continue;
        // offer() may settle other ranks, but only on a shared_cores machine, and then only their computations, which
        // don't overwrite on_link_.
        const FlatEntry& entry = entry_of(slot);
        const double beside = computing ? entry.beside * share : 1;
        offer(slot, std::min(beside, granted) * link_rate(stream, entry.use));
      }
    }
  }

  /// `share` is the rate that a slot's rank allows its collective, which runs at the lowest rate of its members.
  void offer(std::size_t slot, double share) {
    SlotState& state = slots_[slot];
    const double before = state.share;
    if (share == before) return;
    state.share = share;
    const std::vector<std::uint32_t>& members = members_of(slot);
    SlotState& lead = slots_[members.front()];
    double rate = std::min(share, lead.rate);
    if (share > before && before == lead.rate) {
      rate = share;
      for (const std::uint32_t member : members) rate = std::min(rate, slots_[member].share);
    }
    if (!set_rate(members.front(), rate) || !machine_.shared_cores) return;
    for (const std::uint32_t member : members) {
      if (places_[member].rank != places_[slot].rank) settle_computations(places_[member].rank);
    }
  }

  /// Of a rank, and of the ranks with which it shares cores.
  void settle_computations(std::size_t rank) {
    if (pool_of_[rank] == kNoGroup) return settle_own_computations(rank, 1);
    const cost::CorePool& pool = options_.core_pools[pool_of_[rank]];
    const double share = share_of(pool);
    for (const std::int64_t member : pool.ranks) settle_own_computations(static_cast<std::size_t>(member), share);
  }

  /// The share of its cores that each rank of the pool gets.
  double share_of(const cost::CorePool& pool) const {
    double wanted = 0;
    for (const std::int64_t member : pool.ranks) {
      const Load load = load_of(static_cast<std::size_t>(member));
      wanted += load.computing > 0 ? machine_.cores : std::min(machine_.cores, load.taken);
    }
    const auto cores = static_cast<double>(pool.cores);
    return wanted > cores ? cores / wanted : 1;
  }

  /// Of a rank: the number of its running computations, and the cores that its transports take.
  struct Load {
    int computing = 0;
    double taken = 0;
  };
  Load load_of(std::size_t rank) const {
    Load load;
    for (std::size_t slot = first_slot_[rank]; slot < first_slot_[rank + 1]; ++slot) {
      if (slots_[slot].doing != Doing::running) continue;
      if (stream_of(slot).compute) {
        ++load.computing;
      } else if (machine_.shared_cores && !stream_of(slot).local) {
        load.taken += entry_of(slot).cpu * lead_of(slot).rate;
      }
    }
    return load;
  }

  /// `share`: of its cores that the rank gets.
  void settle_own_computations(std::size_t rank, double share) {
    const std::size_t begin = first_slot_[rank], end = first_slot_[rank + 1];
    const FlatClass& flat = class_of(rank);
    const auto [computing, taken] = load_of(rank);
    if (computing == 0) return;
    double granted = 1;
    if (machine_.shared_cores) {
      const double wanted = machine_.cores * computing / static_cast<double>(flat.compute_streams);
      granted = std::min(1.0, std::max(0.0, machine_.cores - taken) / wanted);
    }
    for (std::size_t slot = begin; slot < end; ++slot) {
      if (!stream_of(slot).compute || slots_[slot].doing != Doing::running) continue;
      const std::uint32_t kind = entry_of(slot).kind;
      double factor = 1;
      for (std::size_t other = begin; other < end; ++other) {
        if (!communicates(stream_of(other), slots_[other])) continue;
        factor = std::max(factor, flat.slowdowns.factor(kind, entry_of(other).kind));
      }
      set_rate(slot, share * granted / factor);
    }
  }

  bool set_rate(std::size_t slot, double rate) {
    SlotState& state = slots_[slot];
    if (state.rate == rate) return false;
    state.remaining = std::max(0.0, state.remaining - state.rate * (now_ - state.updated));
    state.updated = now_;
    state.rate = rate;
    queue_.set(slot, state.remaining == 0 ? now_ : rate == 0 ? kNever : now_ + state.remaining / rate);
    return true;
  }

  // ---- the message about a deadlock

  std::string task_name(std::size_t slot, std::size_t entry) const {
    const plan::Plan& plan = *class_of(places_[slot].rank).plan;
    const plan::StreamPlan& stream = plan.streams[places_[slot].stream];
    return fmt::format("'{}' ({})", plan.graph->task(stream.entries[entry].task).name, stream.stream.name);
  }

  /// "rank 3"; of a pipeline whose stages' ranks are alike, "stage 3".
  std::string rank_name(std::size_t rank) const { return fmt::format("{} {}", alike_ ? "stage" : "rank", rank); }

  std::string standstill() const {
    const bool several = program_.classes().size() > 1;
    std::string text = fmt::format("the plan{} of policy '{}' deadlock{}:", several ? "s" : "",
                                   program_.classes().front().plan->policy, several ? "" : "s");
    int told = 0;
    for (std::size_t slot = 0; slot < slots_.size() && told < 8; ++slot) {
      const std::size_t rank = places_[slot].rank;
      const SlotState& state = slots_[slot];
      if (state.doing == Doing::drained) continue;
      ++told;
      text += "\n  ";
      if (ranks_ > 1) text += rank_name(rank) + ": ";
      text += task_name(slot, state.next);
      if (state.doing == Doing::blocked) {
        const FlatEntry& entry = entry_of(slot);
        for (std::uint32_t i = entry.first_wait; i < entry.first_wait + entry.waits; ++i) {
          const FlatWait& wait = program_.waits()[i];
          if (slots_[first_slot_[rank] + wait.stream].next > wait.entry) continue;
          text += " waits for " + task_name(first_slot_[rank] + wait.stream, wait.entry);
          break;
        }
      } else if (state.doing == Doing::arrived) {
        for (const std::uint32_t member : members_of(slot)) {
          if (slots_[member].doing == Doing::arrived && slots_[member].next == state.next) continue;
          text += " waits for " + rank_name(places_[member].rank);
          break;
        }
      } else {
        text += " gets no time";
      }
    }
    return text;
  }

  static constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();

  /// The rank and the stream of a slot.
  struct Place {
    std::uint32_t rank = 0, stream = 0;
  };

  const cost::Machine& machine_;
  const SimulationOptions& options_;
  bool alike_;
  std::size_t ranks_;  // simulated; if all ranks of a class are alike, one of each
  FlatProgram program_;
  std::vector<std::uint32_t> class_of_;     // by rank
  std::vector<std::size_t> first_slot_;     // by rank, and the number of slots at the end
  std::vector<Place> places_;               // by slot
  std::vector<const FlatStream*> streams_;  // by slot
  std::vector<SlotState> slots_;
  std::vector<std::vector<std::uint32_t>> groups_;  // slots of a collective's members by rank; of a message, the send's
                                                    // and the receive's
  std::vector<std::uint32_t> group_of_;             // by slot
  std::vector<std::uint32_t> pool_of_;              // by rank; kNoGroup: its cores are its own
  EventQueue queue_{0};                             // running slots; a collective in the slot of its first member
  cost::LinkShares on_link_{0};                     // of the rank that settle() is at
  double sigma_ = 0, mean_ = 0;
  int step_ = 0;
  double now_ = 0;
  std::size_t left_ = 0;
  std::int64_t events_ = 0;
  std::vector<SimulatedRank>* ranks_result_ = nullptr;
};

Simulation run(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
               const cost::Machine& machine, const SimulationOptions& options) {
  check_options(options);
  const std::vector<int> links =
      options.link_of_channel.empty() ? links_of_channels(machine, options.grid) : options.link_of_channel;
  for (std::size_t k = 0; k < plans.size(); ++k) check_plan(*plans[k], costs[k], links);
  return Simulator(plans, costs, machine, options, links).run();
}

}  // namespace

std::vector<int> links_of_channels(const cost::Machine& machine, const graph::Grid& grid) {
  std::vector<int> links(graph::kAxisChannels, 0);
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i] = cost::group_span(machine, grid, static_cast<graph::Channel>(i)).within_node() ? 0 : 1;
  }
  return links;
}

std::vector<int> links_of_channels(const graph::Graph& graph) {
  std::vector<int> links(graph.channel_count());
  for (std::size_t i = 0; i < links.size(); ++i) links[i] = static_cast<int>(i);
  std::map<std::string, int> by_name;
  for (const graph::ChannelInfo& info : graph.channels()) {
    int& link = links[static_cast<std::size_t>(info.channel)];
    if (!info.link.empty()) link = by_name.emplace(info.link, link).first->second;
  }
  return links;
}

Simulation simulate(const plan::Plan& plan, const cost::TaskCosts& costs, const cost::Machine& machine,
                    const SimulationOptions& options) {
  const plan::Plan* const one = &plan;
  return run(std::span(&one, 1), std::span(&costs, 1), machine, options);
}

Simulation simulate_together(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
                             const cost::Machine& machine, const SimulationOptions& options) {
  if (plans.empty() || plans.size() != costs.size() || static_cast<std::int64_t>(plans.size()) != options.grid.pipe) {
    throw std::logic_error(fmt::format("{} plans and {} costs for a pipeline of {} stages", plans.size(), costs.size(),
                                       options.grid.pipe));
  }
  return run(plans, costs, machine, options);
}

}  // namespace weft::simulate
