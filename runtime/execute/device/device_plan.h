// A plan that a team has loaded: its prepared entries, the transfers of each run, and its last traces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "kernels/cpu/matrix.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/device/device.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/state.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::execute {

/// Bytes that a piece of work reads or writes: a window whose offset is an address, and whose numbers count bytes.
struct Touch {
  graph::View window;
  bool writes = false;
};

/// The bytes that a task touches, given the addresses of its arguments.
std::vector<Touch> touches_of(const graph::Task& task, std::span<const cpu::Matrix> arguments);

/// Windows of memory as graph::overlaps() and graph::covers() take them: the rows of the first one that has several
/// begin at column 0, so that none of it wraps.
std::pair<graph::View, graph::View> by_columns(graph::View a, graph::View b);

/// The number of copies that steps use in turn: the host fills one, and the device fetches it, while a step uses the
/// other.
inline constexpr std::size_t kTransferCopies = 2;

/// Tensors of the state that are copied together, packed in pinned memory and in the same way on the device, so that a
/// copy stream moves them while the previous or next step computes.
struct TransferBlock {
  struct Part {
    std::byte* host = nullptr;
    std::byte* device = nullptr;  // where the step's tasks have it
    std::int64_t offset = 0, bytes = 0;
  };
  struct Copy {
    std::byte* pinned = nullptr;
    std::byte* staging = nullptr;
  };
  std::vector<Part> parts;
  std::int64_t bytes = 0;
  std::array<Copy, kTransferCopies> copies = {};
};

struct Transfers {
  TransferBlock uploads, downloads;
};

/// Of a plan whose results are looked at: a number for each, all ones before a run and where a result is finite.
struct FiniteTable {
  struct Result {
    graph::TaskId task;
    graph::View view;
  };
  std::vector<Result> results;
  std::vector<std::uint64_t> before, found;  // the host's
  std::byte* on_device = nullptr;

  std::int64_t bytes() const { return std::ssize(results) * static_cast<std::int64_t>(sizeof(std::uint64_t)); }
  /// Of the last run that was delivered.
  std::optional<NonFiniteResult> first(const plan::Plan& plan) const;
};

/// Scalars and inputs that the graph's tasks touch are copied to the device before a run; those that tasks write are
/// copied back. `device_state` is where the state begins on the device. A table of results goes along in both
/// directions.
Transfers find_transfers(const graph::Graph& graph, const State& state, std::byte* device_state, Device& device,
                         FiniteTable* table = nullptr);

/// From the host's tensors into a copy's pinned memory, and back.
void collect(const TransferBlock& block, std::size_t copy);
void deliver(const TransferBlock& block, std::size_t copy);

/// An entry of a plan, ready to be enqueued.
struct DeviceStep {
  plan::StreamId stream;
  std::uint32_t entry = 0;
  std::unique_ptr<DeviceTask> task;                // of a computation
  std::vector<std::unique_ptr<DeviceTask>> looks;  // at its results, right after it
  comm::CollectiveCall call{};                     // of a collective
  std::vector<DeviceEvent> waits;
  DeviceEvent signal;          // invalid: no other stream waits
  DeviceEvent mark;            // after a task without a signal, to show the progress of a long step
  std::vector<Touch> touches;  // while the plan is prepared
  // For consecutive tasks of a stream that the device runs as one: the first has the fused task, which includes the
  // others.
  std::unique_ptr<DeviceTask> fused;
  DeviceEvent fused_signal;  // of the last of them
  bool part_of_fused = false;
  std::size_t state_parts = 0;  // see find_state_parts(): so many must have left before it changes the state
  // Of gathers that are enqueued as one: the last has the places of all in the sequence, and their calls.
  std::vector<std::size_t> gathers;
  std::vector<comm::CollectiveCall> gather_calls;
  bool gathered_later = false;
};

struct DevicePlan {
  std::shared_ptr<const plan::Plan> plan;
  std::vector<DeviceStep> steps;  // in the plan's sequence
  Transfers transfers;
  FiniteTable finite;
  std::vector<plan::StepTrace> traces;  // the kept ones, oldest first
  std::int64_t runs = 0, last_step_ns = 0;
  bool communicates = false;         // it has collectives, or with a transport, that of another rank has
  bool long_steps = false;           // known after the second run
  std::array<bool, 2> has_run = {};  // with every kernel launched: not timed, timed
};

/// Prepares the looks at the results of all steps, whose plan is in `memory`, and the plan's table.
void add_finite_checks(DevicePlan& loaded, const PlanMemory& memory, Device& device);

/// Raises `bytes`, the kernels' scratch on each compute stream, to the largest need of the plan's tasks.
void count_kernel_scratch(const plan::Plan& plan, Device& device, std::vector<std::int64_t>& bytes);

/// Groups gathers that stand next to one another among the plan's collectives, on one stream, so that they are enqueued
/// together in the place of the last. It must need the end of none of the others, and no computation between them may:
/// then the sequence with all of them in the last one's place is an order of the same plan, and its waits hold. None
/// touches bytes that another writes, because a group has no order within. The groups depend on the plan alone, and the
/// ranks of a channel that lies within a pipeline stage have equal plans, so that their groups are equal. Call it
/// before fuse_horizontally().
void group_gathers(DevicePlan& loaded);

/// Horizontal fusion: fuses consecutive tasks of a stream where the device has a faster task for them. Each run is the
/// longest of tasks of one kind of which only the first waits, only the last signals, no result is looked at, and none
/// touches bytes that another writes, not even as parts of different tensors that share memory.
void fuse_horizontally(DevicePlan& loaded, Device& device);

/// The events of a traced step: when it began and ended, and two of each entry, in the plan's sequence.
struct TimedStep {
  std::int64_t step = 0;   // its number, for the trace
  std::int64_t begin = 0;  // steady nanoseconds
  DeviceEvent begin_time, end_time;
  std::span<const DeviceEvent> of_entries;
};

/// Adds the trace of a step that the device has ended; at most `kept` are kept.
void keep_trace(DevicePlan& loaded, Device& device, const TimedStep& timed, std::int64_t kept);

}  // namespace weft::execute
