#include "runtime/plan/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "runtime/plan/checker_classes.h"
#include "runtime/plan/checker_replay.h"

namespace weft::plan {
namespace {

using Kind = Violation::Kind;

/// Collects descriptions of violations, up to a limit.
class Report {
 public:
  explicit Report(std::size_t limit) : limit_(limit) {}
  /// Texts begin with `prefix` from now on.
  void begin_with(std::string prefix) { prefix_ = std::move(prefix); }
  bool full() const { return violations_.size() >= limit_; }
  std::size_t size() const { return violations_.size(); }
  template <class... Values>
  void add(Violation::Kind kind, fmt::format_string<Values...> text, Values&&... values) {
    if (!full()) violations_.push_back({kind, prefix_ + fmt::format(text, std::forward<Values>(values)...)});
  }
  std::vector<Violation> take() && { return std::move(violations_); }

 private:
  std::size_t limit_;
  std::string prefix_;
  std::vector<Violation> violations_;
};

const std::string& task_name(const Plan& plan, graph::TaskId task) {
  return plan.graph->task(task).name;
}

std::string placed(const Plan& plan, graph::TaskId task) {
  return fmt::format("{} ({})", task_name(plan, task),
                     plan.streams[plan.position[task.index()].stream.index()].stream.name);
}

// ---- structure: ids, indices and sizes, by which the later checks index ----

void check_sizes(const Plan& plan, Report& report) {
  const auto demand = [&](std::string_view what, std::size_t found, std::size_t expected) {
    if (found == expected) return;
    report.add(Kind::structure, "plan.{} has {} items; expected {}", what, found, expected);
  };
  const auto collectives = static_cast<std::size_t>(std::ranges::count_if(
      plan.graph->tasks(), [](const graph::Task& task) { return graph::is_collective(task.operation); }));
  demand("position", plan.position.size(), plan.graph->tasks().size());
  demand("sequence", plan.sequence.size(), plan.graph->tasks().size());
  demand("offset", plan.offset.size(), plan.graph->tensors().size());
  demand("collectives", plan.collectives.size(), collectives);
}

void check_streams(const Plan& plan, Report& report) {
  std::vector<const std::string*> owner(plan.graph->channel_count());
  for (const StreamPlan& stream : plan.streams) {
    if (stream.stream.compute) continue;
    if (static_cast<std::size_t>(stream.stream.channel) >= owner.size()) {
      report.add(Kind::structure, "stream {} belongs to no channel of the graph", stream.stream.name);
      continue;
    }
    const std::string*& first = owner[static_cast<std::size_t>(stream.stream.channel)];
    if (first != nullptr) {
      report.add(Kind::structure, "streams {} and {} both belong to channel {}, so its collectives have no total order",
                 *first, stream.stream.name, plan.graph->channel_name(stream.stream.channel));
    }
    first = &stream.stream.name;
  }
}

void check_wait(const Plan& plan, const StreamPlan& stream, const Entry& entry, const Wait& wait, Report& report) {
  const std::string at = fmt::format("{} ({})", task_name(plan, entry.task), stream.stream.name);
  if (wait.stream.index() >= plan.streams.size()) {
    report.add(Kind::structure, "{} waits for stream {} of {}", at, wait.stream.value, plan.streams.size());
    return;
  }
  const StreamPlan& other = plan.streams[wait.stream.index()];
  if (wait.entry >= other.entries.size() || wait.distance > 1) {
    report.add(Kind::structure, "{} waits for entry {} of {} at distance {}, which has {} entries", at, wait.entry,
               other.stream.name, wait.distance, other.entries.size());
  } else if (!other.entries[wait.entry].signals) {
    report.add(Kind::structure, "{} waits for entry {} of {}, which doesn't signal", at, wait.entry, other.stream.name);
  }
}

void check_entries(const Plan& plan, Report& report) {
  const std::size_t tasks = plan.graph->tasks().size();
  std::vector<const StreamPlan*> seen(tasks);
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    const StreamPlan& stream = plan.streams[s];
    for (std::uint32_t e = 0; e < stream.entries.size(); ++e) {
      const Entry& entry = stream.entries[e];
      if (entry.task.index() >= tasks) {
        report.add(Kind::structure, "entry {} of {} names no task", e, stream.stream.name);
        continue;
      }
      const std::string& name = task_name(plan, entry.task);
      if (const StreamPlan*& first = seen[entry.task.index()]; first != nullptr) {
        report.add(Kind::structure, "{} runs twice: on {} and on {}", name, first->stream.name, stream.stream.name);
      } else {
        first = &stream;
      }
      const Position& position = plan.position[entry.task.index()];
      if (position.stream != StreamId(s) || position.entry != e) {
        report.add(Kind::structure, "{} is entry {} of {}, but plan.position says otherwise", name, e,
                   stream.stream.name);
      }
      const graph::Channel* channel = graph::channel_of(plan.graph->task(entry.task).operation);
      if (channel == nullptr ? !stream.stream.compute : stream.stream.compute || stream.stream.channel != *channel) {
        report.add(Kind::structure, "{} is on stream {}, but belongs on {}", name, stream.stream.name,
                   channel == nullptr ? std::string("a compute stream")
                                      : fmt::format("the stream of channel {}", plan.graph->channel_name(*channel)));
      }
      for (const Wait& wait : entry.waits) check_wait(plan, stream, entry, wait, report);
    }
  }
  for (std::size_t i = 0; i < tasks; ++i) {
    if (seen[i] == nullptr) {
      report.add(Kind::structure, "{} is on no stream", plan.graph->tasks()[i].name);
    }
  }
}

void check_lists(const Plan& plan, Report& report) {
  const std::size_t tasks = plan.graph->tasks().size();
  std::vector<graph::TaskId> expected;
  std::vector<bool> seen(tasks);
  for (const graph::TaskId task : plan.sequence) {
    if (task.index() >= tasks || seen[task.index()]) {
      report.add(Kind::structure, "plan.sequence isn't a permutation of the tasks");
      return;
    }
    seen[task.index()] = true;
    if (graph::is_collective(plan.graph->task(task).operation)) expected.push_back(task);
  }
  if (expected != plan.collectives) {
    report.add(Kind::structure, "plan.collectives isn't the subsequence of collectives of plan.sequence");
  }
}

void check_offsets(const Plan& plan, Report& report) {
  std::vector<bool> used(plan.offset.size());
  for (const graph::Task& task : plan.graph->tasks()) {
    for (const graph::Access& access : task.accesses) used[access.view.tensor.index()] = true;
  }
  for (std::size_t i = 0; i < plan.offset.size(); ++i) {
    const graph::Tensor& tensor = plan.graph->tensors()[i];
    const std::int64_t offset = plan.offset[i];
    if (graph::is_state(tensor.role)) {
      if (offset == kNoOffset) continue;
      report.add(Kind::structure, "tensor {} outlives the step, but has a place in the scratch arena", tensor.name);
    } else if (used[i] && (offset < 0 || offset % 64 != 0 || offset + tensor.bytes() > plan.scratch_bytes)) {
      report.add(Kind::structure,
                 "tensor {} takes {} bytes at offset {}; expected a multiple of 64 inside the arena of {} "
                 "bytes",
                 tensor.name, tensor.bytes(), offset, plan.scratch_bytes);
    }
  }
}

void check_structure(const Plan& plan, Report& report) {
  if (plan.graph == nullptr) return report.add(Kind::structure, "the plan has no graph");
  const std::size_t before = report.size();
  check_sizes(plan, report);
  if (report.size() != before) return;
  check_streams(plan, report);
  check_entries(plan, report);
  check_lists(plan, report);
  check_offsets(plan, report);
}

// ---- order: every hazard between accesses, and every edge ----

/// Requires that one task happens before another, and reports each missing order once.
class OrderCheck {
 public:
  OrderCheck(const Plan& plan, const Clocks& clocks, Report& report) : plan_(plan), clocks_(clocks), report_(report) {}

  template <class Words>
  void demand(graph::TaskId from, graph::TaskId to, std::uint8_t distance, Words&& why) {
    if (clocks_.before(from, to, distance) || report_.full()) return;
    if (!reported_.insert({from, to, distance}).second) return;
    report_.add(Kind::missing_wait, "wait missing: {} {}, but neither {}'s order nor a wait makes {}{} complete first",
                placed(plan_, to), why(), stream_name(to), task_name(plan_, from),
                distance == 0 ? "" : " of the step before");
  }
  std::string by(graph::TaskId task, std::uint8_t distance) const {
    return placed(plan_, task) + (distance == 0 ? "" : " in the step before");
  }

 private:
  const std::string& stream_name(graph::TaskId task) const {
    return plan_.streams[plan_.position[task.index()].stream.index()].stream.name;
  }

  const Plan& plan_;
  const Clocks& clocks_;
  Report& report_;
  std::set<std::tuple<graph::TaskId, graph::TaskId, std::uint8_t>> reported_;
};

/// Replays the accesses of two steps in program order and requires, for each tensor, that conflicting accesses run in
/// that order. An access is dropped once a later write covers it: accesses that conflict with it also conflict with
/// that write.
class HazardCheck {
 public:
  HazardCheck(const Plan& plan, OrderCheck& order) : plan_(plan), order_(order), touched_(plan.offset.size()) {}

  void run() {
    for (std::uint8_t step = 0; step < 2; ++step) {
      for (std::size_t i = 0; i < plan_.graph->tasks().size(); ++i) visit(graph::TaskId(i), step);
    }
  }

 private:
  struct Touch {
    graph::TaskId task;
    std::uint8_t step;
    graph::View view;
  };
  struct Touched {
    std::vector<Touch> readers, writers;
  };

  void visit(graph::TaskId task, std::uint8_t step) {
    const std::span<const graph::Access> accesses = plan_.graph->task(task).accesses;
    if (step == 1) {
      for (const graph::Access& access : accesses) {
        const Touched& touched = touched_[access.view.tensor.index()];
        const std::string& tensor = plan_.graph->tensor(access.view.tensor).name;
        const bool reads = access.mode != graph::AccessMode::write;
        compare(
            task, access.view, touched.writers, [&] { return (reads ? "reads " : "overwrites ") + tensor; },
            "written by");
        if (access.mode == graph::AccessMode::read) continue;
        compare(
            task, access.view, touched.readers, [&] { return "overwrites " + tensor; }, "read by");
      }
    }
    for (const graph::Access& access : accesses) {
      Touched& touched = touched_[access.view.tensor.index()];
      const Touch touch{task, step, access.view};
      if (access.mode == graph::AccessMode::read) {
        touched.readers.push_back(touch);
        continue;
      }
      const auto covered = [&](const Touch& old) {
        return !(old.task == task && old.step == step) && graph::covers(access.view, old.view);
      };
      std::erase_if(touched.readers, covered);
      std::erase_if(touched.writers, covered);
      touched.writers.push_back(touch);
    }
  }

  template <class Words>
  void compare(graph::TaskId task, const graph::View& view, const std::vector<Touch>& others, Words&& what,
               std::string_view how) {
    for (const Touch& other : others) {
      const auto distance = static_cast<std::uint8_t>(1 - other.step);
      if ((other.task == task && distance == 0) || !graph::overlaps(other.view, view)) continue;
      order_.demand(other.task, task, distance,
                    [&] { return fmt::format("{}, {} {}", what(), how, order_.by(other.task, distance)); });
    }
  }

  const Plan& plan_;
  OrderCheck& order_;
  std::vector<Touched> touched_;  // by tensor
};

void check_edges(std::span<const graph::Edge> edges, const Plan& plan, OrderCheck& order, Report& report) {
  for (const graph::Edge& edge : edges) {
    if (edge.from.index() >= plan.position.size() || edge.to.index() >= plan.position.size() || edge.distance > 1) {
      report.add(Kind::structure, "an added edge names no task, or a distance above 1");
      continue;
    }
    order.demand(edge.from, edge.to, edge.distance, [&] {
      return fmt::format("has an edge ({}{}) from {}", graph::to_string(edge.reason),
                         edge.tensor.index() < plan.offset.size() ? " of " + plan.graph->tensor(edge.tensor).name : "",
                         order.by(edge.from, edge.distance));
    });
  }
}

// ---- memory: tensors that share bytes are never in use at the same time ----

class MemoryCheck {
 public:
  MemoryCheck(const Plan& plan, const Clocks& clocks, Report& report)
      : plan_(plan), clocks_(clocks), report_(report), streams_(plan.streams.size()), users_(plan.offset.size()) {
    for (const graph::TaskId task : plan.sequence) {
      for (const graph::Access& access : plan.graph->task(task).accesses) {
        std::vector<graph::TaskId>& users = users_[access.view.tensor.index()];
        if (users.empty() || users.back() != task) users.push_back(task);
      }
    }
    last_.assign(users_.size() * streams_, 0);
    earliest_.assign(users_.size() * streams_, std::numeric_limits<std::uint32_t>::max());
    for (std::size_t tensor = 0; tensor < users_.size(); ++tensor) {
      for (const graph::TaskId user : users_[tensor]) {
        const Position& at = plan.position[user.index()];
        std::uint32_t& last = last_[tensor * streams_ + at.stream.index()];
        last = std::max(last, at.entry + 1);
        for (std::size_t s = 0; s < streams_; ++s) {
          std::uint32_t& earliest = earliest_[tensor * streams_ + s];
          earliest = std::min(earliest, clocks.clock(user, s));
        }
      }
    }
  }

  /// Compares every pair of tensors that share a byte, unless all of them follow each other in the order of first use.
  void run() {
    std::vector<std::size_t> tensors;
    for (std::size_t i = 0; i < users_.size(); ++i) {
      if (!graph::is_state(plan_.graph->tensors()[i].role) && bytes(i) > 0 && !users_[i].empty()) tensors.push_back(i);
    }
    if (follow_each_other(tensors)) return;
    // A sweep over the arena, which names each violation.
    std::ranges::stable_sort(tensors, {}, [&](std::size_t i) { return plan_.offset[i]; });
    std::vector<std::size_t> open;  // tensors that extend beyond the sweep's position
    for (const std::size_t tensor : tensors) {
      std::erase_if(open,
                    [&](std::size_t other) { return plan_.offset[other] + bytes(other) <= plan_.offset[tensor]; });
      for (const std::size_t other : open) compare(other, tensor);
      open.push_back(tensor);
      if (report_.full()) return;
    }
  }

 private:
  std::int64_t bytes(std::size_t tensor) const { return plan_.graph->tensors()[tensor].bytes(); }

  /// Is each byte's every tensor done before the next one in the order of first use, and the last before the first of
  /// the next step? "Done before" is transitive, as every tensor here has users: so it holds for every pair.
  bool follow_each_other(std::vector<std::size_t> tensors) const {
    std::vector<std::size_t> place(plan_.position.size());
    for (std::size_t i = 0; i < plan_.sequence.size(); ++i) place[plan_.sequence[i].index()] = i;
    std::ranges::stable_sort(tensors, {}, [&](std::size_t i) { return place[users_[i].front().index()]; });
    constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();
    struct Turn {
      std::size_t first = kNobody, last = kNobody;
    };
    std::map<std::int64_t, Turn> turns = {{0, {}}};  // by begin of a range, which ends where the next one begins
    const auto split = [&](std::int64_t at) {
      const auto next = turns.lower_bound(at);
      return next != turns.end() && next->first == at ? next : turns.emplace_hint(next, at, std::prev(next)->second);
    };
    for (const std::size_t tensor : tensors) {
      const auto end = split(plan_.offset[tensor] + bytes(tensor));
      for (auto range = split(plan_.offset[tensor]); range != end; ++range) {
        auto& [first, last] = range->second;
        if (first == kNobody) {
          first = tensor;
        } else if (!done(last, tensor, 0)) {
          return false;
        }
        last = tensor;
      }
    }
    return std::ranges::all_of(turns, [&](const auto& range) {
      const auto [first, last] = range.second;
      return first == last || done(last, first, 1);
    });
  }

  /// Is every access of `a` complete before any access of `b`, of the same step or the next one?
  bool done(std::size_t a, std::size_t b, std::uint8_t distance) const {
    for (std::size_t s = 0; s < streams_; ++s) {
      const std::uint32_t last = last_[a * streams_ + s];
      if (last != 0 && clocks_.first(s, distance == 0 ? 1 : 0) + last > earliest_[b * streams_ + s]) return false;
    }
    return true;
  }

  void compare(std::size_t a, std::size_t b) {
    if (done(a, b, 0)) return demand(b, a, 1);
    if (done(b, a, 0)) return demand(a, b, 1);
    // Neither tensor's use ends before the other's begins: report the violated order of the two, as the sequence has
    // it.
    const auto place = [&](std::size_t tensor) { return std::ranges::find(plan_.sequence, users_[tensor].front()); };
    if (place(a) <= place(b)) return demand(a, b, 0);
    demand(b, a, 0);
  }

  void demand(std::size_t a, std::size_t b, std::uint8_t distance) {
    if (done(a, b, distance)) return;
    for (const graph::TaskId user_of_b : users_[b]) {
      for (const graph::TaskId user_of_a : users_[a]) {
        if (clocks_.before(user_of_a, user_of_b, distance)) continue;
        report_.add(Kind::memory_overlap,
                    "memory overlap: tensors {} and {} share bytes, but {} may still use {}{} when {} "
                    "starts to use {}",
                    place_of(a), place_of(b), placed(plan_, user_of_a), name(a),
                    distance == 0 ? "" : " of the step before", placed(plan_, user_of_b), name(b));
        return;
      }
    }
  }

  const std::string& name(std::size_t tensor) const { return plan_.graph->tensors()[tensor].name; }
  std::string place_of(std::size_t tensor) const {
    return fmt::format("{} (bytes {} to {})", name(tensor), plan_.offset[tensor],
                       plan_.offset[tensor] + bytes(tensor) - 1);
  }

  const Plan& plan_;
  const Clocks& clocks_;
  Report& report_;
  std::size_t streams_;
  std::vector<std::vector<graph::TaskId>> users_;  // by tensor, in the sequence
  std::vector<std::uint32_t> last_;                // [tensor][stream]: index of the last entry that uses it, plus 1
  std::vector<std::uint32_t> earliest_;            // [tensor][stream]: lowest clock of its users, over two steps
};

// ---- collectives ----

/// Do the plan's streams run its collectives in the order of plan.collectives?
bool check_collective_order(const Plan& plan, Report& report) {
  std::vector<std::size_t> place(plan.position.size());
  for (std::size_t i = 0; i < plan.collectives.size(); ++i) place[plan.collectives[i].index()] = i;
  bool in_order = true;
  for (const StreamPlan& stream : plan.streams) {
    if (stream.stream.compute || plan.graph->is_local(stream.stream.channel)) continue;
    for (std::size_t e = 1; e < stream.entries.size(); ++e) {
      const graph::TaskId earlier = stream.entries[e - 1].task, later = stream.entries[e].task;
      if (place[earlier.index()] < place[later.index()]) continue;
      in_order = false;
      report.add(Kind::collective_order,
                 "collectives out of order: {} runs {} before {}, but plan.collectives has them the other "
                 "way round",
                 stream.stream.name, task_name(plan, earlier), task_name(plan, later));
    }
  }
  return in_order;
}

void check_one_queue(std::span<const Plan* const> plans, Report& report) {
  const Replay replay(plans, Replay::Queues::one);
  if (replay.complete()) return;
  const Replay::Cycle cycle = replay.cycle();
  if (cycle.of_one_class) {
    report.add(Kind::collective_order, "the total order of collectives can't be issued: {}", cycle.text);
  } else {
    report.add(Kind::one_queue, "deadlock where a rank runs one collective or message at a time: {}", cycle.text);
  }
}

void check_order_and_memory(const Plan& plan, const Clocks& clocks, Report& report) {
  OrderCheck order(plan, clocks, report);
  if (plan.graph->conflicts() == graph::Conflicts::ordered) HazardCheck(plan, order).run();
  check_edges(plan.graph->edges(), plan, order, report);
  check_edges(plan.added_edges, plan, order, report);
  MemoryCheck(plan, clocks, report).run();
}

}  // namespace

std::vector<Violation> check(std::span<const Plan* const> plans, std::size_t limit) {
  if (plans.empty() || limit == 0) return {};
  Report report(limit);
  const auto each_class = [&](auto&& check_class) {
    for (std::size_t k = 0; k < plans.size() && !report.full(); ++k) {
      report.begin_with(prefix_of_class(k, plans.size()));
      check_class(k);
    }
    report.begin_with("");
  };
  each_class([&](std::size_t k) { check_structure(*plans[k], report); });
  if (report.size() > 0) return std::move(report).take();

  for (const Violation& violation : check_between_classes(plans)) report.add(violation.kind, "{}", violation.message);
  if (report.size() > 0) return std::move(report).take();

  const Replay replay(plans);
  if (!replay.complete()) {
    report.add(Kind::deadlock, "deadlock: {}", replay.cycle().text);
    return std::move(report).take();
  }
  bool in_order = true;
  each_class([&](std::size_t k) { in_order = check_collective_order(*plans[k], report) && in_order; });
  if (in_order) check_one_queue(plans, report);
  each_class([&](std::size_t k) { check_order_and_memory(*plans[k], replay.clocks(k), report); });
  return std::move(report).take();
}

}  // namespace weft::plan
