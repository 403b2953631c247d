#include "runtime/execute/device/device_plan.h"

#include <algorithm>
#include <utility>

#include "runtime/execute/device/horizontal_fusion.h"

namespace weft::execute {
namespace {

void fuse(std::span<DeviceStep* const> members, Device& device) {
  std::vector<const DeviceTask*> parts;
  for (const DeviceStep* step : members) parts.push_back(step->task.get());
  DeviceStep& first = *members.front();
  first.fused = device.fuse(parts);
  if (first.fused == nullptr) return;
  first.fused_signal = members.back()->signal;
  for (DeviceStep* step : members.subspan(1)) step->part_of_fused = true;
}

}  // namespace

void count_kernel_scratch(const plan::Plan& plan, Device& device, std::vector<std::int64_t>& bytes) {
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    if (!plan.streams[s].stream.compute) continue;
    if (bytes.size() <= s) bytes.resize(s + 1);
    for (const plan::Entry& entry : plan.streams[s].entries) {
      bytes[s] = std::max(bytes[s], device.scratch_bytes(*plan.graph, plan.graph->task(entry.task)));
    }
  }
}

void fuse_horizontally(DevicePlan& loaded, Device& device) {
  const plan::Plan& plan = *loaded.plan;
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    if (!plan.streams[s].stream.compute) continue;
    std::vector<DeviceStep*> steps;
    std::vector<FusionCandidate> entries;
    for (DeviceStep& step : loaded.steps) {
      if (step.stream != plan::StreamId(s)) continue;
      const graph::TaskId task = plan.streams[s].entries[step.entry].task;
      steps.push_back(&step);
      entries.push_back({plan.graph->task(task).operation.index(), !step.waits.empty(), step.signal.valid(),
                         std::exchange(step.touches, {})});
    }
    for (const FusibleRun& run : fusible_runs(entries)) {
      const std::span<DeviceStep* const> members(steps.begin() + static_cast<std::ptrdiff_t>(run.begin),
                                                 run.end - run.begin);
      fuse(members, device);
    }
  }
}

void keep_trace(DevicePlan& loaded, Device& device, const TimedStep& timed, std::int64_t kept) {
  plan::StepTrace trace;
  trace.step = timed.step;
  trace.begin = timed.begin;
  trace.end = trace.begin + std::max<std::int64_t>(device.elapsed_ns(timed.begin_time, timed.end_time), 1);
  for (const plan::StreamPlan& stream : loaded.plan->streams) trace.times.emplace_back(stream.entries.size());
  for (std::size_t i = 0; i < loaded.steps.size(); ++i) {
    const DeviceStep& of = loaded.steps[i];
    plan::TaskTime& time = trace.times[of.stream.index()][of.entry];
    time.begin = trace.begin + device.elapsed_ns(timed.begin_time, timed.of_entries[2 * i]);
    time.end = trace.begin + device.elapsed_ns(timed.begin_time, timed.of_entries[2 * i + 1]);
  }
  if (static_cast<std::int64_t>(loaded.traces.size()) == kept) loaded.traces.erase(loaded.traces.begin());
  loaded.traces.push_back(std::move(trace));
}

}  // namespace weft::execute
