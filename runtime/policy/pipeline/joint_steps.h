// The tasks that several rank classes of a pipeline start together: the two ends of messages, and collectives of
// channels that stages share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "runtime/policy/pipeline/pipeline.h"

namespace weft::policy {

/// A task of a class.
struct ClassTask {
  std::uint32_t rank = 0, task = 0;
};

/// Tasks of different classes that start at the same moment.
struct JointStep {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<ClassTask> members;
  std::uint32_t next = kNone;  // the step that comes after it on a shared channel
  bool has_previous = false;
};

/// Are the members of the channel's groups in several stages?
bool is_shared_by_stages(graph::Channel channel);

class JointSteps {
 public:
  static constexpr std::uint32_t kNone = JointStep::kNone;

  /// Messages are paired by their numbers, and the n-th collectives of a shared channel with each other. A message
  /// without its other end is a step alone; the joint check refuses it.
  explicit JointSteps(PipelineClasses classes);

  const std::vector<JointStep>& steps() const { return steps_; }
  /// The step that a task belongs to; kNone if it starts alone.
  std::uint32_t of(std::size_t rank, std::size_t task) const { return step_of_[rank][task]; }

 private:
  void add(std::uint32_t step, std::uint32_t rank, std::uint32_t task);
  void pair_messages(PipelineClasses classes);
  void join_collectives(PipelineClasses classes);

  std::vector<JointStep> steps_;
  std::vector<std::vector<std::uint32_t>> step_of_;
};

}  // namespace weft::policy
