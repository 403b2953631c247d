#include "runtime/simulate/remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "runtime/policy/scheduling/program_order.h"

namespace weft::simulate {
namespace {

/// An order that is being changed.
class Reordering {
 public:
  Reordering(const graph::Graph& graph, plan::Order& order) : graph_(graph), order_(order) {
    place_.resize(order.sequence.size());
    number(0, place_.size());
  }

  /// With `earlier`, moves `task` to before `anchor`, together with the tasks that lead to it; else to after `anchor`,
  /// together with the tasks that need it. False if `anchor` is one of these tasks.
  bool move(graph::TaskId task, graph::TaskId anchor, bool earlier) {
    const std::size_t first = place(earlier ? anchor : task), last = place(earlier ? task : anchor);
    if (last <= first) return true;
    std::vector<bool> goes(place_.size(), false);
    goes[task.index()] = true;
    for (std::size_t i = 0; i <= last - first; ++i) {
      const graph::TaskId each = order_.sequence[earlier ? last - i : first + i].task;
      if (!goes[each.index()]) continue;
      const auto along = [&](const graph::Edge& edge) {
        if (edge.distance == 0) goes[(earlier ? edge.from : edge.to).index()] = true;
      };
      if (earlier) std::ranges::for_each(graph_.in_edges(each), along);
      if (!earlier) std::ranges::for_each(graph_.out_edges(each), along);
    }
    if (goes[anchor.index()]) return false;
    const auto begin = order_.sequence.begin() + static_cast<std::ptrdiff_t>(first);
    std::stable_partition(begin, order_.sequence.begin() + static_cast<std::ptrdiff_t>(last + 1),
                          [&](const plan::Placement& p) { return goes[p.task.index()] == earlier; });
    number(first, last + 1);
    return true;
  }

  void drop_edges_against_the_sequence() {
    std::erase_if(order_.added_edges,
                  [&](const graph::Edge& edge) { return edge.distance == 0 && place(edge.from) >= place(edge.to); });
  }

 private:
  std::size_t place(graph::TaskId task) const { return place_[task.index()]; }
  void number(std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) place_[order_.sequence[i].task.index()] = i;
  }

  const graph::Graph& graph_;
  plan::Order& order_;
  std::vector<std::size_t> place_;  // by task: its index in the sequence
};

constexpr std::size_t kMostSteps = 64;  // computations by which a task is moved, by doubling, before the ends are tried

std::string counted(std::size_t count, const std::string& what) {
  return count == 1 ? "one " + what : fmt::format("{} {}s", count, what);
}

/// A local task that reads what a collective wrote.
bool finishes(const graph::Graph& graph, graph::TaskId task) {
  return is_local(graph, task) && std::ranges::any_of(graph.in_edges(task), [&](const graph::Edge& edge) {
           return edge.distance == 0 && graph::is_collective(graph.task(edge.from).operation);
         });
}

/// The candidates for a group in the order of one simulated step.
class CandidateSearch {
 public:
  CandidateSearch(const SimulatedStep& step, const plan::Order& order, std::span<const ExposedCollective> members)
      : step_(step), order_(order), members_(members) {
    place_.resize(order.sequence.size());
    for (std::size_t i = 0; i < order.sequence.size(); ++i) {
      const graph::TaskId task = order.sequence[i].task;
      place_[task.index()] = i;
      before_.push_back(computations_.size());
      if (!step.collective(task)) computations_.push_back(task);
    }
    before_.push_back(computations_.size());
  }

  std::vector<Remedy> run() && {
    if (members_.front().late_ns() > kTick) add_earlier();
    add_later();
    add_local();
    add(RemedyKind::unblock, [&](const ExposedCollective& each) { return unblock(each); });
    for (const double share : {1.0, 2.0}) {
      add_computations_first({.share = share});
      add_computations_first({.collectives = true, .share = share});
    }
    add_computations_first({.same_pass = false});
    for (Remedy& candidate : list_) {
      std::set<graph::TaskId> moved;
      for (const OrderMove& move : candidate.moves) {
        const bool moves = move.kind == MoveKind::before || move.kind == MoveKind::after;
        if (moves && !step_.collective(move.task)) moved.insert(move.task);
      }
      candidate.computations += moved.size();
    }
    return std::move(list_);
  }

 private:
  /// The moves of one collective; without moves the candidate doesn't concern it.
  struct Own {
    std::vector<OrderMove> moves = {};
    std::string what = {};
    std::size_t computations = 0;  // number of computations that go along, without moves of their own
  };

  template <class Generator>
  void add(RemedyKind kind, const Generator& own) {
    Own worst = own(members_.front());
    if (worst.moves.empty()) return;
    Remedy candidate{.kind = kind, .what = std::move(worst.what), .worst = worst.moves};
    std::vector<const ExposedCollective*> in_order;
    for (const ExposedCollective& each : members_) in_order.push_back(&each);
    std::ranges::sort(in_order, {}, [&](const ExposedCollective* each) { return place(each->task); });
    for (const ExposedCollective* each : in_order) {
      const Own its = each == &members_.front() ? worst : own(*each);
      candidate.moves.insert(candidate.moves.end(), its.moves.begin(), its.moves.end());
      candidate.computations += its.computations;
      candidate.collectives += its.moves.empty() ? 0 : 1;
    }
    if (std::ranges::find(list_, candidate.moves, &Remedy::moves) == list_.end()) list_.push_back(std::move(candidate));
  }

  std::size_t place(graph::TaskId task) const { return place_[task.index()]; }
  /// Number of computations that come before a place.
  std::size_t before(std::size_t place) const { return before_[place]; }
  const std::string& name(std::size_t number) const { return step_.name(computations_[number]); }

  // ---- the collective earlier

  void add_earlier() {
    const graph::TaskId worst = members_.front().task;
    const std::size_t most = before(place(worst)) - std::min(before(place(worst)), least(worst));
    for (std::size_t steps = 1; steps < most && steps <= kMostSteps; steps *= 2)
      add(RemedyKind::issue_earlier, [&](const ExposedCollective& each) { return earlier(each, steps); });
    for (const std::size_t count : {1, 2, 4})
      add(RemedyKind::issue_earlier, [&](const ExposedCollective& each) { return with_collective(each, count); });
    for (const double share : {0.5, 1.0, 1.5, 2.0})
      add(RemedyKind::issue_earlier, [&](const ExposedCollective& each) { return to_hide(each, share); });
    add(RemedyKind::issue_earlier, [&](const ExposedCollective& each) {
      Own own = issue_at(each, least(each.task));
      own.what = fmt::format("issue it as soon as {}",
                             each.input.valid() ? step_.name(each.input) + " is done" : std::string("the step begins"));
      return own;
    });
    for (const std::size_t count : {1, 2, 4, 8})
      add(RemedyKind::pass_queue, [&](const ExposedCollective& each) { return pass(each, count); });
  }

  /// Number of computations up to the last of a task's inputs.
  std::size_t least(graph::TaskId task) const {
    std::size_t after = 0;
    for (const graph::Edge& edge : step_.graph.in_edges(task)) {
      if (edge.distance == 0) after = std::max(after, place(edge.from) + 1);
    }
    return before(after);
  }

  /// Before the computation of this number, and after the one before it.
  Own issue_at(const ExposedCollective& collective, std::size_t number) const {
    const graph::TaskId task = collective.task;
    const std::size_t now = before(place(task)), first = least(task);
    Own own;
    number = std::max(number, first);
    const bool held = std::ranges::any_of(
        order_.added_edges, [&](const graph::Edge& edge) { return edge.to == task && edge.distance == 0; });
    if (number > now || (number == now && !held)) return own;
    own.moves.push_back({MoveKind::release, task, {}});
    if (number < now) own.moves.push_back({MoveKind::before, task, computations_[number]});
    if (number > first) own.moves.push_back({MoveKind::wait, task, computations_[number - 1]});
    if (number < computations_.size()) own.what = fmt::format("issue it before {}", name(number));
    return own;
  }

  Own earlier(const ExposedCollective& collective, std::size_t computations) const {
    const std::size_t now = before(place(collective.task)), first = least(collective.task);
    if (now <= first) return {};
    const std::size_t number = std::max(first, now - std::min(now, computations));
    Own own = issue_at(collective, number);
    own.what = fmt::format("issue it {} earlier: before {}", counted(now - number, "computation"), name(number));
    return own;
  }

  Own to_hide(const ExposedCollective& collective, double share) const {
    const std::vector<bool> needs = descendants(step_.graph, collective.task);
    const std::size_t now = before(place(collective.task));
    std::size_t use = now;
    while (use < computations_.size() && !needs[computations_[use].index()]) ++use;
    if (use == computations_.size()) return {};
    double ns = 0;
    std::size_t number = use;
    while (number > 0 && ns < share * collective.alone_ns) ns += step_.costs.ns[computations_[--number].index()];
    if (number >= now) return {};
    Own own = issue_at(collective, number);
    if (!own.moves.empty()) {
      own.what += fmt::format(", {:.3f} ms of computations before {} needs it", ns * 1e-6, name(use));
    }
    return own;
  }

  /// The collective's predecessor on its stream, that many collectives earlier; invalid if there is none.
  graph::TaskId ahead(graph::TaskId collective, std::size_t collectives) const {
    const plan::Position at = step_.plan.position[collective.index()];
    if (at.entry < collectives) return {};
    return step_.plan.streams[at.stream.index()].entries[at.entry - collectives].task;
  }

  Own with_collective(const ExposedCollective& collective, std::size_t collectives) const {
    const graph::TaskId task = collective.task, other = ahead(task, collectives);
    if (!other.valid() || before(place(other)) < least(task) || before(place(other)) >= before(place(task))) return {};
    Own own;
    own.moves = {{MoveKind::release, task, {}}, {MoveKind::before, task, order_.sequence[place(other) + 1].task}};
    for (const graph::Edge& edge : order_.added_edges) {
      if (edge.to == other && edge.distance == 0) own.moves.push_back({MoveKind::wait, task, edge.from});
    }
    own.what = fmt::format("issue it right after {}, {} earlier on its stream", step_.name(other),
                           counted(collectives, "collective"));
    return own;
  }

  Own pass(const ExposedCollective& collective, std::size_t collectives) const {
    const graph::TaskId task = collective.task, other = ahead(task, collectives), last = ahead(task, 1);
    if (!other.valid() || step_.end(last) <= collective.ready_ns + kTick ||
        descendants(step_.graph, other)[task.index()])
      return {};
    std::vector<bool> leads(place_.size(), false);
    leads[task.index()] = true;
    Own own;
    for (std::size_t at = place(task) + 1; at-- > place(other);) {
      const graph::TaskId each = order_.sequence[at].task;
      if (!leads[each.index()]) continue;
      if (!step_.collective(each)) ++own.computations;
      for (const graph::Edge& edge : step_.graph.in_edges(each)) {
        if (edge.distance == 0) leads[edge.from.index()] = true;
      }
    }
    own.moves = {{MoveKind::release, task, {}}, {MoveKind::before, task, other}};
    own.what = fmt::format("issue it before {}", step_.name(other));
    if (own.computations > 0) own.what += fmt::format(", with {} that lead to it", counted(own.computations, "task"));
    return own;
  }

  // ---- the collective later

  void add_later() {
    for (const std::size_t steps : {1, 2, 4, 8})
      add(RemedyKind::issue_later, [&](const ExposedCollective& each) { return later(each, steps); });
    for (const bool first : {true, false})
      add(RemedyKind::issue_later, [&](const ExposedCollective& each) { return apart(each, first); });
  }

  Own later(const ExposedCollective& collective, std::size_t computations) const {
    const graph::TaskId task = collective.task;
    std::size_t use = order_.sequence.size();
    for (const graph::Edge& edge : step_.graph.out_edges(task)) {
      if (edge.distance == 0) use = std::min(use, place(edge.to));
    }
    const std::size_t now = before(place(task)), number = std::min(now + computations, before(use));
    if (number <= now) return {};
    const graph::TaskId last = computations_[number - 1];
    return {{{MoveKind::after, task, last}, {MoveKind::wait, task, last}},
            fmt::format("issue it {} later: after {}", counted(computations, "computation"), step_.name(last)),
            0};
  }

  /// Of two collectives that run beside each other, one waits for the other. With `first`, this one is waited for.
  Own apart(const ExposedCollective& collective, bool first) const {
    if (collective.duration_ns <= 1.05 * collective.alone_ns + kTick) return {};
    const graph::TaskId task = collective.task;
    const double begin = step_.begin(task), end = step_.end(task);
    graph::TaskId other;
    double most = 0;
    for (const graph::TaskId each : step_.plan.collectives) {
      if (step_.plan.position[each.index()].stream == step_.plan.position[task.index()].stream) continue;
      const double beside = std::min(end, step_.end(each)) - std::max(begin, step_.begin(each));
      if (beside <= most) continue;
      other = each;
      most = beside;
    }
    if (!other.valid()) return {};
    const graph::TaskId waits = first ? other : task, goes = first ? task : other;
    if (descendants(step_.graph, waits)[goes.index()]) return {};
    return {{{MoveKind::after, waits, goes}, {MoveKind::wait, waits, goes}},
            first ? fmt::format("issue {} when it is done", step_.name(other))
                  : fmt::format("issue it when {} is done", step_.name(other)),
            0};
  }

  // ---- local tasks, and waits of the policy

  void add_local() {
    const auto add_local_task = [&](const auto& own) { add(RemedyKind::local_task, own); };
    if (members_.front().cause != ExposureCause::local_task) return;
    for (std::size_t steps = 1; steps <= kMostSteps; steps *= 2) {
      add_local_task([&](const ExposedCollective& each) { return local_later(each, steps, 0); });
      add_local_task([&](const ExposedCollective& each) { return local_earlier(each, steps); });
    }
    for (const double share : {1.0, 2.0})
      add_local_task([&](const ExposedCollective& each) { return local_later(each, 1, share * each.alone_ns); });
    add_local_task([&](const ExposedCollective& each) {
      Own own = local_later(each, computations_.size(), 0);
      if (!own.moves.empty()) own.what = fmt::format("run {} at the end of the pass", step_.name(each.in_the_way));
      return own;
    });
  }

  /// After that many computations of the pass, and until those after it take `ns`; other local tasks go along.
  Own local_later(const ExposedCollective& collective, std::size_t computations, double ns) const {
    const graph::TaskId local = collective.in_the_way;
    if (collective.cause != ExposureCause::local_task || local == collective.input) return {};
    const graph::Phase phase = step_.graph.task(local).phase;
    std::vector<graph::TaskId> along = {local}, going = along;
    graph::TaskId last;
    std::size_t passed = 0;
    double passed_ns = 0;
    for (std::size_t number = before(place(local)) + 1; number < computations_.size(); ++number) {
      if (passed >= computations && passed_ns >= ns) break;
      const graph::TaskId task = computations_[number];
      if (step_.graph.task(task).phase != phase) continue;
      if (finishes(step_.graph, task)) {  // it would block the stream in its turn
        along.push_back(task);
        continue;
      }
      last = task;
      going = along;
      ++passed;
      passed_ns += step_.costs.ns[task.index()];
    }
    if (!last.valid()) return {};
    Own own{{{MoveKind::detach, collective.task, {}}}, "", 0};
    for (std::size_t i = going.size(); i-- > 0;) own.moves.push_back({MoveKind::after, going[i], last});
    const std::string more = going.size() == 1 ? "" : fmt::format(" and {} like it", going.size() - 1);
    own.what = fmt::format("run {}{} {} later: after {}", step_.name(local), more, counted(passed, "computation"),
                           step_.name(last));
    return own;
  }

  Own local_earlier(const ExposedCollective& collective, std::size_t computations) const {
    const graph::TaskId local = collective.in_the_way;
    if (collective.cause != ExposureCause::local_task || local != collective.input) return {};
    const std::size_t now = before(place(local)), first = least(local);
    if (now <= first) return {};
    const std::size_t number = std::max(first, now - std::min(now, computations));
    const graph::TaskId anchor = computations_[number];
    return {{{MoveKind::release, local, {}},
             {MoveKind::before, local, anchor},
             {MoveKind::release, collective.task, {}},
             {MoveKind::before, collective.task, anchor}},
            fmt::format("run {} {} earlier: before {}", step_.name(local), counted(now - number, "computation"),
                        step_.name(anchor)),
            0};
  }

  Own unblock(const ExposedCollective& collective) const {
    const graph::TaskId task = collective.task;
    const std::vector<bool> needs = descendants(step_.graph, task);
    std::string first;
    std::size_t count = 0;
    for (const graph::Edge& edge : order_.added_edges) {
      if (edge.from != task || edge.distance != 0 || needs[edge.to.index()]) continue;
      if (count++ == 0) first = step_.name(edge.to);
    }
    Own own;
    if (count > 0) {
      own.moves.push_back({MoveKind::detach, task, {}});
      own.what = fmt::format("don't let {}{} wait for it", first,
                             count == 1 ? std::string() : fmt::format(" and {} more", count - 1));
    }
    // A computation that could run meanwhile may wait for another collective, which waits for this one.
    const graph::TaskId next = collective.in_the_way;
    const bool waits = next.valid() && !step_.collective(next) && !needs[next.index()] &&
                       std::ranges::any_of(order_.added_edges, [&](const graph::Edge& edge) {
                         return edge.to == next && edge.distance == 0 && step_.collective(edge.from);
                       });
    if (collective.cause == ExposureCause::chosen && waits && place(next) > place(task)) {
      own.moves.push_back({MoveKind::release, next, {}});
      own.what = fmt::format("let {} wait for nothing but its data", step_.name(next));
    }
    return own;
  }

  // ---- computations while it runs

  /// Computations that could run while a collective does.
  struct Filling {
    std::vector<graph::TaskId> tasks = {};  // in the order of the sequence
    graph::TaskId before = {};              // the first computation that needs the collective
    graph::TaskId largest = {}, of_other_pass = {};
    double ns = 0;
  };
  /// Which computations may run while a collective does.
  struct FillingRule {
    bool same_pass = true;     // of the collective's own pass alone
    bool collectives = false;  // they may take along collectives that lead to them
    double share = 1;          // of the time for which it is exposed that they take at least, if there are enough
  };

  Filling filling(const ExposedCollective& collective, const plan::Order& order, const std::vector<bool>& moved,
                  const FillingRule& rule) const {
    Filling found;
    const std::vector<bool> needs = descendants(step_.graph, collective.task);
    const graph::Phase phase = step_.graph.task(collective.task).phase;
    const auto first = std::ranges::find_if(
        order.sequence, [&](const plan::Placement& p) { return needs[p.task.index()] && !step_.collective(p.task); });
    if (first == order.sequence.end()) return found;
    found.before = first->task;
    std::vector<bool> stays(needs.size(), false);
    double largest = 0;
    for (auto at = first; at != order.sequence.end() && found.ns < rule.share * collective.exposed_ns; ++at) {
      const graph::TaskId task = at->task;
      const bool other = step_.graph.task(task).phase != phase;
      bool goes = !needs[task.index()] && !(rule.same_pass && other) && !moved[task.index()];
      for (const graph::Edge& edge : step_.graph.in_edges(task)) {
        if (edge.distance == 0 && stays[edge.from.index()]) goes = false;
      }
      const bool is_collective = step_.collective(task);
      if (!goes || (is_collective && !rule.collectives)) {
        stays[task.index()] = true;
        continue;
      }
      if (is_collective) continue;  // it goes along with a computation that needs it
      const double ns = step_.costs.ns[task.index()];
      found.ns += ns;
      found.tasks.push_back(task);
      if (other && !found.of_other_pass.valid()) found.of_other_pass = task;
      if (ns <= largest) continue;
      largest = ns;
      found.largest = task;
    }
    if (found.ns <= 0) found.tasks.clear();
    return found;
  }

  void add_computations_first(const FillingRule& rule) {
    plan::Order order = order_;
    std::vector<bool> moved(order.sequence.size(), false);
    Remedy candidate{.kind = rule.same_pass ? RemedyKind::computations_first : RemedyKind::computations_moved};
    for (const ExposedCollective& each : members_) {
      const Filling filling = this->filling(each, order, moved, rule);
      const bool worst = &each == &members_.front();
      if (filling.tasks.empty() || (!rule.same_pass && !filling.of_other_pass.valid())) {
        if (worst) return;
        continue;
      }
      std::vector<OrderMove> moves;
      for (const graph::TaskId task : filling.tasks) {
        moved[task.index()] = true;
        moves.push_back({MoveKind::before, task, filling.before});
      }
      if (worst) {
        candidate.worst = moves;
        candidate.what = fmt::format("compute {:.3f} ms of tasks that don't need it ({}{}){} before {}, which needs it",
                                     filling.ns * 1e-6, step_.name(filling.largest), moves.size() == 1 ? "" : ", …",
                                     rule.collectives ? ", with the collectives that lead to them," : "",
                                     step_.name(filling.before));
        if (!rule.same_pass) {
          candidate.what = fmt::format(
              "move computations of the {} pass into the {} pass: {:.3f} ms a collective ({}{}) before {}",
              graph::to_string(step_.graph.task(filling.of_other_pass).phase),
              graph::to_string(step_.graph.task(each.task).phase), filling.ns * 1e-6, step_.name(filling.of_other_pass),
              moves.size() == 1 ? "" : ", …", step_.name(filling.before));
        }
      }
      ++candidate.collectives;
      candidate.moves.insert(candidate.moves.end(), moves.begin(), moves.end());
      apply(step_.graph, moves, order);
    }
    if (!candidate.moves.empty()) list_.push_back(std::move(candidate));
  }

  const SimulatedStep& step_;
  const plan::Order& order_;
  std::span<const ExposedCollective> members_;
  std::vector<Remedy> list_;
  std::vector<std::size_t> place_;           // by task: its index in the sequence
  std::vector<graph::TaskId> computations_;  // in the order of the sequence
  std::vector<std::size_t> before_;          // by place
};

}  // namespace

plan::Order order_of(const plan::Plan& plan) {
  plan::Order order;
  for (const plan::StreamPlan& stream : plan.streams) order.streams.push_back(stream.stream);
  order.reasons = plan.reasons;
  for (const graph::TaskId task : plan.sequence) {
    const plan::Position at = plan.position[task.index()];
    order.sequence.push_back({task, at.stream, plan.streams[at.stream.index()].entries[at.entry].reason});
  }
  for (const graph::Edge& edge : plan.added_edges) {
    if (edge.reason == graph::EdgeReason::policy) order.added_edges.push_back(edge);
  }
  return order;
}

std::string apply(const graph::Graph& graph, const std::vector<OrderMove>& moves, plan::Order& order) {
  Reordering reordering(graph, order);
  for (const OrderMove& move : moves) {
    const auto drop_edges = [&](const auto& condition) {
      std::erase_if(order.added_edges, [&](const graph::Edge& edge) { return edge.distance == 0 && condition(edge); });
    };
    switch (move.kind) {
      case MoveKind::before:
      case MoveKind::after: {
        const bool earlier = move.kind == MoveKind::before;
        if (reordering.move(move.task, move.anchor, earlier)) break;
        return fmt::format("{} needs {}", graph.task(earlier ? move.task : move.anchor).name,
                           graph.task(earlier ? move.anchor : move.task).name);
      }
      case MoveKind::release:
        drop_edges([&](const graph::Edge& edge) { return edge.to == move.task; });
        break;
      case MoveKind::wait:
        order.added_edges.push_back(policy::policy_edge(move.anchor, move.task));
        break;
      case MoveKind::detach:
        drop_edges([&, needs = descendants(graph, move.task)](const graph::Edge& edge) {
          return edge.from == move.task && !needs[edge.to.index()];
        });
        break;
    }
  }
  reordering.drop_edges_against_the_sequence();
  return "";
}

std::vector<OrderMove> translated(const std::vector<OrderMove>& moves, const graph::Graph& from, const graph::Graph& to,
                                  std::string& missing) {
  std::vector<OrderMove> result;
  const auto find = [&](graph::TaskId task) {
    if (!task.valid()) return task;
    const std::string& name = from.task(task).name;
    const graph::TaskId found = to.find_task(name);
    if (!found.valid() && missing.empty()) missing = name;
    return found;
  };
  for (const OrderMove& move : moves) result.push_back({move.kind, find(move.task), find(move.anchor)});
  return result;
}

std::string_view identifier_of(RemedyKind kind) {
  constexpr std::array<std::string_view, 10> kNames = {
      "issue_earlier",      "issue_later",        "pass_queue", "local_task",      "unblock",
      "computations_first", "computations_moved", "rewrite",    "no_memory_limit", "no_time"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::vector<Remedy> candidate_remedies(const SimulatedStep& step, const plan::Order& order,
                                       std::span<const ExposedCollective> members) {
  return CandidateSearch(step, order, members).run();
}

}  // namespace weft::simulate
