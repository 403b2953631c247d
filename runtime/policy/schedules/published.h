// The published schedules of pipelines: `gpipe`, `1f1b`, `interleaved`, `zb-h1`, `zb-v` and `dualpipe-v`.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/policy/pipeline/pipeline.h"
#include "runtime/policy/pipeline/pipeline_policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Writes a rank's schedule unit by unit. In each kind of work, a chunk takes its micro-batches in rising order:
///
///   writer.begin(Part::warm_up);
///   writer.forward();                 // micro-batch 0, then 1, …
///   writer.take();                    // with reasons: "1f1b: warm-up, forward 1 of 1"
///
/// `reasons` is a table of schedule_reasons().
class ScheduleWriter {
 public:
  ScheduleWriter(const plan::ReasonTable& reasons, const PipelineShape& shape, std::int32_t rank);

  const PipelineShape& shape() const { return shape_; }
  std::int32_t rank() const { return rank_; }
  /// The part of the schedule to which the next units belong.
  void begin(Part part) { part_ = static_cast<std::uint64_t>(part); }
  void forward(std::int32_t chunk = 0) { add({next(Work::forward, chunk)}); }
  void input(std::int32_t chunk = 0) { add({next(Work::input, chunk)}); }
  void weight(std::int32_t chunk = 0) { add({next(Work::weight, chunk)}); }
  /// The whole backward pass in program order.
  void backward(std::int32_t chunk = 0) { add({next(Work::backward, chunk)}); }
  /// A forward and a whole backward pass whose tasks alternate.
  void forward_beside_backward(std::int32_t forward, std::int32_t backward);

  /// The number of micro-batches of which this work of the chunk is written. A whole backward pass counts as both
  /// parts.
  std::int32_t count(Work work, std::int32_t chunk = 0) const { return counts(chunk)[static_cast<std::size_t>(work)]; }
  /// The schedule so far, without micro-batches that the program doesn't have.
  RankSchedule take();

 private:
  using Counts = std::array<std::int32_t, 3>;  // by work
  const Counts& counts(std::int32_t chunk) const { return counts_[static_cast<std::size_t>(chunk)]; }
  Unit next(Work work, std::int32_t chunk);
  void add(ScheduledUnit scheduled);
  plan::Reason reason_of(const ScheduledUnit& scheduled) const;

  const plan::ReasonTable& reasons_;
  PipelineShape shape_;
  std::int32_t rank_;
  std::uint64_t part_ = 0;      // its word
  std::vector<Counts> counts_;  // by chunk
  RankSchedule schedule_;       // until take() reasons end before the place
};

/// A schedule that depends on nothing but the pipeline's shape. Below, a pipeline has p ranks and m micro-batches, F
/// and B are the times of a forward and a backward pass of a rank, and W is the part of B for gradients of weights, if
/// B is divided.
///
/// gpipe: all forward passes, then all backward passes. Huang et al., "GPipe: Efficient Training of Giant Neural
/// Networks using Pipeline Parallelism" (NeurIPS 2019), section 2.3. Each rank idles for (p − 1)(F + B), and keeps the
/// activations of m micro-batches. Backward passes run in the order of the forward passes, in which gradients are added
/// up.
///
/// 1f1b: one forward, one backward pass in turn after a short warm-up. Narayanan et al., "PipeDream: Generalized
/// Pipeline Parallelism for DNN Training" (SOSP 2019), section 3.2, with a flush at the end of each step as in
/// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC 2021),
/// section 2.2.1. Rank k begins with p − k − 1 forward passes. Each rank idles as long as with `gpipe`, and rank k
/// keeps the activations of only p − k micro-batches.
///
/// interleaved: 1F1B with several chunks of layers a rank; the paper of SC 2021, section 2.2.2. Each rank holds
/// `chunks` chunks (v), far apart in the model, and takes p micro-batches through one chunk, then the same through the
/// next. Rank k begins with 2(p − k − 1) + (v − 1)p forward passes of a chunk. Each rank idles for (p − 1)(F + B)/v.
/// Refuses numbers of micro-batches that p doesn't divide.
///
/// zb-h1: 1F1B with gradients of weights as a filling. Qi et al., "Zero Bubble Pipeline Parallelism" (ICLR 2024),
/// section 2.3: the handcrafted schedule ZB-H1. A rank sends the gradient of its input before it computes those of its
/// weights, and rank k puts the latter off by k micro-batches. Each rank keeps the activations of p micro-batches, as
/// the first one of 1F1B does, and idles for (p − 1)(F + B − 2W).
///
/// zb-v: the same paper, section 6: ZB-V, for F = W = B/2. Each rank has two chunks in a V: the first virtual stage and
/// the last are on rank 0. From its first unit to its last a rank never idles, with messages that take no time; rank k
/// begins (k/2)F later than rank 0. Each rank keeps the activations of p micro-batches. Fewer than 2p − 1 micro-batches
/// follow the schedule of 2p − 1, with the others left out.
///
/// dualpipe-v: DualPipeV of DeepSeek (github.com/deepseek-ai/DualPipe), which is half of the DualPipe of "DeepSeek-V3
/// Technical Report" (2412.19437), section 3.2.1, cut by Sea AI Lab ("DualPipe could be better without the Dual",
/// 2025). The chunks are in a V. In the middle of a step the tasks of a forward pass of one chunk alternate with those
/// of a backward pass of the other, so that one computes while the other communicates. DeepSeek's table gives (PP/2 −
/// 1)(F&B + B − 3W) of idle time and the activations of PP + 1 chunks, for PP = 2p virtual stages and times of a chunk,
/// of which F&B is that of a forward beside a backward pass. Refuses fewer than 2p micro-batches.
struct PublishedSchedule {
  plan::ReasonTable reasons;  // with the policy's name
  graph::PipelineChunks chunks;
  bool takes_chunks;  // a parameter `chunks`, whose default is the number above
  /// Throws UserError if the shape isn't one that the schedule takes.
  void (*write)(ScheduleWriter& writer);
};

/// All published schedules, in the order of the comment above.
std::span<const PublishedSchedule> published_schedules();

class PublishedPolicy final : public PipelinePolicy {
 public:
  PublishedPolicy(const PublishedSchedule& schedule, graph::PipelineChunks chunks);
  PublishedPolicy(const PublishedSchedule& schedule, PolicyParameters& parameters);
  std::string name() const override { return std::string(schedule_.reasons.name); }
  RankSchedule schedule(const PipelineShape& shape, std::int32_t rank) const;

 protected:
  PipelineSchedules schedules(const PipelineProgram& program, const PolicyOptions& options) const override;

 private:
  const PublishedSchedule& schedule_;
};

/// The policies whose schedules divide the layers into these chunks. A search starts from the best of their schedules.
std::vector<PublishedPolicy> published_policies(const graph::PipelineChunks& chunks);

}  // namespace weft::policy
