// The interface by which a machine file's measurements ask a device: times of computations, of the start of tasks, and
// of collectives; with the sizes to measure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "graph/operation.h"
#include "runtime/comm/communicator.h"
#include "runtime/cost/cost_model.h"
#include "runtime/cost/machine.h"

namespace weft::train {

/// The points that a machine file has and how often each is measured. Seconds of points are ignored.
struct MachineSizes {
  std::vector<cost::GemmPoint> gemms;
  std::vector<cost::AttentionPoint> attention;
  std::int64_t memory_elements = std::int64_t{1} << 24;  // floats of each array whose sum measures the memory
  std::vector<std::int64_t> collective_bytes;            // of the whole array
  std::int64_t tasks = 2000;                             // of the smallest ones, in a step
  std::int64_t product_beside = 4096;                    // rows and columns of products beside collectives on GPUs
  int repeats = 7;                                       // whose median counts
  int rounds_beside = 35;                                // of a collective beside a computation: a difference of times
  double least_seconds = 0.02;                           // of a repeat, which runs short computations several times
};

/// Collectives of a machine file are of fp32.
inline constexpr std::int64_t kCollectiveElementBytes = 4;

/// Elements that each of `ranks` ranks has of an array of about so many bytes: at least one.
std::int64_t part_of_array(std::int64_t bytes, std::int64_t ranks);

struct TimedCollective {
  comm::CollectiveKind kind = comm::CollectiveKind::all_reduce;
  std::int64_t bytes = 0;  // of the whole array, about; equal within a group
};

/// How collectives and the computations beside them slow each other down.
struct CostsBeside {
  double transport_cpu = 0;      // as in cost::Machine
  std::string transport_source;  // empty: the transport takes no core time
  std::vector<cost::Slowdown> slowdowns;
  std::string slowdown_source;
};

/// All calls are collective over the world.
class MachineTimer {
 public:
  virtual ~MachineTimer() = default;

  /// Fills in the machine's source and what the device tells of itself: cores and memory.
  virtual void describe(cost::Machine& machine) = 0;

  /// Seconds to start a task, from a step of `tasks` of the smallest ones.
  virtual double start_seconds(std::int64_t tasks) = 0;
  /// Seconds of a task without its start, the mean over the ranks. `dtype`: of the arguments to which the schema leaves
  /// the choice. After start_seconds().
  virtual double task_seconds(const graph::Operation& operation, DType dtype) = 0;

  /// Seconds of each collective on all groups at once, those of the slowest group. Calls `before` with the index of
  /// each.
  virtual std::vector<double> collective_seconds(const cost::RankGroups& groups,
                                                 std::span<const TimedCollective> collectives,
                                                 const std::function<void(std::size_t)>& before) = 0;
  /// Of products and of additions of `elements` floats beside all-reduces of an array of `bytes`. Calls `tell` with the
  /// name of each of the two.
  virtual CostsBeside costs_beside(const cost::RankGroups& groups, std::int64_t bytes, std::int64_t elements,
                                   const std::function<void(const std::string&)>& tell) = 0;
};

/// The CPUs, each rank on `threads` threads. `world` and `sizes` must outlive the result, here and below.
std::unique_ptr<MachineTimer> make_cpu_timer(comm::World& world, const MachineSizes& sizes, int threads);

/// The GPUs, one for each rank. Throws UserError if the program or the machine has no GPU, or ranks would share one.
std::unique_ptr<MachineTimer> make_gpu_timer(comm::World& world, const MachineSizes& sizes);

}  // namespace weft::train
