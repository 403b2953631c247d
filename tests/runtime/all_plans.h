// All plans of a small graph, by brute force on the simulator's engine of time: every choice of ready tasks to start,
// whenever tasks end. For tests that compare searches and bounds with the best plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/order.h"
#include "runtime/policy/policy.h"
#include "runtime/time/engine.h"
#include "tests/runtime/all_orders.h"

namespace weft::testing {

/// A plan may hold a task back until another one is done, and for no other time. So a task starts when the step begins
/// or when some task ends. This tries all subsets of the tasks that may start at each such moment; nothing is left out
/// but what comes after a moment that isn't before the shortest step so far.
class AllPlans {
 public:
  AllPlans(const graph::Graph& graph, const cost::TaskCosts& costs, const policy::PolicyOptions& options)
      : graph_(graph),
        costs_(costs),
        streams_(plan::streams_of(graph, options.compute_streams)),
        loads_{time::ClassLoads(graph, streams_, costs, options.machine.get(), options.link_of_channel, true)},
        engine_(loads_, options.machine.get()),
        missing_(graph.tasks().size(), 0),
        begun_(graph.tasks().size(), false) {
    for (std::size_t task = 0; task < missing_.size(); ++task) {
      for (const graph::Edge& edge : graph.in_edges(graph::TaskId(task))) missing_[task] += edge.distance == 0 ? 1 : 0;
    }
    choose(0);
  }

  /// The shortest step.
  double least() const { return least_; }

  /// A plan that takes it: each task waits for all tasks that ended when it started.
  plan::Order best() const {
    plan::Order order;
    order.streams = streams_;
    order.reasons = {{.text = ""}};
    for (const Begin& begin : best_) {
      const graph::TaskId task(begin.task);
      order.sequence.push_back({task, plan::StreamId(begin.stream), 0});
      for (const std::size_t from : begin.after) {
        order.added_edges.push_back({graph::TaskId(from), task, graph::EdgeKind::completes_before,
                                     graph::EdgeReason::policy, 0, graph::TensorId()});
      }
    }
    return order;
  }

 private:
  struct Begin {
    std::size_t task = 0, stream = 0;
    std::vector<std::size_t> after;
  };

  /// Of the compute streams, which are alike, the first that is idle.
  std::size_t idle_stream(std::size_t task) const {
    const graph::Channel* channel = graph::channel_of(graph_.tasks()[task].operation);
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      const bool fits =
          channel == nullptr ? streams_[s].compute : !streams_[s].compute && streams_[s].channel == *channel;
      if (fits && engine_.idle(s)) return s;
    }
    return streams_.size();
  }

  void choose(std::size_t task) {
    if (task == missing_.size()) {
      run_on();
      return;
    }
    const time::Engine::State before = engine_.state();
    choose(task + 1);
    engine_.restore(before);
    if (begun_[task] || missing_[task] > 0) return;
    const std::size_t stream = idle_stream(task);
    if (stream == streams_.size()) return;
    engine_.start(stream, static_cast<std::uint32_t>(task), costs_.ns[task]);
    begun_[task] = true;
    begins_.push_back({task, stream, just_ended_});
    choose(task + 1);
    begins_.pop_back();
    begun_[task] = false;
    engine_.restore(before);
  }

  void run_on() {
    engine_.settle(0);
    if (engine_.empty()) {
      if (begins_.size() < missing_.size() || engine_.now() >= least_) return;
      least_ = engine_.now();
      best_ = begins_;
      return;
    }
    if (engine_.next() >= least_) return;
    const std::vector<std::size_t> before = just_ended_;
    just_ended_.clear();
    engine_.advance(engine_.next());
    while (engine_.next() == engine_.now()) {
      const std::size_t slot = engine_.first();
      just_ended_.push_back(engine_.task(slot));
      engine_.end(slot);
    }
    const std::vector<std::size_t> ended = just_ended_;
    const auto release = [&](std::uint32_t by) {
      for (const std::size_t task : ended) {
        for (const graph::Edge& edge : graph_.out_edges(graph::TaskId(task)))
          missing_[edge.to.index()] += edge.distance == 0 ? by : 0;
      }
    };
    release(UINT32_MAX);  // minus one
    choose(0);
    release(1);
    just_ended_ = before;
  }

  const graph::Graph& graph_;
  const cost::TaskCosts& costs_;
  std::vector<plan::Stream> streams_;
  std::vector<time::ClassLoads> loads_;
  time::Engine engine_;
  std::vector<std::uint32_t> missing_;
  std::vector<bool> begun_;
  std::vector<std::size_t> just_ended_;
  std::vector<Begin> begins_, best_;
  double least_ = std::numeric_limits<double>::infinity();
};

/// Calls visit(order) for each plan that a plan file could describe: each sequence, each choice of compute streams,
/// each set of added edges between streams. For graphs of four tasks.
inline void for_each_plan(const graph::Graph& graph, int compute_streams,
                          const std::function<void(const plan::Order&)>& visit) {
  const std::size_t count = graph.tasks().size();
  plan::Order order;
  order.streams = plan::streams_of(graph, compute_streams);
  order.reasons = {{.text = ""}};
  for_each_sequence(graph, [&](std::span<const graph::TaskId> sequence) {
    std::size_t choices = 1;
    for (std::size_t i = 0; i < count; ++i) choices *= static_cast<std::size_t>(compute_streams);
    for (std::size_t choice = 0; choice < choices; ++choice) {
      order.sequence.clear();
      std::size_t rest = choice;
      bool is_new = true;
      for (const graph::TaskId task : sequence) {
        const graph::Channel* channel = graph::channel_of(graph.task(task).operation);
        const plan::StreamId compute(rest % static_cast<std::size_t>(compute_streams));
        is_new = is_new && (channel == nullptr || compute.index() == 0);
        rest /= static_cast<std::size_t>(compute_streams);
        order.sequence.push_back(
            {task, channel == nullptr ? compute : plan::stream_of_channel(order.streams, *channel), 0});
      }
      if (!is_new) continue;
      std::vector<graph::Edge> between;
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = i + 1; j < count; ++j) {
          if (order.sequence[i].stream == order.sequence[j].stream) continue;
          between.push_back({order.sequence[i].task, order.sequence[j].task, graph::EdgeKind::completes_before,
                             graph::EdgeReason::policy, 0, graph::TensorId()});
        }
      }
      for (std::size_t set = 0; set < std::size_t{1} << between.size(); ++set) {
        order.added_edges.clear();
        for (std::size_t i = 0; i < between.size(); ++i) {
          if ((set >> i & 1U) != 0) order.added_edges.push_back(between[i]);
        }
        visit(order);
      }
    }
  });
}

}  // namespace weft::testing
