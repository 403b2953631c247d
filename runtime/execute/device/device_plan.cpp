#include "runtime/execute/device/device_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "runtime/execute/non_finite.h"

namespace weft::execute {
namespace {

bool conflict(const DeviceStep& a, const DeviceStep& b) {
  return std::ranges::any_of(a.touches, [&](const Touch& of_a) {
    return std::ranges::any_of(b.touches, [&](const Touch& of_b) {
      return (of_a.writes || of_b.writes) && std::apply(graph::overlaps, by_columns(of_a.window, of_b.window));
    });
  });
}

void fuse(std::span<DeviceStep* const> members, Device& device) {
  if (members.size() < 2) return;
  std::vector<const DeviceTask*> parts;
  for (const DeviceStep* step : members) parts.push_back(step->task.get());
  DeviceStep& first = *members.front();
  first.fused = device.fuse(parts);
  if (first.fused == nullptr) return;
  first.fused_signal = members.back()->signal;
  for (DeviceStep* step : members.subspan(1)) step->part_of_fused = true;
}

void add(TransferBlock& block, std::byte* host, std::byte* device, std::int64_t bytes) {
  block.parts.push_back({host, device, block.bytes, bytes});
  block.bytes += device_aligned(bytes);
}

void allocate(TransferBlock& block, Device& device) {
  if (block.bytes == 0) return;
  for (TransferBlock::Copy& copy : block.copies) {
    copy = {device.allocate_pinned(block.bytes), device.allocate(block.bytes)};
  }
}

}  // namespace

std::vector<Touch> touches_of(const graph::Task& task, std::span<const cpu::Matrix> arguments) {
  std::vector<Touch> touches;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const cpu::Matrix& m = arguments[i];
    const auto element = static_cast<std::int64_t>(size_of(m.dtype));
    const graph::View window{
        {}, std::bit_cast<std::intptr_t>(m.data), m.rows, m.cols * element, m.row_stride * element};
    touches.push_back({window, task.accesses[i].mode != graph::AccessMode::read});
  }
  return touches;
}

std::pair<graph::View, graph::View> by_columns(graph::View a, graph::View b) {
  const graph::View& wide = a.rows > 1 ? a : b;
  const std::int64_t column = wide.row_stride > 0 ? wide.offset % wide.row_stride : 0;
  a.offset -= column, b.offset -= column;
  return {a, b};
}

Transfers find_transfers(const graph::Graph& graph, const State& state, std::byte* device_state, Device& device,
                         FiniteTable* table) {
  std::vector<bool> touched(graph.tensors().size()), written(graph.tensors().size());
  for (const graph::Task& task : graph.tasks()) {
    for (const graph::Access& access : task.accesses) {
      touched[access.view.tensor.index()] = true;
      if (access.mode != graph::AccessMode::read) written[access.view.tensor.index()] = true;
    }
  }
  Transfers found;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const graph::Tensor& tensor = graph.tensors()[t];
    if (!touched[t] || (tensor.role != graph::Role::scalar && tensor.role != graph::Role::input)) continue;
    std::byte* const host = state.data(tensor.name);
    std::byte* const place = device_state + state.offset(tensor.name);
    add(found.uploads, host, place, tensor.bytes());
    if (written[t]) add(found.downloads, host, place, tensor.bytes());
  }
  if (table != nullptr && !table->results.empty()) {
    add(found.uploads, reinterpret_cast<std::byte*>(table->before.data()), table->on_device, table->bytes());
    add(found.downloads, reinterpret_cast<std::byte*>(table->found.data()), table->on_device, table->bytes());
  }
  allocate(found.uploads, device);
  allocate(found.downloads, device);
  return found;
}

void collect(const TransferBlock& block, std::size_t copy) {
  for (const TransferBlock::Part& part : block.parts) {
    std::memcpy(block.copies[copy].pinned + part.offset, part.host, static_cast<std::size_t>(part.bytes));
  }
}

void deliver(const TransferBlock& block, std::size_t copy) {
  for (const TransferBlock::Part& part : block.parts) {
    std::memcpy(part.host, block.copies[copy].pinned + part.offset, static_cast<std::size_t>(part.bytes));
  }
}

std::optional<NonFiniteResult> FiniteTable::first(const plan::Plan& plan) const {
  const Result* first = nullptr;
  std::uint64_t element = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (found[i] == before[i] || (first != nullptr && first->task.index() <= results[i].task.index())) continue;
    first = &results[i], element = found[i];
  }
  if (first == nullptr) return std::nullopt;
  return non_finite_result(plan, first->task, first->view, static_cast<std::int64_t>(element));
}

void add_finite_checks(DevicePlan& loaded, const PlanMemory& memory, Device& device) {
  FiniteTable& table = loaded.finite;
  std::vector<std::vector<CheckedResult>> of_steps;
  for (const graph::TaskId id : loaded.plan->sequence) {
    of_steps.push_back(checked_results(memory, *loaded.plan, id));
    for (const CheckedResult& result : of_steps.back()) table.results.push_back({id, result.view});
  }
  table.before.assign(table.results.size(), std::numeric_limits<std::uint64_t>::max());
  table.found = table.before;
  table.on_device = device.allocate(std::max(table.bytes(), kDeviceAlignment));
  auto* first = reinterpret_cast<std::uint64_t*>(table.on_device);
  for (std::size_t i = 0; i < of_steps.size(); ++i) {
    for (const CheckedResult& result : of_steps[i]) {
      loaded.steps[i].looks.push_back(device.prepare_finite_check(result.matrix, result.rows, first++));
    }
  }
}

void count_kernel_scratch(const plan::Plan& plan, Device& device, std::vector<std::int64_t>& bytes) {
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    if (!plan.streams[s].stream.compute) continue;
    if (bytes.size() <= s) bytes.resize(s + 1);
    for (const plan::Entry& entry : plan.streams[s].entries) {
      bytes[s] = std::max(bytes[s], device.scratch_bytes(*plan.graph, plan.graph->task(entry.task)));
    }
  }
}

void group_gathers(DevicePlan& loaded) {
  std::vector<std::size_t> group;
  const auto waits_for_it = [&](const DeviceStep& step) {
    return std::ranges::any_of(group, [&](std::size_t i) {
      const DeviceEvent signal = loaded.steps[i].signal;
      return signal.valid() && std::ranges::find(step.waits, signal) != step.waits.end();
    });
  };
  const auto close = [&] {
    if (group.size() > 1) {
      DeviceStep& last = loaded.steps[group.back()];
      for (const std::size_t i : group) {
        last.gather_calls.push_back(loaded.steps[i].call);
        loaded.steps[i].gathered_later = i != group.back();
      }
      last.gathers = group;
    }
    group.clear();
  };
  for (std::size_t i = 0; i < loaded.steps.size(); ++i) {
    const DeviceStep& step = loaded.steps[i];
    const bool needs = waits_for_it(step);
    if (step.task != nullptr && !needs) continue;
    const bool joins = !needs && !group.empty() && step.stream == loaded.steps[group.back()].stream &&
                       std::ranges::none_of(group, [&](std::size_t j) { return conflict(loaded.steps[j], step); });
    const graph::Channel channel = loaded.plan->streams[step.stream.index()].stream.channel;
    const bool groupable = step.task == nullptr && step.call.kind == comm::CollectiveKind::all_gather &&
                           channel != graph::Channel::world && !graph::is_message(channel);
    if (!joins || !groupable) close();
    if (groupable) group.push_back(i);
  }
  close();
}

void fuse_horizontally(DevicePlan& loaded, Device& device) {
  const plan::Plan& plan = *loaded.plan;
  const auto kind_of = [&](const DeviceStep& step) {
    return plan.graph->task(plan.streams[step.stream.index()].entries[step.entry].task).operation.index();
  };
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    if (!plan.streams[s].stream.compute) continue;
    std::vector<DeviceStep*> run;
    const auto joins = [&](const DeviceStep& next) {
      return !run.empty() && kind_of(next) == kind_of(*run.front()) && next.waits.empty() &&
             !run.back()->signal.valid() && run.back()->looks.empty() &&
             std::ranges::none_of(run, [&](const DeviceStep* other) { return conflict(*other, next); });
    };
    for (DeviceStep& step : loaded.steps) {
      if (step.stream != plan::StreamId(s)) continue;
      if (!joins(step)) {
        fuse(run, device);
        run.clear();
      }
      run.push_back(&step);
    }
    fuse(run, device);
  }
  for (DeviceStep& step : loaded.steps) step.touches = std::vector<Touch>();
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
