// The cost of a task in a replay of a random graph, in which each task has three predecessors among the last 1000.
// Compares CpuExecutor with two compute streams, a replay executor over oneTBB's task_group, and oneTBB's flow graph.
//
// First with empty bodies: Weft's tasks are additions of no elements, planned, prepared and run like any others; they
// have no data, so their order comes from added edges. The competitors' bodies are empty functions. Then with bodies:
// each task adds the floats of two predecessors, by the same prepared task in each contestant. Weft infers these two
// edges and plans the memory; the third edge is an added edge. Resetting the competitors' counters isn't timed.
// Contestants take turns. The table shows minimum and median over the replays, and each minimum divided by the minimum
// of Weft without a trace (above 1: Weft is faster).
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "bench/flow_graph_replay.h"
#include "bench/program.h"
#include "bench/task_dag.h"
#include "bench/task_group_replay.h"
#include "bench/weft_replay.h"
#include "kernels/cpu/parallel.h"
#include "runtime/execute/cpu/cpu_kernels.h"

namespace weft::bench {
namespace {

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
