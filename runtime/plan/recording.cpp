#include "runtime/plan/recording.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "graph/analysis.h"
#include "graph/grid.h"
#include "runtime/plan/plan.h"

namespace weft::plan {
namespace {

RecordedTask describe(const Plan& plan, graph::TaskId id, const std::optional<graph::Grid>& grid) {
  const graph::Task& task = plan.graph->task(id);
  const Position& position = plan.position[id.index()];
  const Entry& entry = plan.streams[position.stream.index()].entries[position.entry];
  const graph::Work work = graph::work_of(*plan.graph, task);
  RecordedTask out{.name = task.name,
                   .kind = std::string(graph::kind_name(task.operation)),
                   .style = graph::kind_class(task.operation),
                   .stream = position.stream.value,
                   .phase = task.phase,
                   .layer = task.layer,
                   .micro_batch = task.micro_batch,
                   .flops = work.flops,
                   .bytes = work.bytes,
                   .network_bytes = work.network_bytes};
  if (const graph::Channel* channel = graph::channel_of(task.operation)) {
    const graph::ChannelInfo* info = plan.graph->channel_info(*channel);
    out.channel = plan.graph->channel_name(*channel);
    if (info != nullptr && info->local) out.channel.clear();
    if (info != nullptr && !info->local) out.group_size = info->group_size;
    if (grid && info == nullptr)
      out.group_size = static_cast<std::int64_t>(graph::group_ranks(*grid, *channel, 0).size());
  }
  if (entry.reason < plan.reasons.size()) out.reason = to_string(plan.reasons[entry.reason]);
  return out;
}

void mark_memory(const Plan& plan, std::vector<RecordedTask>& tasks) {
  const graph::Liveness live = graph::liveness(*plan.graph, plan.sequence);
  const std::span<const graph::Tensor> tensors = plan.graph->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const graph::Lifetime& life = live.lifetimes[i];
    if (life.first < 0 || graph::is_state(tensors[i].role)) continue;
    tasks[static_cast<std::size_t>(life.first)].allocates += tensors[i].bytes();
    tasks[static_cast<std::size_t>(life.last)].frees += tensors[i].bytes();
  }
}

std::vector<MemoryPoint> summed(const std::map<std::int64_t, std::int64_t>& change) {
  std::vector<MemoryPoint> curve;
  std::int64_t bytes = 0;
  for (const auto& [time, difference] : change) curve.push_back({time, bytes += difference});
  return curve;
}

}  // namespace

Recording record(const Plan& plan, std::span<const RankTrace> traced, int world,
                 const std::optional<graph::Grid>& grid) {
  Recording out{.policy = plan.policy,
                .world = world,
                .grid = grid,
                .state_bytes = memory_report(plan).state,
                .plan_fingerprint = plan.fingerprint,
                .streams = recorded_streams(plan)};
  std::vector<std::uint32_t> place(plan.sequence.size());  // by task id
  for (const graph::TaskId id : plan.sequence) {
    place[id.index()] = static_cast<std::uint32_t>(out.tasks.size());
    out.tasks.push_back(describe(plan, id, grid));
  }
  mark_memory(plan, out.tasks);
  const auto add_edges = [&](std::span<const graph::Edge> edges) {
    for (const graph::Edge& edge : edges) {
      out.edges.push_back({place[edge.from.index()], place[edge.to.index()], edge.kind, edge.reason, edge.distance});
    }
  };
  add_edges(plan.graph->edges());
  add_edges(plan.added_edges);
  for (const RankTrace& rank : traced) {
    RecordedRank& to = out.ranks.emplace_back(RecordedRank{.rank = rank.rank, .steps = {}});
    for (const StepTrace& step : rank.steps) {
      check_shape(plan, step);
      RecordedStep& copy =
          to.steps.emplace_back(RecordedStep{.step = step.step, .begin = step.begin, .end = step.end, .times = {}});
      copy.times.reserve(plan.sequence.size());
      for (const graph::TaskId id : plan.sequence) {
        const Position& position = plan.position[id.index()];
        copy.times.push_back(step.times[position.stream.index()][position.entry]);
      }
    }
  }
  return out;
}

std::vector<MemoryPoint> memory_curve(const Recording& recording, const RecordedStep& step) {
  std::map<std::int64_t, std::int64_t> change{{step.begin, 0}};
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    const RecordedTask& task = recording.tasks[i];
    if (task.allocates != 0) change[std::max(step.begin, step.times[i].begin)] += task.allocates;
    if (task.frees != 0) change[std::max(step.begin, step.times[i].end)] -= task.frees;
  }
  return summed(change);
}

std::vector<MemoryPoint> in_flight_curve(const Recording& recording, const RecordedStep& step) {
  std::map<std::int64_t, std::int64_t> change{{step.begin, 0}};
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    const RecordedTask& task = recording.tasks[i];
    if (task.channel.empty()) continue;
    constexpr double kMost = 1e15;  // so that sums don't overflow
    const auto bytes = static_cast<std::int64_t>(std::min(task.network_bytes, kMost));
    change[std::max(step.begin, step.times[i].begin)] += bytes;
    change[std::max(step.begin, step.times[i].end)] -= bytes;
  }
  return summed(change);
}

std::vector<RecordedWait> waits_between_streams(const Recording& recording) {
  // Positions count the tasks of a stream from 1. A clock holds, by stream, the last position that has ended when a
  // task begins.
  using Clock = std::vector<std::uint32_t>;
  const std::size_t streams = recording.streams.size(), tasks = recording.tasks.size();
  std::vector<std::uint32_t> position(tasks), last_of(streams, 0);
  std::vector<std::vector<const RecordedEdge*>> into(tasks);
  for (std::size_t i = 0; i < tasks; ++i) position[i] = ++last_of[recording.tasks[i].stream];
  for (const RecordedEdge& edge : recording.edges) {
    const bool across = recording.tasks[edge.from].stream != recording.tasks[edge.to].stream;
    if (across && edge.kind == graph::EdgeKind::completes_before) into[edge.to].push_back(&edge);
  }
  std::vector<RecordedWait> waits;
  std::vector<std::uint32_t> clocks(tasks * streams, 0);  // by task: at its end
  std::vector<Clock> clock_of(streams, Clock(streams, 0)), before_of(streams, Clock(streams, 0));
  for (std::size_t i = 0; i < tasks; ++i) {
    const std::uint32_t stream = recording.tasks[i].stream;
    Clock& known = clock_of[stream];
    Clock& known_before = before_of[stream];
    // A later task of a stream implies all earlier ones, so the latest are considered first.
    std::ranges::sort(into[i], std::greater(), [](const RecordedEdge* edge) { return edge->from; });
    for (const RecordedEdge* edge : into[i]) {
      const std::uint32_t from = recording.tasks[edge->from].stream;
      std::uint32_t& reached = edge->distance == 0 ? known[from] : known_before[from];
      if (position[edge->from] <= reached) continue;
      reached = position[edge->from];
      waits.push_back({edge->from, static_cast<std::uint32_t>(i), edge->distance});
      if (edge->distance > 0) continue;
      for (std::size_t s = 0; s < streams; ++s) known[s] = std::max(known[s], clocks[edge->from * streams + s]);
    }
    known[stream] = position[i];
    std::ranges::copy(known, clocks.begin() + static_cast<std::ptrdiff_t>(i * streams));
  }
  return waits;
}

BusyTimes busy_times(const Recording& recording, const RecordedStep& step) {
  std::vector<Intervals> streams(recording.streams.size());
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) streams[recording.tasks[i].stream].push_back(step.times[i]);
  return busy_times(std::move(streams), recording.streams);
}

OverlapSummary summarize(const Recording& recording, const RecordedStep& step) {
  return summarize(busy_times(recording, step), {step.begin, step.end});
}

}  // namespace weft::plan
