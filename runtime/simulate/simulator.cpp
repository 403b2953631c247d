#include "runtime/simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/philox.h"
#include "graph/meetings.h"
#include "runtime/cost/cost_model.h"
#include "runtime/time/engine.h"

namespace weft::simulate {
namespace {

std::size_t ranks_of(const SimulationOptions& options) {
  const std::vector<std::size_t>& ranks = options.class_ranks;
  return ranks.empty() ? static_cast<std::size_t>(options.grid.ranks())
                       : std::accumulate(ranks.begin(), ranks.end(), std::size_t{0});
}

void check_options(const SimulationOptions& options) {
  const auto require = [](bool holds, std::string_view what, double found, std::string_view expected) {
    if (!holds)
      throw UserError(fmt::format("{} = {} in a simulation", what, found), expected, "choose a value in this range");
  };
  require(options.steps >= 1, "steps", options.steps, "at least 1");
  require(options.noise >= 0 && options.noise <= 10, "noise", options.noise, "from 0 to 10");
  require(options.slow_rank > 0 && std::isfinite(options.slow_rank), "slow rank", options.slow_rank, "above 0");
  require(options.grid.ranks() >= 1, "ranks", static_cast<double>(options.grid.ranks()), "at least 1");
  require(options.slowed >= 0 && options.slowed < static_cast<std::int64_t>(ranks_of(options)), "slow rank's number",
          static_cast<double>(options.slowed), fmt::format("from 0 to {}", ranks_of(options) - 1));
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

const std::vector<plan::Entry>& entries_on(const plan::Plan& plan, graph::Channel channel) {
  static const std::vector<plan::Entry> kNone;
  const auto found = std::ranges::find_if(plan.streams, [&](const plan::StreamPlan& each) {
    return !each.stream.compute && each.stream.channel == channel;
  });
  return found == plan.streams.end() ? kNone : found->entries;
}

/// Of several classes, class k is stage k of a pipeline, and messages are paired: a Receive has its Send's use of the
/// link, and its Send's time for the share of cores.
std::vector<time::ClassLoads> loads_of(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
                                       const cost::Machine& machine, const std::vector<int>& links) {
  std::vector<time::ClassLoads> loads;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    std::vector<plan::Stream> streams;
    for (const plan::StreamPlan& each : plans[k]->streams) streams.push_back(each.stream);
    loads.emplace_back(*plans[k]->graph, streams, costs[k], &machine, links, plans.size() > 1);
  }
  // Opaque tasks that meet have equal times already.
  if (plans.size() == 1 || plans.front()->graph->has_opaque_tasks()) return loads;
  for (std::size_t k = 0; k < plans.size(); ++k) {
    for (const graph::Channel channel : {graph::Channel::send_next, graph::Channel::send_previous}) {
      const auto peer = static_cast<std::size_t>(
          graph::peer_stage(channel, static_cast<std::int64_t>(k), static_cast<std::int64_t>(plans.size())));
      const auto &sends = entries_on(*plans[k], channel),
                 &receives = entries_on(*plans[peer], graph::other_end(channel));
      if (sends.size() != receives.size()) {
        throw std::logic_error(fmt::format("stage {} sends {} messages on {}, and stage {} receives another number", k,
                                           sends.size(), graph::to_string(channel), peer));
      }
      for (std::size_t i = 0; i < sends.size(); ++i) {
        const std::size_t receive = receives[i].task.index();
        loads[peer].receive(receive, loads[k].tasks[sends[i].task.index()], costs[peer].cpu_ns[receive]);
      }
    }
  }
  return loads;
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
        identical_(options.noise == 0 && options.slow_rank == 1 && options.core_pools.empty()),
        ranks_(identical_ ? plans.size() : ranks_of(options)),
        plans_(plans),
        loads_(loads_of(plans, costs, machine, links)),
        class_of_(classes_of_ranks()),
        engine_(loads_, &machine, class_of_, options.core_pools),
        slots_(engine_.slots()) {
    make_groups();
    if (options.noise > 0) {
      sigma_ = std::sqrt(std::log1p(options.noise * options.noise));
      mean_ = -sigma_ * sigma_ / 2;  // of the logarithm, so that the factor's mean is 1
    }
  }

  Simulation run() {
    Simulation result;
    const std::size_t traced = identical_ || options_.traced_ranks <= 0
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
    for (std::uint32_t k = 0; k < plans_.size(); ++k) result.of_class.push_back(first_rank_of(k));
    return result;
  }

 private:
  // ---- slots: the streams of all ranks

  std::vector<std::uint32_t> classes_of_ranks() const {
    std::vector<std::uint32_t> classes(ranks_, 0);
    if (!identical_ && !options_.class_ranks.empty()) {
      for (std::uint32_t k = 1; k < options_.class_ranks.size(); ++k)
        std::fill(classes.begin() + static_cast<std::ptrdiff_t>(first_rank_of(k)), classes.end(), k);
      return classes;
    }
    for (std::uint32_t rank = 0; plans_.size() > 1 && rank < ranks_; ++rank) {
      classes[rank] = identical_ ? rank : static_cast<std::uint32_t>(graph::coordinates_of(options_.grid, rank).pipe);
    }
    return classes;
  }

  std::size_t first_rank_of(std::size_t of_class) const {
    if (identical_) return of_class;
    const auto& ranks = options_.class_ranks;
    if (ranks.empty())
      return static_cast<std::size_t>(graph::rank_of(options_.grid, {.pipe = static_cast<std::int64_t>(of_class)}));
    return std::accumulate(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(of_class), std::size_t{0});
  }

  void make_groups() {
    group_of_.resize(slots_.size());
    for (std::size_t slot = 0; slot < slots_.size(); ++slot)
      streams_.push_back(&plan_of(engine_.rank_of(slot)).streams[stream_of(slot)]);
    std::map<std::tuple<std::uint32_t, graph::Channel, std::int64_t>, std::uint32_t> known;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (engine_.stream(slot).compute) continue;
      const std::size_t rank = engine_.rank_of(slot);
      const graph::Channel channel = channel_of(slot);
      const std::vector<graph::ClassChannel> together =
          graph::channels_together(graph_of(rank), class_of_[rank], plans_.size(), channel);
      const graph::ClassChannel& first = together.front();
      const auto [found, is_new] =
          known.try_emplace({first.of_class, first.channel, color_of(rank, channel)}, groups_.size());
      if (is_new) groups_.emplace_back();
      group_of_[slot] = found->second;
      std::vector<std::uint32_t>& members = groups_[found->second];
      const bool leads = graph_of(rank).direction(channel) == graph::Direction::out;  // a message has its send's time
      members.insert(leads ? members.begin() : members.end(), static_cast<std::uint32_t>(slot));
    }
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (!engine_.stream(slot).compute) expect_both_ends(slot);
    }
  }

  void expect_both_ends(std::size_t slot) const {
    const std::size_t rank = engine_.rank_of(slot), members = members_of(slot).size();
    const graph::ChannelInfo* info = graph_of(rank).channel_info(channel_of(slot));
    if (info == nullptr || info->direction == graph::Direction::both || members == 2) return;
    throw UserError(
        fmt::format("on channel {}, rank {} exchanges messages with {} ranks", info->name, rank, members - 1),
        "classes of equally many ranks, of which the n-th of one meets the n-th of the other",
        "leave --noise and --slow-rank out: then one rank stands for each class");
  }

  /// Ranks with equal colours of channels that start together form a group. Where all ranks of a class are alike, the
  /// one that is simulated stands for its group's members in its class.
  std::int64_t color_of(std::size_t rank, graph::Channel channel) const {
    const auto number = static_cast<std::int64_t>(rank);
    if (identical_) return 0;
    const std::uint32_t k = class_of_[rank];
    if (const graph::ChannelInfo* info = graph_of(rank).channel_info(channel); info != nullptr && !info->groups.empty())
      return info->groups.at(rank - first_rank_of(k));
    if (graph_of(rank).direction(channel) == graph::Direction::out) return number;
    if (graph_of(rank).direction(channel) == graph::Direction::in)
      return graph::peer_rank(options_.grid, channel, number);
    return graph::group_color(options_.grid, channel, number);
  }

  const plan::Plan& plan_of(std::size_t rank) const { return *plans_[class_of_[rank]]; }
  const graph::Graph& graph_of(std::size_t rank) const { return *plan_of(rank).graph; }
  graph::Channel channel_of(std::size_t slot) const { return streams_[slot]->stream.channel; }
  const plan::Entry& entry_of(std::size_t slot) const { return streams_[slot]->entries[slots_[slot].next]; }
  const std::vector<std::uint32_t>& members_of(std::size_t slot) const { return groups_[group_of_[slot]]; }
  SlotState& lead_of(std::size_t slot) { return slots_[members_of(slot).front()]; }
  std::size_t stream_of(std::size_t slot) const { return slot - engine_.slot(engine_.rank_of(slot), 0); }
  std::size_t end_of(std::size_t rank) const { return engine_.slot(rank, plan_of(rank).streams.size()); }

  // ---- one step

  void run_step() {
    left_ = 0;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const std::size_t entries = streams_[slot]->entries.size();
      slots_[slot] = SlotState{};
      slots_[slot].doing = entries == 0 ? Doing::drained : Doing::blocked;
      left_ += entries;
    }
    for (std::size_t rank = 0; rank < ranks_result_->size(); ++rank) {
      SimulatedRank& result = (*ranks_result_)[rank];
      plan::StepTrace& trace = result.steps.emplace_back();
      trace.step = step_;
      for (const plan::StreamPlan& each : plan_of(rank).streams) trace.times.emplace_back(each.entries.size());
      result.contention_ns = 0;
    }
    for (std::size_t rank = 0; rank < ranks_; ++rank) advance(rank, false);
    while (engine_.next() < time::Engine::kNever) {
      engine_.advance(engine_.next());
      finish(engine_.first());
    }
    if (left_ > 0) throw RuntimeFault(deadlock());
  }

  /// The first wait of a rank's entry that doesn't hold; null if all do.
  const plan::Wait* awaited(std::size_t rank, const plan::Entry& entry) const {
    for (const plan::Wait& wait : entry.waits) {
      if (wait.distance == 0 && slots_[engine_.slot(rank, wait.stream.index())].next <= wait.entry) return &wait;
    }
    return nullptr;
  }

  /// Starts every entry that can start on a rank; `changed`: an entry has just ended there.
  void advance(std::size_t rank, bool changed) {
    for (std::size_t slot = engine_.slot(rank, 0); slot < end_of(rank); ++slot) {
      SlotState& state = slots_[slot];
      if (state.doing != Doing::blocked) continue;
      if (awaited(rank, entry_of(slot)) != nullptr) continue;
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
      engine_.join(members[i], entry_of(members[i]).task.value, members[i - 1]);
    }
    for (const std::uint32_t member : members) engine_.settle(engine_.rank_of(member));
  }

  void begin_work(std::size_t slot) {
    slots_[slot].doing = Doing::running;
    slots_[slot].alone = alone(slot);
    engine_.start(slot, entry_of(slot).task.value, slots_[slot].alone);
  }

  /// Time of a slot's entry alone in this step; for a collective, the slot is its group's first member.
  double alone(std::size_t slot) const {
    const std::size_t rank = engine_.rank_of(slot);
    const std::uint32_t task = entry_of(slot).task.value;
    double ns = loads_[class_of_[rank]].tasks[task].ns;
    const bool slow = rank == static_cast<std::size_t>(options_.slowed);
    if (slow && engine_.stream(slot).compute) ns *= options_.slow_rank;
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
    state.doing = state.next < streams_[slot]->entries.size() ? Doing::blocked : Doing::drained;
  }

  // ---- the message about a deadlock

  std::string task_name(std::size_t slot, std::size_t entry) const {
    const plan::StreamPlan& stream = *streams_[slot];
    return fmt::format("'{}' ({})", graph_of(engine_.rank_of(slot)).task(stream.entries[entry].task).name,
                       stream.stream.name);
  }

  /// "rank 3"; of a pipeline whose stages' ranks are identical, "stage 3".
  std::string rank_name(std::size_t rank) const { return fmt::format("{} {}", identical_ ? "stage" : "rank", rank); }

  std::string deadlock() const {
    const bool several = plans_.size() > 1;
    std::string text = fmt::format("the plan{} of policy '{}' deadlock{}:", several ? "s" : "", plans_.front()->policy,
                                   several ? "" : "s");
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
        if (const plan::Wait* wait = awaited(rank, entry_of(slot)); wait != nullptr)
          text += " waits for " + task_name(engine_.slot(rank, wait->stream.index()), wait->entry);
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
  bool identical_;
  std::size_t ranks_;                         // simulated; if all ranks of a class are identical, one of each
  std::span<const plan::Plan* const> plans_;  // by class
  std::vector<time::ClassLoads> loads_;       // by class
  std::vector<std::uint32_t> class_of_;       // by rank
  time::Engine engine_;
  std::vector<SlotState> slots_;
  std::vector<const plan::StreamPlan*> streams_;    // by slot
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

std::vector<int> links_of_channels(graph::Classes classes) {
  std::size_t count = 0;
  for (const auto& graph : classes) count = std::max(count, graph->channel_count());
  std::vector<int> links(count);
  std::iota(links.begin(), links.end(), 0);
  std::map<std::string, int> by_name;
  for (const auto& graph : classes) {
    for (const graph::ChannelInfo& info : graph->channels()) {
      const auto channel = static_cast<std::size_t>(info.channel);
      if (!info.link.empty()) links[channel] = by_name.emplace(info.link, links[channel]).first->second;
    }
  }
  return links;
}

Simulation simulate(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
                    const cost::Machine& machine, const SimulationOptions& options) {
  check_options(options);
  const std::size_t classes = options.class_ranks.empty() ? static_cast<std::size_t>(options.grid.pipe)  // by stage
                                                          : options.class_ranks.size();
  if (plans.empty() || plans.size() != costs.size() || plans.size() != classes) {
    throw std::logic_error(
        fmt::format("{} plans and {} costs for {} rank classes", plans.size(), costs.size(), classes));
  }
  const std::vector<int> links =
      options.link_of_channel.empty() ? links_of_channels(machine, options.grid) : options.link_of_channel;
  for (std::size_t k = 0; k < plans.size(); ++k) check_plan(*plans[k], costs[k], links);
  return Simulator(plans, costs, machine, options, links).run();
}

}  // namespace weft::simulate
