// METG(50 %), the smallest task size that keeps two cores half busy, of a one-dimensional three-point stencil. Compares
// CpuExecutor with two compute streams, a replay executor over oneTBB's task_group, and oneTBB's flow graph.
//
//   bench_metg [TASKS [REPLAYS]]     default: 20000 tasks, 12 replays a point
//
// A task adds its neighbours' floats of the previous step and writes its own; an added edge makes it wait for its own
// task of the previous step too. All contestants run the same prepared tasks, the competitors in separate memory. The
// grain is a task's time when all tasks run on one thread in a plain loop, measured in the same turn. Efficiency =
// tasks · grain / (2 · wall), from medians. METG is the grain with efficiency ½, interpolated between the two nearest
// sizes (each twice the previous size), or below the first size.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>

#include "base/median.h"
#include "bench/flow_graph_replay.h"
#include "bench/task_dag.h"
#include "bench/task_group_replay.h"
#include "bench/weft_replay.h"
#include "kernels/cpu/parallel.h"
#include "runtime/execute/cpu/cpu_kernels.h"

namespace weft::bench {
namespace {

constexpr int kThreads = 2;

/// Two rows of columns, which alternate as the previous step. A column has `n` floats.
struct Stencil {
  std::uint32_t width, steps;
  std::int64_t n;

  std::size_t tasks() const { return std::size_t{width} * steps; }
  std::size_t columns() const { return 2 * std::size_t{width}; }

  /// The two columns that a task reads, and the column that it writes. At the edges, the task's own column replaces the
  /// missing one.
  std::array<std::size_t, 3> columns_of(std::size_t task) const {
    const std::size_t column = task % width, row = task / width % 2 * width, other = width - row;
    return {other + (column == 0 ? 0 : column - 1), other + std::min<std::size_t>(column + 1, width - 1), row + column};
  }
};

std::shared_ptr<const graph::Graph> graph_of(const Stencil& stencil) {
  graph::GraphBuilder builder;
  std::vector<graph::View> columns;
  for (std::size_t i = 0; i < stencil.columns(); ++i) {
    columns.push_back(graph::whole(
        builder, builder.add_tensor({"c" + std::to_string(i), DType::f32, {stencil.n}, graph::Role::optimizer_state})));
  }
  for (std::size_t task = 0; task < stencil.tasks(); ++task) {
    const auto [left, right, own] = stencil.columns_of(task);
    builder.add_task({"t" + std::to_string(task),
                      graph::Add{stencil.n},
                      {graph::read(columns[left]), graph::read(columns[right]), graph::write(columns[own])}});
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

/// The left half of the columns is on one stream, the right half on the other. The column that the other stream waits
/// for comes first.
plan::Order split_in_the_middle(const graph::Graph& graph, const Stencil& stencil) {
  plan::Order order;
  order.streams = plan::streams_of(graph, kThreads);
  order.reasons = {{.text = "half of the columns each"}};
  const std::uint32_t middle = stencil.width / 2;
  for (std::uint32_t step = 0; step < stencil.steps; ++step) {
    const std::size_t first = std::size_t{step} * stencil.width;
    for (std::uint32_t i = 0; i < stencil.width - middle; ++i) {
      if (i < middle)
        order.sequence.push_back({graph::TaskId(first + middle - 1 - i), plan::StreamId(std::size_t{0}), 0});
      order.sequence.push_back({graph::TaskId(first + middle + i), plan::StreamId(std::size_t{1}), 0});
    }
  }
  for (std::size_t task = stencil.width; task < stencil.tasks(); ++task) {
    order.added_edges.push_back({graph::TaskId(task - stencil.width),
                                 graph::TaskId(task),
                                 graph::EdgeKind::completes_before,
                                 graph::EdgeReason::policy,
                                 0,
                                 {}});
  }
  return order;
}

/// The plan's tasks in separate memory.
class Additions {
 public:
  explicit Additions(const Stencil& stencil)
      : stride_(stencil.n + kApart), floats_(stencil.columns() * static_cast<std::size_t>(stride_)) {
    for (std::size_t task = 0; task < stencil.tasks(); ++task) {
      std::vector<cpu::Matrix> arguments;
      for (const std::size_t column : stencil.columns_of(task)) {
        float* begin = &floats_[column * static_cast<std::size_t>(stride_)];
        arguments.push_back({begin, 1, stencil.n, stencil.n, DType::f32});
      }
      tasks_.emplace_back(graph::Add{stencil.n}, std::move(arguments));
    }
  }
  void run(std::size_t task) { tasks_[task].run(workers_); }
  void run_all() {
    for (const execute::PreparedTask& task : tasks_) task.run(workers_);
  }

 private:
  static constexpr std::int64_t kApart = 32;  // floats: no two columns share a pair of cache lines

  std::int64_t stride_;
  std::vector<float> floats_;
  std::vector<execute::PreparedTask> tasks_;
  cpu::Workers workers_{1};  // with one thread it keeps no state between runs
};

struct Point {
  double grain = 0;                       // seconds for a task
  std::array<double, 3> efficiency = {};  // by contestant
};

Point measure(const Stencil& stencil, int replays) {
  const TaskDag dag = stencil_dag(stencil.width, stencil.steps);
  Additions additions(stencil);
  const auto body = [&](std::uint32_t task) { additions.run(task); };
  const auto graph = graph_of(stencil);
  auto plan =
      std::make_shared<plan::Plan>(plan::make_plan(graph, split_in_the_middle(*graph, stencil), "split in the middle"));
  WeftReplay weft(std::move(plan), false);
  TaskGroupReplay group(dag, kThreads, body);
  FlowGraphReplay flow(dag, kThreads, body);
  const std::array<std::function<void()>, 4> turns = {[&] { additions.run_all(); }, [&] { weft.run(); },
                                                      [&] { group.run(); }, [&] { flow.run(); }};
  std::array<std::vector<double>, 4> seconds;
  for (int replay = -2; replay < replays; ++replay) {
    for (std::size_t i = 0; i < turns.size(); ++i) {
      group.reset();
      const Stopwatch running;
      turns[i]();
      if (replay >= 0) seconds[i].push_back(running.seconds());
    }
  }
  Point point;
  const double work = median(seconds[0]);
  point.grain = work / static_cast<double>(stencil.tasks());
  for (std::size_t i = 0; i < point.efficiency.size(); ++i) {
    point.efficiency[i] = work / (kThreads * median(seconds[i + 1]));
  }
  return point;
}

/// The grain at which a contestant's efficiency crosses one half, interpolated between two points in log(grain).
std::string metg(const std::vector<Point>& points, std::size_t contestant) {
  const auto efficiency = [&](const Point& point) { return point.efficiency[contestant]; };
  const auto enough = std::ranges::find_if(
      points, [](double e) { return e >= 0.5; }, efficiency);
  if (enough == points.end()) return fmt::format("> {:.2f}", 1e6 * points.back().grain);
  if (enough == points.begin()) return fmt::format("< {:.2f}", 1e6 * enough->grain);
  const Point& before = *std::prev(enough);
  const double part = (0.5 - efficiency(before)) / (efficiency(*enough) - efficiency(before));
  return fmt::format("{:.2f}", 1e6 * before.grain * std::pow(enough->grain / before.grain, part));
}

void sweep(std::uint32_t width, std::uint32_t tasks, int replays) {
  std::vector<Point> points;
  for (std::int64_t n = 64; n <= 32768; n *= 2) {
    points.push_back(measure({width, std::max<std::uint32_t>(2, tasks / width), n}, replays));
    const Point& point = points.back();
    fmt::print("{:>5} {:>9.2f} us   {:>5.2f} {:>10.2f} {:>10.2f}\n", width, 1e6 * point.grain, point.efficiency[0],
               point.efficiency[1], point.efficiency[2]);
    std::fflush(stdout);
    if (*std::ranges::min_element(point.efficiency) >= 0.5) break;
  }
  fmt::print("METG(50 %) of width {}, us: Weft {}, task_group {}, flow graph {}\n\n", width, metg(points, 0),
             metg(points, 1), metg(points, 2));
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  const long tasks = argc > 1 ? std::atol(argv[1]) : 20'000;
  const int replays = argc > 2 ? std::atoi(argv[2]) : 12;
  if (tasks < 128 || tasks > 1'000'000 || replays < 1 || argc > 3) {
    fmt::print(stderr, "usage: bench_metg [TASKS [REPLAYS]]\n");
    return 2;
  }
  fmt::print("{:>5} {:>12}   {:>5} {:>10} {:>10}   efficiency on two cores\n", "width", "grain", "Weft", "task_group",
             "flow graph");
  for (const std::uint32_t width : {2U, 4U, 8U, 64U}) {
    weft::bench::sweep(width, static_cast<std::uint32_t>(tasks), replays);
  }
  return 0;
}
