// Policies `pipe-list` and `pipe-search`: sequences of units of all ranks of a pipeline. The first makes them by list
// schedules, the second improves them by a search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/policy/pipeline/pipeline_policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Whenever a rank is idle in virtual time, it starts a unit of work that can begin: a forward pass, or either part of
/// a backward pass, of one chunk and micro-batch. Each of three rules that choose (pipeline/unit_list.h) is tried with
/// several numbers of forward passes in flight. The shortest step in the model of units (pipeline/unit_model.h) counts;
/// if any keeps the memory limits of all ranks, the shortest one that does. `chunks` and `placement` (loop or v) are of
/// the layers.
class PipeListPolicy final : public PipelinePolicy {
 public:
  static constexpr plan::ReasonTable kReasons = schedule_reasons("pipe-list");
  PipeListPolicy() = default;
  explicit PipeListPolicy(graph::PipelineChunks chunks) { chunks_ = chunks; }
  explicit PipeListPolicy(PolicyParameters& parameters) : PipeListPolicy(chunks_parameter(parameters)) {}
  std::string name() const override { return "pipe-list"; }

 protected:
  PipelineSchedules schedules(const PipelineProgram& program, const PolicyOptions& options) const override;
  bool keeps_limits() const override { return true; }
};

/// Starts from the best of the list schedules of `pipe-list` and of the published schedules for the same chunks, as the
/// model of units (pipeline/unit_model.h) tells. Each of `moves` moves takes a unit of a rank, the units at one
/// place of all ranks, or the same work of a stage on many micro-batches, to another place of its sequence; or it takes
/// a unit that could begin while its rank is idle to that place. A move is kept if the step isn't longer in the model
/// and no rank exceeds its memory limit, or if it is longer by little early in the search, by the rule of `anneal`. So
/// the step is never longer in the model than that of any of these schedules. `seed`: by default the options' seed.
/// `chunks` and `placement` (loop or v) are of the layers.
class PipeSearchPolicy final : public PipelinePolicy {
 public:
  static constexpr plan::ReasonTable kReasons = schedule_reasons("pipe-search");
  PipeSearchPolicy() = default;
  PipeSearchPolicy(graph::PipelineChunks chunks, std::int64_t moves, std::uint64_t seed) : moves_(moves), seed_(seed) {
    chunks_ = chunks;
  }
  explicit PipeSearchPolicy(PolicyParameters& parameters);
  std::string name() const override { return "pipe-search"; }

 protected:
  PipelineSchedules schedules(const PipelineProgram& program, const PolicyOptions& options) const override;
  bool keeps_limits() const override { return true; }

 private:
  std::int64_t moves_ = 2000;
  std::optional<std::uint64_t> seed_;
};

}  // namespace weft::policy
