#include "runtime/simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "runtime/cost/cost_model.h"
#include "runtime/simulate/flat_program.h"
#include "runtime/time/engine.h"

namespace weft::simulate {
namespace {

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
  double alone = 0;            // in ns
  std::uint32_t arrivals = 0;  // of a collective, at the first member
};

class Simulator {
 public:
  /// `links` by channel.
  Simulator(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
            const cost::Machine& machine, const SimulationOptions& options, const std::vector<int>& links)
      : options_(options),
        alike_(options.noise == 0 && options.slow_rank == 1 && options.core_pools.empty()),
        ranks_(alike_ ? plans.size() : static_cast<std::size_t>(options.grid.ranks())),
        program_(plans, costs, machine, links),
        class_of_(classes_of_ranks()),
        engine_(program_.loads(), &machine, class_of_, options.core_pools),
        slots_(engine_.slots()) {
    make_groups();
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
      const double begin = engine_.now();
      run_step();
      result.step_ns = engine_.now() - begin;
      for (SimulatedRank& rank : result.ranks) {
        rank.steps.back().begin = std::llround(begin);
        rank.steps.back().end = std::llround(engine_.now());
      }
    }
    result.events = events_;
    return result;
  }

 private:
  // ---- slots: the streams of all ranks

  std::vector<std::uint32_t> classes_of_ranks() const {
    std::vector<std::uint32_t> classes(ranks_, 0);
    for (std::uint32_t rank = 0; program_.classes().size() > 1 && rank < ranks_; ++rank) {
      classes[rank] = alike_ ? rank : static_cast<std::uint32_t>(graph::coordinates_of(options_.grid, rank).pipe);
    }
    return classes;
  }

  void make_groups() {
    group_of_.resize(slots_.size());
    std::map<std::pair<graph::Channel, std::int64_t>, std::uint32_t> by_color;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const time::StreamLoad& stream = engine_.stream(slot);
      const std::size_t rank = engine_.rank_of(slot);
      streams_.push_back(&class_of(rank).streams[stream_of(slot)]);
      const graph::Channel channel = class_of(rank).plan->streams[stream_of(slot)].stream.channel;
      if (stream.compute || (!stream.sends && stream.receives)) continue;  // a receive joins its send
      if (stream.sends && !stream.receives) {
        const std::size_t peer = peer_of(rank, channel);
        const std::size_t other = engine_.slot(peer, program_.stream_of(class_of_[peer], graph::other_end(channel)));
        group_of_[slot] = group_of_[other] = static_cast<std::uint32_t>(groups_.size());
        groups_.push_back({static_cast<std::uint32_t>(slot), static_cast<std::uint32_t>(other)});
        continue;
      }
      const auto [found, is_new] = by_color.emplace(std::pair(channel, color_of(rank, channel)), groups_.size());
      if (is_new) groups_.emplace_back();
      group_of_[slot] = found->second;
      groups_[found->second].push_back(static_cast<std::uint32_t>(slot));
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
  const FlatEntry& entry_of(std::size_t slot) const { return (*streams_[slot])[slots_[slot].next]; }
  const std::vector<std::uint32_t>& members_of(std::size_t slot) const { return groups_[group_of_[slot]]; }
  SlotState& lead_of(std::size_t slot) { return slots_[members_of(slot).front()]; }
  std::size_t stream_of(std::size_t slot) const { return slot - engine_.slot(engine_.rank_of(slot), 0); }
  std::size_t end_of(std::size_t rank) const { return engine_.slot(rank, class_of(rank).streams.size()); }

  // ---- one step

  void run_step() {
    left_ = 0;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const std::size_t entries = streams_[slot]->size();
      slots_[slot] = SlotState{};
      slots_[slot].doing = entries == 0 ? Doing::drained : Doing::blocked;
      left_ += entries;
    }
    for (std::size_t rank = 0; rank < ranks_result_->size(); ++rank) {
      SimulatedRank& result = (*ranks_result_)[rank];
      plan::StepTrace& trace = result.steps.emplace_back();
      trace.step = step_;
      for (const std::vector<FlatEntry>& stream : class_of(rank).streams) trace.times.emplace_back(stream.size());
      result.contention_ns = 0;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) advance(rank, false);
    while (engine_.next() < time::Engine::kNever) {
      engine_.advance(engine_.next());
      finish(engine_.first());
    }
    if (left_ > 0) throw RuntimeFault(standstill());
  }

  bool ready(std::size_t rank, const FlatEntry& entry) const {
    for (std::uint32_t i = entry.first_wait; i < entry.first_wait + entry.waits; ++i) {
      const FlatWait& wait = program_.waits()[i];
      if (slots_[engine_.slot(rank, wait.stream)].next <= wait.entry) return false;
    }
    return true;
  }

  /// Starts every entry that can start on a rank; `changed`: an entry has just ended there.
  void advance(std::size_t rank, bool changed) {
    for (std::size_t slot = engine_.slot(rank, 0); slot < end_of(rank); ++slot) {
      SlotState& state = slots_[slot];
      if (state.doing != Doing::blocked) continue;
      const FlatEntry& entry = entry_of(slot);
      if (!ready(rank, entry)) continue;
      state.begin = engine_.now();
      if (engine_.stream(slot).compute) {
        begin_work(slot);
        changed = true;
      } else {
        state.doing = Doing::arrived;
        if (++lead_of(slot).arrivals == members_of(slot).size()) start_collective(members_of(slot));
      }
    }
    if (changed) engine_.settle(rank);
  }

  void start_collective(const std::vector<std::uint32_t>& members) {
    slots_[members.front()].arrivals = 0;
    begin_work(members.front());
    for (std::size_t i = 1; i < members.size(); ++i) {
      slots_[members[i]].doing = Doing::running;
      engine_.join(members[i], entry_of(members[i]).task, members[i - 1]);
    }
    for (const std::uint32_t member : members) engine_.settle(engine_.rank_of(member));
  }

  void begin_work(std::size_t slot) {
    slots_[slot].doing = Doing::running;
    slots_[slot].alone = alone(slot);
    engine_.start(slot, entry_of(slot).task, slots_[slot].alone);
  }

  /// Time of a slot's entry alone in this step; for a collective, the slot is its group's first member.
  double alone(std::size_t slot) const {
    const std::size_t rank = engine_.rank_of(slot);
    const std::uint32_t task = entry_of(slot).task;
    double ns = program_.loads()[class_of_[rank]].tasks[task].ns;
    if (rank == 0 && engine_.stream(slot).compute) ns *= options_.slow_rank;
    if (sigma_ == 0) return ns;
    const PhiloxBlock words = philox_quad(options_.seed, static_cast<std::uint32_t>(step_), task, rank);
    const double u = (static_cast<double>(words[0]) + 1) * 0x1p-32, v = static_cast<double>(words[1]) * 0x1p-32;
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);  // Box and Muller
    return ns * std::exp(mean_ + sigma_ * normal);
  }

  void finish(std::size_t slot) {
    engine_.end(slot);
    if (engine_.stream(slot).compute) {
      complete(slot);
      advance(engine_.rank_of(slot), true);
      return;
    }
    const std::vector<std::uint32_t>& members = members_of(slot);
    for (const std::uint32_t member : members) complete(member);
    for (const std::uint32_t member : members) advance(engine_.rank_of(member), true);
  }

  void complete(std::size_t slot) {
    SlotState& state = slots_[slot];
    const std::size_t rank = engine_.rank_of(slot);
    if (rank < ranks_result_->size()) {
      const double now = engine_.now();
      SimulatedRank& result = (*ranks_result_)[rank];
      result.steps.back().times[stream_of(slot)][state.next] = {std::llround(state.begin), std::llround(now)};
      if (engine_.stream(slot).compute) result.contention_ns += std::max(0.0, now - state.begin - state.alone);
    }
    ++state.next;
    ++events_;
    --left_;
    state.doing = state.next < streams_[slot]->size() ? Doing::blocked : Doing::drained;
  }

  // ---- the message about a deadlock

  std::string task_name(std::size_t slot, std::size_t entry) const {
    const plan::Plan& plan = *class_of(engine_.rank_of(slot)).plan;
    const plan::StreamPlan& stream = plan.streams[stream_of(slot)];
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
      const std::size_t rank = engine_.rank_of(slot);
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
          if (slots_[engine_.slot(rank, wait.stream)].next > wait.entry) continue;
          text += " waits for " + task_name(engine_.slot(rank, wait.stream), wait.entry);
          break;
        }
      } else if (state.doing == Doing::arrived) {
        for (const std::uint32_t member : members_of(slot)) {
          if (slots_[member].doing == Doing::arrived && slots_[member].next == state.next) continue;
          text += " waits for " + rank_name(engine_.rank_of(member));
          break;
        }
      } else {
        text += " gets no time";
      }
    }
    return text;
  }

  const SimulationOptions& options_;
  bool alike_;
  std::size_t ranks_;  // simulated; if all ranks of a class are alike, one of each
  FlatProgram program_;
  std::vector<std::uint32_t> class_of_;  // by rank
  time::Engine engine_;
  std::vector<SlotState> slots_;
  std::vector<const std::vector<FlatEntry>*> streams_;  // by slot
  std::vector<std::vector<std::uint32_t>> groups_;  // slots of a collective's members by rank; of a message, the send's
                                                    // and the receive's
  std::vector<std::uint32_t> group_of_;             // by slot of a communication stream
  double sigma_ = 0, mean_ = 0;
  int step_ = 0;
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

Simulation simulate(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
                    const cost::Machine& machine, const SimulationOptions& options) {
  check_options(options);
  if (plans.empty() || plans.size() != costs.size() || static_cast<std::int64_t>(plans.size()) != options.grid.pipe) {
    throw std::logic_error(fmt::format("{} plans and {} costs for a pipeline of {} stages", plans.size(), costs.size(),
                                       options.grid.pipe));
  }
  const std::vector<int> links =
      options.link_of_channel.empty() ? links_of_channels(machine, options.grid) : options.link_of_channel;
  for (std::size_t k = 0; k < plans.size(); ++k) check_plan(*plans[k], costs[k], links);
  return Simulator(plans, costs, machine, options, links).run();
}

}  // namespace weft::simulate
