#include "runtime/simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/kind_slowdowns.h"
#include "runtime/cost/link_shares.h"
#include "runtime/simulate/event_queue.h"

namespace weft::simulate {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

void check_options(const plan::Plan& plan, const cost::TaskCosts& costs, const SimulationOptions& options) {
  const auto require = [](bool holds, std::string_view what, double found, std::string_view expected) {
    if (!holds)
      throw UserError(fmt::format("{} = {} in a simulation", what, found), expected, "choose a value in this range");
  };
  require(options.steps >= 1, "steps", options.steps, "at least 1");
  require(options.noise >= 0 && options.noise <= 10, "noise", options.noise, "from 0 to 10");
  require(options.slow_rank > 0 && std::isfinite(options.slow_rank), "slow rank", options.slow_rank, "above 0");
  require(options.grid.ranks() >= 1, "ranks", static_cast<double>(options.grid.ranks()), "at least 1");
  const std::size_t tasks = plan.graph->tasks().size();
  if (costs.ns.size() != tasks || costs.cpu_ns.size() != tasks ||
      (!costs.beside_ns.empty() && costs.beside_ns.size() != tasks) || costs.on_link().size() != tasks) {
    throw std::logic_error(fmt::format("{} costs for {} tasks", costs.ns.size(), tasks));
  }
  const std::size_t channels = plan.graph->channel_count();
  if (!options.link_of_channel.empty() && options.link_of_channel.size() != channels) {
    throw std::logic_error(fmt::format("{} links for {} channels", options.link_of_channel.size(), channels));
  }
}

/// An entry of a stream, with all data that its simulation needs.
struct FlatEntry {
  std::uint32_t task = 0, first_wait = 0, waits = 0;
  std::uint32_t kind = 0;  // of KindSlowdowns
  double ns = 0, cpu = 0;  // time alone; cores that its transport takes at full rate
  double beside = 1;       // rate of a collective while computations run
  double use = 1;          // part of its link that a collective uses when it runs alone
};

struct FlatStream {
  std::vector<FlatEntry> entries;
  bool compute = true;
  bool local = false;  // of the rank's own: at full rate, and without effect on other streams
  std::size_t channel = 0;
  std::size_t link = 0;
  std::vector<std::vector<std::uint32_t>> groups;  // groups of a communication stream: members in rank order
  std::vector<std::uint32_t> group_of;             // by rank
};

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
  Simulator(const plan::Plan& plan, const cost::TaskCosts& costs, const cost::Machine& machine,
            const SimulationOptions& options)
      : plan_(plan),
        machine_(machine),
        options_(options),
        alike_(options.noise == 0 && options.slow_rank == 1),
        ranks_(alike_ ? 1 : static_cast<std::size_t>(options.grid.ranks())),
        streams_(plan.streams.size()),
        slots_(ranks_ * streams_),
        slowdowns_(*plan.graph, &machine),
        queue_(slots_.size()) {
    flatten(costs);
    if (options.noise > 0) {
      sigma_ = std::sqrt(std::log1p(options.noise * options.noise));
      mean_ = -sigma_ * sigma_ / 2;  // of the logarithm, so that the factor's mean is 1
    }
  }

  Simulation run() {
    Simulation result;
    const std::size_t traced =
        options_.traced_ranks <= 0 ? ranks_ : std::min(ranks_, static_cast<std::size_t>(options_.traced_ranks));
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
  // ---- the plan as flat arrays

  void flatten(const cost::TaskCosts& costs) {
    const std::vector<int> links =
        options_.link_of_channel.empty() ? links_of_channels(machine_, options_.grid) : options_.link_of_channel;
    std::map<int, std::size_t> dense;
    flat_.resize(streams_);
    for (std::size_t s = 0; s < streams_; ++s) {
      const plan::StreamPlan& stream = plan_.streams[s];
      FlatStream& flat = flat_[s];
      flat.compute = stream.stream.compute;
      if (flat.compute) {
        ++compute_streams_;
      } else {
        flat.channel = static_cast<std::size_t>(stream.stream.channel);
        flat.local = plan_.graph->is_local(stream.stream.channel);
        flat.link = dense.emplace(links.at(flat.channel), dense.size()).first->second;
        make_groups(flat, stream.stream.channel);
      }
      for (const plan::Entry& entry : stream.entries) {
        const std::size_t task = entry.task.index();
        const auto first = static_cast<std::uint32_t>(waits_.size());
        for (const plan::Wait& wait : entry.waits) {
          if (wait.distance == 0) waits_.push_back({static_cast<std::uint32_t>(wait.stream.index()), wait.entry});
        }
        const double ns = costs.ns[task];
        const double cpu = machine_.shared_cores && ns > 0 ? costs.cpu_ns[task] / ns : 0;
        flat.entries.push_back({static_cast<std::uint32_t>(task), first,
                                static_cast<std::uint32_t>(waits_.size()) - first, slowdowns_.kind(task), ns, cpu});
        if (!costs.beside_ns.empty() && costs.beside_ns[task] > ns)
          flat.entries.back().beside = ns / costs.beside_ns[task];
        if (ns > 0) flat.entries.back().use = std::min(1.0, costs.on_link()[task] / ns);
      }
    }
    on_link_ = cost::LinkShares(dense.size());
  }

  void make_groups(FlatStream& flat, graph::Channel channel) const {
    flat.group_of.resize(ranks_);
    std::map<std::int64_t, std::uint32_t> by_color;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const std::int64_t color =
          alike_ ? 0 : graph::group_color(options_.grid, channel, static_cast<std::int64_t>(rank));
      const auto [found, is_new] = by_color.emplace(color, static_cast<std::uint32_t>(flat.groups.size()));
      if (is_new) flat.groups.emplace_back();
      flat.group_of[rank] = found->second;
      flat.groups[found->second].push_back(static_cast<std::uint32_t>(rank));
    }
  }

  // ---- one step

  void run_step() {
    left_ = 0;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const bool empty = flat_[slot % streams_].entries.empty();
      slots_[slot] = SlotState{};
      slots_[slot].doing = empty ? Doing::drained : Doing::blocked;
      left_ += flat_[slot % streams_].entries.size();
    }
    for (SimulatedRank& rank : *ranks_result_) {
      plan::StepTrace& trace = rank.steps.emplace_back();
      trace.step = step_;
      trace.times.resize(streams_);
      for (std::size_t s = 0; s < streams_; ++s) trace.times[s].resize(flat_[s].entries.size());
      rank.contention_ns = 0;
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
      if (slots_[rank * streams_ + waits_[i].stream].next <= waits_[i].entry) return false;
    }
    return true;
  }

  /// Starts every entry that can start on a rank; `changed`: an entry has just ended there.
  void advance(std::size_t rank, bool changed) {
    for (std::size_t s = 0; s < streams_; ++s) {
      SlotState& state = slots_[rank * streams_ + s];
      if (state.doing != Doing::blocked) continue;
      const FlatEntry& entry = flat_[s].entries[state.next];
      if (!ready(rank, entry)) continue;
      state.begin = now_;
      if (flat_[s].compute) {
        state.doing = Doing::running;
        begin_work(rank * streams_ + s, alone(rank, s, entry));
        changed = true;
      } else {
        state.doing = Doing::arrived;
        const std::vector<std::uint32_t>& members = members_of(rank, s);
        SlotState& lead = slots_[members.front() * streams_ + s];
        if (++lead.arrivals == members.size()) start_collective(members, s);
      }
    }
    if (changed) settle(rank);
  }

  void start_collective(const std::vector<std::uint32_t>& members, std::size_t s) {
    SlotState& lead = slots_[members.front() * streams_ + s];
    lead.arrivals = 0;
    for (const std::uint32_t rank : members) {
      slots_[rank * streams_ + s].doing = Doing::running;
      slots_[rank * streams_ + s].share = 1;
    }
    begin_work(members.front() * streams_ + s, alone(members.front(), s, flat_[s].entries[lead.next]));
    for (const std::uint32_t rank : members) settle(rank);
  }

  void begin_work(std::size_t slot, double ns) {
    SlotState& state = slots_[slot];
    state.alone = state.remaining = ns;
    state.rate = 1;
    state.updated = now_;
    queue_.set(slot, now_ + ns);
  }

  /// Time of an entry alone on a rank in this step; for a collective, `rank` is its group's first member.
  double alone(std::size_t rank, std::size_t s, const FlatEntry& entry) const {
    const double ns = rank == 0 && flat_[s].compute ? entry.ns * options_.slow_rank : entry.ns;
    if (sigma_ == 0) return ns;
    const PhiloxBlock words = philox_quad(options_.seed, static_cast<std::uint32_t>(step_), entry.task, rank);
    const double u = (static_cast<double>(words[0]) + 1) * 0x1p-32, v = static_cast<double>(words[1]) * 0x1p-32;
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);  // Box and Muller
    return ns * std::exp(mean_ + sigma_ * normal);
  }

  void finish(std::size_t slot) {
    const std::size_t rank = slot / streams_, s = slot % streams_;
    queue_.remove(slot);
    if (flat_[s].compute) {
      complete(rank, s);
      advance(rank, true);
      return;
    }
    const std::vector<std::uint32_t>& members = members_of(rank, s);
    for (const std::uint32_t member : members) complete(member, s);
    for (const std::uint32_t member : members) advance(member, true);
  }

  void complete(std::size_t rank, std::size_t s) {
    SlotState& state = slots_[rank * streams_ + s];
    if (rank < ranks_result_->size()) {
      SimulatedRank& result = (*ranks_result_)[rank];
      result.steps.back().times[s][state.next] = {std::llround(state.begin), std::llround(now_)};
      if (flat_[s].compute) result.contention_ns += std::max(0.0, now_ - state.begin - state.alone);
    }
    ++state.next;
    ++events_;
    --left_;
    state.doing = state.next < flat_[s].entries.size() ? Doing::blocked : Doing::drained;
  }

  const std::vector<std::uint32_t>& members_of(std::size_t rank, std::size_t s) const {
    return flat_[s].groups[flat_[s].group_of[rank]];
  }

  // ---- rates

  static bool communicates(const FlatStream& stream, const SlotState& state) {
    return !stream.compute && !stream.local && state.doing == Doing::running;
  }

  /// Recomputes the rates of a rank's running entries after an entry started or ended there.
  void settle(std::size_t rank) {
    SlotState* const states = &slots_[rank * streams_];
    on_link_.clear();
    bool communicating = false, computing = false;
    for (std::size_t s = 0; s < streams_; ++s) {
      if (states[s].doing != Doing::running || flat_[s].local) continue;
      (flat_[s].compute ? computing : communicating) = true;
      if (!flat_[s].compute) on_link_.add(flat_[s].link, flat_[s].entries[states[s].next].use);
    }
    if (communicating) {
      on_link_.divide();
      double wanted = 0;  // cores, by all transports
      for (std::size_t s = 0; s < streams_; ++s) {
        if (!communicates(flat_[s], states[s])) continue;
        const FlatEntry& entry = flat_[s].entries[states[s].next];
        wanted += entry.cpu * on_link_.rate(flat_[s].link, entry.use);
      }
      const double granted = wanted > machine_.cores ? machine_.cores / wanted : 1;
      for (std::size_t s = 0; s < streams_; ++s) {
        if (!communicates(flat_[s], states[s])) continue;
        // offer() may settle other ranks, but only on a shared_cores machine, and then only their computations, which
        // don't overwrite on_link_.
        const FlatEntry& entry = flat_[s].entries[states[s].next];
        const double beside = computing ? entry.beside : 1;
        offer(rank, s, std::min(beside, granted) * on_link_.rate(flat_[s].link, entry.use));
      }
    }
    settle_computations(rank);
  }

  /// `share` is the rate that `rank` allows its collective on stream s, which runs at the lowest rate of its members.
  void offer(std::size_t rank, std::size_t s, double share) {
    SlotState& state = slots_[rank * streams_ + s];
    const double before = state.share;
    if (share == before) return;
    state.share = share;
    const std::vector<std::uint32_t>& members = members_of(rank, s);
    const std::size_t lead_slot = members.front() * streams_ + s;
    SlotState& lead = slots_[lead_slot];
    double rate = std::min(share, lead.rate);
    if (share > before && before == lead.rate) {
      rate = share;
      for (const std::uint32_t member : members) rate = std::min(rate, slots_[member * streams_ + s].share);
    }
    if (!set_rate(lead_slot, rate) || !machine_.shared_cores) return;
    for (const std::uint32_t member : members) {
      if (member != rank) settle_computations(member);
    }
  }

  void settle_computations(std::size_t rank) {
    const SlotState* const states = &slots_[rank * streams_];
    int computing = 0;
    double taken = 0;  // cores
    for (std::size_t s = 0; s < streams_; ++s) {
      if (states[s].doing != Doing::running) continue;
      if (flat_[s].compute) {
        ++computing;
      } else if (machine_.shared_cores && !flat_[s].local) {
        taken += flat_[s].entries[states[s].next].cpu * slots_[members_of(rank, s).front() * streams_ + s].rate;
      }
    }
    if (computing == 0) return;
    double granted = 1;
    if (machine_.shared_cores) {
      const double wanted = machine_.cores * computing / static_cast<double>(compute_streams_);
      granted = std::min(1.0, std::max(0.0, machine_.cores - taken) / wanted);
    }
    for (std::size_t s = 0; s < streams_; ++s) {
      if (!flat_[s].compute || states[s].doing != Doing::running) continue;
      const std::uint32_t kind = flat_[s].entries[states[s].next].kind;
      double factor = 1;
      for (std::size_t c = 0; c < streams_; ++c) {
        if (!communicates(flat_[c], states[c])) continue;
        factor = std::max(factor, slowdowns_.factor(kind, flat_[c].entries[states[c].next].kind));
      }
      set_rate(rank * streams_ + s, granted / factor);
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

  std::string task_name(std::size_t s, std::size_t entry) const {
    return fmt::format("'{}' ({})", plan_.graph->task(plan_.streams[s].entries[entry].task).name,
                       plan_.streams[s].stream.name);
  }

  std::string standstill() const {
    std::string text = fmt::format("the plan of policy '{}' deadlocks:", plan_.policy);
    int told = 0;
    for (std::size_t slot = 0; slot < slots_.size() && told < 8; ++slot) {
      const std::size_t rank = slot / streams_, s = slot % streams_;
      const SlotState& state = slots_[slot];
      if (state.doing == Doing::drained) continue;
      ++told;
      text += "\n  ";
      if (ranks_ > 1) text += fmt::format("rank {}: ", rank);
      text += task_name(s, state.next);
      if (state.doing == Doing::blocked) {
        const FlatEntry& entry = flat_[s].entries[state.next];
        for (std::uint32_t i = entry.first_wait; i < entry.first_wait + entry.waits; ++i) {
          if (slots_[rank * streams_ + waits_[i].stream].next > waits_[i].entry) continue;
          text += " waits for " + task_name(waits_[i].stream, waits_[i].entry);
          break;
        }
      } else if (state.doing == Doing::arrived) {
        for (const std::uint32_t member : members_of(rank, s)) {
          const SlotState& other = slots_[member * streams_ + s];
          if (other.doing == Doing::arrived) continue;
          text += fmt::format(" waits for rank {}", member);
          break;
        }
      } else {
        text += " gets no time";
      }
    }
    return text;
  }

  struct FlatWait {
    std::uint32_t stream = 0, entry = 0;
  };

  const plan::Plan& plan_;
  const cost::Machine& machine_;
  const SimulationOptions& options_;
  bool alike_;
  std::size_t ranks_, streams_;
  std::vector<SlotState> slots_;  // by rank and stream
  cost::KindSlowdowns slowdowns_;
  EventQueue queue_;  // running slots; a collective in the slot of its first member
  std::vector<FlatStream> flat_;
  std::vector<FlatWait> waits_;
  std::size_t compute_streams_ = 0;
  cost::LinkShares on_link_{0};  // of the rank that settle() is at
  double sigma_ = 0, mean_ = 0;
  int step_ = 0;
  double now_ = 0;
  std::size_t left_ = 0;
  std::int64_t events_ = 0;
  std::vector<SimulatedRank>* ranks_result_ = nullptr;
};

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
  check_options(plan, costs, options);
  return Simulator(plan, costs, machine, options).run();
}

}  // namespace weft::simulate
