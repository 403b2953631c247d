// The cost of a task in a replay of a random graph, in which each task has three predecessors among the last 1000.
// Compares Weft's CPU executor with two compute streams, a replay executor over oneTBB's task_group, and oneTBB's flow
// graph.
//
// First with empty bodies: Weft's tasks are additions of no elements, planned, prepared and run like any others; they
// have no data, so their order comes from added edges. The competitors' bodies are empty functions. Then with bodies:
// each task adds the floats of two predecessors, by the same prepared task in each contestant. Weft infers these two
// edges and plans the memory; the third edge is an added edge. Resetting the competitors' counters isn't timed.
// Contestants take turns. The table shows minimum and median over the replays, and each minimum divided by the minimum
// of Weft without a trace (above 1: Weft is faster).
#include <fmt/format.h>
#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/program.h"
#include "kernels/cpu/parallel.h"
#include "runtime/comm/local.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/execute/cpu/cpu_kernels.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/plan.h"

namespace weft::bench {
namespace {

/// Tasks in program order, predecessors before successors, in flat arrays (CSR).
class TaskDag {
 public:
  explicit TaskDag(const std::vector<std::vector<std::uint32_t>>& predecessors)
      : before_begin_(predecessors.size() + 1, 0), after_begin_(predecessors.size() + 1, 0) {
    for (std::size_t task = 0; task < predecessors.size(); ++task) {
      for (const std::uint32_t from : predecessors[task]) {
        before_.push_back(from);
        ++after_begin_[from + 1];
      }
      before_begin_[task + 1] = static_cast<std::uint32_t>(before_.size());
    }
    for (std::size_t task = 0; task < size(); ++task) after_begin_[task + 1] += after_begin_[task];
    after_.resize(before_.size());
    std::vector<std::uint32_t> next(after_begin_.begin(), after_begin_.end() - 1);
    for (std::uint32_t task = 0; task < size(); ++task) {
      for (const std::uint32_t from : predecessors_of(task)) after_[next[from]++] = task;
    }
  }

  std::size_t size() const { return before_begin_.size() - 1; }
  std::span<const std::uint32_t> predecessors_of(std::size_t task) const {
    return std::span(before_).subspan(before_begin_[task], before_begin_[task + 1] - before_begin_[task]);
  }
  std::span<const std::uint32_t> successors_of(std::size_t task) const {
    return std::span(after_).subspan(after_begin_[task], after_begin_[task + 1] - after_begin_[task]);
  }

 private:
  std::vector<std::uint32_t> before_begin_, after_begin_, before_, after_;
};

/// Each task waits for three different tasks among the last 1000.
TaskDag random_dag(std::uint32_t tasks) {
  std::mt19937 random(1);
  std::vector<std::vector<std::uint32_t>> predecessors(tasks);
  for (std::uint32_t task = 1; task < tasks; ++task) {
    std::uniform_int_distribution<std::uint32_t> draw(task > 1000 ? task - 1000 : 0, task - 1);
    while (predecessors[task].size() < std::min<std::uint32_t>(task, 3)) {
      const std::uint32_t from = draw(random);
      if (std::ranges::find(predecessors[task], from) == predecessors[task].end()) predecessors[task].push_back(from);
    }
  }
  return TaskDag(predecessors);
}

/// Weft: the CPU executor replays the plan of a graph of real operations, on one rank and with one thread a stream.
class WeftReplay {
 public:
  WeftReplay(std::shared_ptr<const plan::Plan> plan, bool traced)
      : plan_(std::move(plan)),
        world_(std::move(comm::make_local_worlds(1).front())),
        state_(std::array{plan_->graph}),
        executor_(execute::make_cpu_executor(state_, execute::CommunicatorSet(*world_, {}),
                                             {.threads = 1, .kept_steps = traced ? 1 : 0})) {
    handle_ = executor_->load(plan_);
    executor_->run(handle_);
  }

  void reset() {}
  void run() { executor_->run(handle_); }
  const plan::StepTrace& trace() const { return executor_->last_trace(handle_); }

 private:
  std::shared_ptr<const plan::Plan> plan_;
  std::unique_ptr<comm::World> world_;
  execute::State state_;
  std::unique_ptr<execute::Executor> executor_;
  execute::Executor::PlanHandle handle_ = 0;
};

/// A competitor: a replay executor of forty lines over oneTBB's task_group, with an atomic counter for each task. A
/// task that ends decrements its successors' counters, runs the first successor that became ready itself, and passes
/// the others to task_group::run. Call reset() before each run().
template <class Body>
class TaskGroupReplay {
 public:
  TaskGroupReplay(const TaskDag& dag, int threads, Body body)
      : dag_(dag), body_(std::move(body)), missing_(dag.size()), arena_(threads) {}

  void reset() {
    for (std::size_t task = 0; task < dag_.size(); ++task) {
      missing_[task].store(static_cast<std::int32_t>(dag_.predecessors_of(task).size()), std::memory_order_relaxed);
    }
  }

  void run() {
    arena_.execute([this] {
      tbb::task_group group;
      for (std::uint32_t task = 0; task < dag_.size(); ++task) {
        if (dag_.predecessors_of(task).empty()) spawn(group, task);
      }
      group.wait();
    });
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  void spawn(tbb::task_group& group, std::uint32_t task) {
    group.run([this, &group, task] { follow(group, task); });
  }

  void follow(tbb::task_group& group, std::uint32_t task) {
    while (task != kNone) {
      body_(task);
      std::uint32_t next = kNone;
      for (const std::uint32_t successor : dag_.successors_of(task)) {
        if (missing_[successor].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        if (next == kNone) {
          next = successor;
        } else {
          spawn(group, successor);
        }
      }
      task = next;
    }
  }

  const TaskDag& dag_;
  Body body_;
  std::vector<std::atomic<std::int32_t>> missing_;
  tbb::task_arena arena_;
};

/// A competitor: oneTBB's flow graph with a continue_node for each task, built once and run repeatedly.
template <class Body>
class FlowGraphReplay {
 public:
  FlowGraphReplay(const TaskDag& dag, int threads, Body body) : body_(std::move(body)), arena_(threads) {
    arena_.execute([&] {
      graph_.reset();  // binds the graph to this arena
      for (std::uint32_t task = 0; task < dag.size(); ++task) {
        nodes_.emplace_back(graph_, [this, task](const tbb::flow::continue_msg&) { body_(task); });
        for (const std::uint32_t from : dag.predecessors_of(task)) tbb::flow::make_edge(nodes_[from], nodes_[task]);
        if (dag.predecessors_of(task).empty()) roots_.push_back(task);
      }
    });
  }

  void reset() {}

  void run() {
    arena_.execute([this] {
      for (const std::uint32_t root : roots_) nodes_[root].try_put(tbb::flow::continue_msg());
      graph_.wait_for_all();
    });
  }

 private:
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
  Body body_;
  tbb::task_arena arena_;
  tbb::flow::graph graph_;
  std::deque<Node> nodes_;
  std::vector<std::uint32_t> roots_;
};

enum class Bodies : std::uint8_t { empty, add_floats };

/// The number of a task's edges that are inferred from data; the others are added.
constexpr std::size_t data_edges(Bodies bodies) {
  return bodies == Bodies::empty ? 0 : 2;
}

std::shared_ptr<const graph::Graph> graph_of(const TaskDag& dag, Bodies bodies) {
  graph::GraphBuilder builder;
  const std::int64_t elements = bodies == Bodies::empty ? 0 : 1;
  const auto tensor = [&](std::string name, graph::Role role) {
    return graph::whole(builder, builder.add_tensor({std::move(name), DType::f32, {elements}, role}));
  };
  const graph::View zero = tensor("zero", graph::Role::parameter);
  std::vector<graph::View> results;
  for (std::size_t task = 0; task < dag.size(); ++task) {
    const auto from = dag.predecessors_of(task);
    const graph::View left = from.empty() ? zero : results[from[0]];
    const graph::View right = from.size() < 2 ? zero : results[from[1]];
    results.push_back(tensor("x" + std::to_string(task), graph::Role::activation));
    builder.add_task({"t" + std::to_string(task),
                      graph::Add{elements},
                      {graph::read(left), graph::read(right), graph::write(results.back())}});
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

/// Program order. A task joins the stream of its last predecessor, because on another stream it would wait longest for
/// that predecessor; unless that stream is ahead of the other.
plan::Order follow(const graph::Graph& graph, const TaskDag& dag, std::size_t inferred) {
  constexpr std::int64_t kMostAhead = 32;
  plan::Order order;
  order.streams = plan::streams_of(graph, 2);
  order.reasons = {{.text = "after its last predecessor"}, {.text = "on the stream with less work"}};
  std::vector<std::size_t> stream_of;
  std::int64_t ahead = 0;  // tasks that stream 0 has more than stream 1
  for (std::size_t task = 0; task < dag.size(); ++task) {
    const auto from = dag.predecessors_of(task);
    std::size_t stream = from.empty() ? 0 : stream_of[std::ranges::max(from)];
    const bool follows = !from.empty() && (stream == 0 ? ahead : -ahead) < kMostAhead;
    if (!follows) stream = ahead > 0 ? 1 : 0;
    ahead += stream == 0 ? 1 : -1;
    stream_of.push_back(stream);
    order.sequence.push_back({graph::TaskId(task), plan::StreamId(stream), follows ? 0U : 1U});
    for (std::size_t i = inferred; i < from.size(); ++i) {
      order.added_edges.push_back({graph::TaskId(std::size_t{from[i]}),
                                   graph::TaskId(task),
                                   graph::EdgeKind::completes_before,
                                   graph::EdgeReason::policy,
                                   0,
                                   {}});
    }
  }
  return order;
}

std::shared_ptr<const plan::Plan> plan_of(const TaskDag& dag, Bodies bodies) {
  const Stopwatch building;
  const auto graph = graph_of(dag, bodies);
  fmt::print("graph of {} tasks, {} edges by data: built in {:.0f} ms", dag.size(), graph->edges().size(),
             1e3 * building.seconds());
  const plan::Order order = follow(*graph, dag, data_edges(bodies));
  const Stopwatch planning;
  auto plan = std::make_shared<const plan::Plan>(plan::make_plan(graph, order, "follow"));
  fmt::print(", planned in {:.0f} ms", 1e3 * planning.seconds());
  const Stopwatch checking;
  const std::vector<plan::Violation> violations = plan::check_plan(*plan);
  fmt::print(", checked in {:.0f} ms\n", 1e3 * checking.seconds());
  if (!violations.empty()) throw std::logic_error(violations.front().message);
  std::size_t waits = 0;
  for (const plan::StreamPlan& stream : plan->streams) {
    for (const plan::Entry& entry : stream.entries) waits += entry.waits.size();
  }
  fmt::print("{} waits between the streams, {} KiB of scratch\n", waits, plan->scratch_bytes / 1024);
  return plan;
}

template <template <class> class Replay>
void expect_each_once(const TaskDag& dag) {
  std::vector<std::atomic<int>> runs(dag.size());
  const auto count = [&](std::uint32_t task) { ++runs[task]; };
  Replay<decltype(count)> replay(dag, 2, count);
  replay.reset();
  replay.run();
  if (std::ranges::any_of(runs, [](const auto& n) { return n != 1; })) throw std::logic_error("a competitor is wrong");
}

/// The trace proves that each task ran, and ran after its predecessors.
void expect_order(const TaskDag& dag, const plan::Plan& plan, const plan::StepTrace& trace) {
  const auto time_of = [&](std::size_t task) {
    const plan::Position at = plan.position[task];
    return trace.times[at.stream.index()][at.entry];
  };
  for (std::size_t task = 0; task < dag.size(); ++task) {
    bool right = trace.begin <= time_of(task).begin && time_of(task).end <= trace.end;
    for (const std::uint32_t from : dag.predecessors_of(task)) right &= time_of(from).end <= time_of(task).begin;
    if (!right) throw std::logic_error("Weft ran a task too early");
  }
}

struct Contestant {
  std::string name;
  std::function<void()> reset, run;
  std::vector<double> ns_per_task;
};

template <class Replay>
Contestant contestant(std::string name, Replay& replay) {
  return {std::move(name), [&] { replay.reset(); }, [&] { replay.run(); }, {}};
}

void take_turns(std::vector<Contestant>& contestants, int replays, double tasks) {
  constexpr int kWarmUp = 3;
  for (int replay = -kWarmUp; replay < replays; ++replay) {
    for (Contestant& contestant : contestants) {
      contestant.reset();
      const Stopwatch running;
      contestant.run();
      if (replay >= 0) contestant.ns_per_task.push_back(1e9 * running.seconds() / tasks);
    }
  }
}

void print(std::vector<Contestant>& contestants) {
  fmt::print("{:<26} {:>9} {:>9} {:>8}\n", "ns a task", "minimum", "median", "by Weft");
  for (Contestant& contestant : contestants) std::ranges::sort(contestant.ns_per_task);
  for (const Contestant& contestant : contestants) {
    const std::vector<double>& times = contestant.ns_per_task;
    fmt::print("{:<26} {:>9.1f} {:>9.1f} {:>8.2f}\n", contestant.name, times.front(), times[times.size() / 2],
               times.front() / contestants.front().ns_per_task.front());
  }
}

/// The same additions as in the plan, in separate memory: under an order other than the plan's, tensors can't share
/// bytes as in the plan.
class Additions {
 public:
  explicit Additions(const TaskDag& dag) : floats_(dag.size() * kApart) {
    for (std::size_t task = 0; task < dag.size(); ++task) {
      const auto from = dag.predecessors_of(task);
      const auto of = [&](std::size_t i) { return matrix(i < from.size() ? from[i] : task); };
      tasks_.emplace_back(graph::Add{1}, std::vector{of(0), of(1), matrix(task)});
    }
  }
  void run(std::size_t task) { tasks_[task].run(workers_); }

 private:
  static constexpr std::size_t kApart = 32;  // floats: as in Weft, no two additions share a pair of cache lines

  cpu::Matrix matrix(std::size_t task) { return {&floats_[task * kApart], 1, 1, 1, DType::f32}; }

  std::vector<float> floats_;
  std::vector<execute::PreparedTask> tasks_;
  cpu::Workers workers_{1};  // with one thread it keeps no state between runs
};

void compare(const TaskDag& dag, Bodies bodies, int replays) {
  fmt::print("\n{}\n", bodies == Bodies::empty ? "Empty bodies" : "Each task adds two floats");
  const std::shared_ptr<const plan::Plan> plan = plan_of(dag, bodies);
  WeftReplay weft(plan, false), traced(plan, true);
  expect_order(dag, *plan, traced.trace());
  std::vector<Contestant> contestants = {contestant("Weft, 2 streams", weft),
                                         contestant("Weft, 2 streams, traced", traced)};
  const auto against = [&](auto body) {
    TaskGroupReplay group1(dag, 1, body), group2(dag, 2, body);
    FlowGraphReplay flow1(dag, 1, body), flow2(dag, 2, body);
    contestants.push_back(contestant("task_group, 1 thread", group1));
    contestants.push_back(contestant("task_group, 2 threads", group2));
    contestants.push_back(contestant("flow graph, 1 thread", flow1));
    contestants.push_back(contestant("flow graph, 2 threads", flow2));
    take_turns(contestants, replays, static_cast<double>(dag.size()));
  };
  if (bodies == Bodies::empty) {
    against([](std::uint32_t) {});
  } else {
    Additions additions(dag);
    against([&](std::uint32_t task) { additions.run(task); });
  }
  expect_order(dag, *plan, traced.trace());
  print(contestants);
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  using namespace weft::bench;
  std::uint32_t tasks = 100'000;
  int replays = 60;
  CLI::App app("the cost of a task in a replay of a random graph", "bench_executor");
  app.add_option("TASKS", tasks, "of the graph")->check(CLI::Range(1, 10'000'000))->capture_default_str();
  app.add_option("REPLAYS", replays, "of each contestant")->check(CLI::PositiveNumber)->capture_default_str();
  return main_of(app, argc, argv, [&] {
    const TaskDag dag = random_dag(tasks);
    expect_each_once<TaskGroupReplay>(dag);
    expect_each_once<FlowGraphReplay>(dag);
    compare(dag, Bodies::empty, replays);
    compare(dag, Bodies::add_floats, replays);
    return 0;
  });
}
