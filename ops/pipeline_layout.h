// Which layers and parameters of a model each stage of a pipeline has.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/grid.h"
#include "graph/operation.h"
#include "ops/model_config.h"
#include "ops/sharding.h"

namespace weft::ops {

/// The layers of each stage in turn. Stage 0 has the embeddings too, the last one the final norm and the head.
///
///   PipelineLayout layout{2, {}, {5, 3}};   // two ranks: layers 0 to 4, and 5 to 7
struct PipelineLayout {
  std::int64_t ranks = 1;  // on the axis pipe
  graph::PipelineChunks chunks;
  std::vector<std::int64_t> layers;  // by stage; empty: all layers in one stage

  std::int64_t stages() const { return chunks.stages(ranks); }
  std::int64_t rank_of(std::int64_t stage) const { return chunks.rank_of_stage(stage, ranks); }
  std::int64_t last_rank() const { return rank_of(stages() - 1); }
  std::int64_t first_layer(std::int64_t stage) const;
  /// The number after the stage's last layer.
  std::int64_t end_layer(std::int64_t stage) const;
  std::int64_t stage_of_layer(std::int64_t layer) const;
  friend bool operator==(const PipelineLayout&, const PipelineLayout&) = default;
};

/// The ranks of a pipeline that a graph is made for.
struct PipelinePart {
  PipelineLayout layout;
  std::int64_t pipe = 0;  // their coordinate
};

/// The layout with the least time of the longest stage, by the floating-point operations of layers and head; of equal
/// ones the layout with fewer layers in early stages, whose activations live longest.
PipelineLayout balanced_layout(const ModelConfig& model, std::int64_t seq_len, std::int64_t ranks,
                               graph::PipelineChunks chunks = {});

/// The floating-point operations of the rank that has most, as a multiple of the ranks' mean.
double imbalance(const ModelConfig& model, std::int64_t seq_len, const PipelineLayout& layout);

/// Throws UserError unless the layout divides the model: layers in all, at least one in each stage.
void validate_layout(const ModelConfig& model, const PipelineLayout& layout);

/// The message channel on which a rank sends what `stage` − 1 made to `stage`, and the one for the gradient that
/// `stage` sends back. Each end calls it by its own name (graph::other_end()).
graph::Channel forward_channel(const PipelineLayout& layout, std::int64_t stage);
graph::Channel backward_channel(const PipelineLayout& layout, std::int64_t stage);

/// Whether the ranks at `pipe` have a parameter. A tied embedding is on the ranks of the first and of the last stage.
bool holds(const ModelConfig& model, const PipelineLayout& layout, const ParameterSpec& spec, std::int64_t pipe);

/// Whether the ranks at `pipe` hold a parameter that the ranks of the first stage hold too, and update, count and
/// store.
bool is_copy(const ModelConfig& model, const PipelineLayout& layout, const ParameterSpec& spec, std::int64_t pipe);

/// The shards of the parameters that the ranks at `pipe` have. A tied embedding's copy is a replica.
std::vector<ParameterShard> shards_of_stage(const ModelConfig& model, const PipelineLayout& layout,
                                            std::vector<ParameterShard> shards, std::int64_t pipe);

}  // namespace weft::ops
