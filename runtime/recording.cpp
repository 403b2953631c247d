#include "runtime/recording.h"

#include <algorithm>
#include <map>
#include <utility>

#include "graph/analysis.h"
#include "graph/groups.h"
#include "runtime/memory_report.h"

namespace weft {
namespace {

RecordedTask describe(const Plan& plan, TaskId id, const std::optional<Grid>& grid) {
  const Task& task = plan.graph->task(id);
  const Position& position = plan.position[id.index()];
  const Entry& entry = plan.streams[position.stream.index()].entries[position.entry];
  const Work work = work_of(*plan.graph, task);
  RecordedTask out{.name = task.name,
                   .kind = std::string(kind_name(task.operation)),
                   .style = kind_class(task.operation),
                   .stream = position.stream.value,
                   .phase = task.phase,
                   .layer = task.layer,
                   .micro_batch = task.micro_batch,
                   .flops = work.flops,
                   .bytes = work.bytes,
                   .network_bytes = work.network_bytes};
  if (const Channel* channel = channel_of(task.operation)) {
    out.channel = to_string(*channel);
    if (grid) out.group_size = static_cast<std::int64_t>(group_ranks(*grid, *channel, 0).size());
  }
  if (entry.reason < plan.reasons.size()) out.reason = plan.reasons[entry.reason];
  return out;
}

void mark_memory(const Plan& plan, std::vector<RecordedTask>& tasks) {
  const Liveness live = liveness(*plan.graph, plan.sequence);
  const std::span<const Tensor> tensors = plan.graph->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Lifetime& life = live.lifetimes[i];
    if (life.first < 0 || is_state(tensors[i].role)) continue;
    tasks[static_cast<std::size_t>(life.first)].allocates += tensors[i].bytes();
    tasks[static_cast<std::size_t>(life.last)].frees += tensors[i].bytes();
  }
}

}  // namespace

Recording record(const Plan& plan, std::span<const RankTrace> traced, int world, const std::optional<Grid>& grid) {
  Recording out{.policy = plan.policy,
                .world = world,
                .state_bytes = memory_report(plan).state,
                .plan_fingerprint = plan.fingerprint};
  for (const StreamPlan& stream : plan.streams) out.streams.push_back({stream.stream.name, stream.stream.compute});
  std::vector<std::uint32_t> place(plan.sequence.size());  // by task id
  for (const TaskId id : plan.sequence) {
    place[id.index()] = static_cast<std::uint32_t>(out.tasks.size());
    out.tasks.push_back(describe(plan, id, grid));
  }
  mark_memory(plan, out.tasks);
  const auto add_edges = [&](std::span<const Edge> edges) {
    for (const Edge& edge : edges) {
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
      for (const TaskId id : plan.sequence) {
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
  std::vector<MemoryPoint> curve;
  std::int64_t bytes = 0;
  for (const auto& [time, difference] : change) curve.push_back({time, bytes += difference});
  return curve;
}

BusyTimes busy_times(const Recording& recording, const RecordedStep& step) {
  std::vector<Intervals> streams(recording.streams.size());
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    streams[recording.tasks[i].stream].push_back({step.times[i].begin, step.times[i].end});
  }
  std::vector<bool> compute;
  for (const RecordedStream& stream : recording.streams) compute.push_back(stream.compute);
  return busy_times(std::move(streams), compute);
}

OverlapSummary summarize(const Recording& recording, const RecordedStep& step) {
  return summarize(busy_times(recording, step), {step.begin, step.end});
}

}  // namespace weft
