// Where the time of a step goes on the ranks of each class: computing, idle, and communicating by channel.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/intervals.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::simulate {

/// Times of one communication stream in a step of one rank, in nanoseconds.
struct ChannelTimes {
  std::string stream;
  double busy_ns = 0, exposed_ns = 0;
};

std::vector<ChannelTimes> channel_times(const plan::Plan& plan, const plan::StepTrace& step);

/// Σ of the costs of a graph's computations and of its collectives, in nanoseconds.
struct AloneTimes {
  double compute_ns = 0, communication_ns = 0;
};

AloneTimes alone_times(const graph::Graph& graph, const cost::TaskCosts& costs);

/// The times of one class in a step, in nanoseconds. The idle times add up to the bubble: the step without the times at
/// which a computation runs.
struct ClassTimes {
  double compute = 0;
  /// Idle until the first backward work begins; after it until the last forward work ends; then until the last backward
  /// work ends; and until the step's end. A rank without forward or backward work has only the last.
  double idle_warm_up = 0, idle_steady = 0, idle_drain = 0, idle_end = 0;
  /// Messages and collectives in flight, from when all their members have arrived; exposed: while no computation runs.
  double communication = 0, exposed = 0;

  double idle() const { return idle_warm_up + idle_steady + idle_drain + idle_end; }
  /// The share of communication that computations hide; 0 without communication.
  double overlap_fraction() const { return communication > 0 ? (communication - exposed) / communication : 0; }
};

/// Idle time of all classes as a share of their steps.
double bubble_share(std::span<const ClassTimes> classes);

/// A step of all classes: their plans, and the last step of the rank that stands for each.
struct PlayedClasses {
  std::vector<const plan::Plan*> plans = {};
  std::vector<const plan::StepTrace*> steps = {};

  /// Where the tasks are that start together with one of a communication stream, itself among them.
  struct Member {
    std::size_t of_class;
    plan::Position at;
  };
  std::vector<Member> members(std::size_t of_class, plan::Position at) const;
  /// When a task of a communication stream was in flight: from the begin of the last of its members among the classes.
  Interval flight(std::size_t of_class, plan::Position at) const;
};

/// By class.
std::vector<ClassTimes> class_times(const PlayedClasses& played);

}  // namespace weft::simulate
