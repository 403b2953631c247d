#include "ops/pipeline_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "base/error.h"

namespace weft::ops {
namespace {

/// -1 for a parameter outside the layers.
std::int64_t layer_of(std::string_view name) {
  std::int64_t layer = -1;
  if (name.starts_with('L')) std::from_chars(name.data() + 1, name.data() + name.size(), layer);
  return layer;
}

bool is_embedding(std::string_view name) {
  return name.starts_with("wte.") || name.starts_with("wpe.");
}

/// Floating-point operations of a token's forward pass.
struct StageCosts {
  double layer = 0, head = 0;
};

StageCosts costs_of(const ModelConfig& model, std::int64_t seq_len) {
  double layers = 0;
  for (const ParameterSpec& spec : model_parameters(model)) {
    if (layer_of(spec.name) < 0 || !spec.matrix) continue;
    layers += 2 * graph::as_double(spec.rows * spec.cols) * share_of_tokens(model, spec);
  }
  const double attention = 2 * graph::as_double(model.query_cols() * seq_len);
  return {layers / graph::as_double(model.layers) + attention, 2 * graph::as_double(model.hidden * model.vocab)};
}

}  // namespace

std::int64_t PipelineLayout::first_layer(std::int64_t stage) const {
  return std::accumulate(layers.begin(), layers.begin() + stage, std::int64_t{0});
}

std::int64_t PipelineLayout::end_layer(std::int64_t stage) const {
  return first_layer(stage + 1);
}

std::int64_t PipelineLayout::stage_of_layer(std::int64_t layer) const {
  std::int64_t stage = 0;
  while (stage + 1 < stages() && end_layer(stage) <= layer) ++stage;
  return stage;
}

PipelineLayout balanced_layout(const ModelConfig& model, std::int64_t seq_len, std::int64_t ranks,
                               graph::PipelineChunks chunks) {
  PipelineLayout layout{ranks, chunks, {}};
  const std::int64_t stages = layout.stages();
  if (stages == 1) return {ranks, chunks, {model.layers}};
  const StageCosts costs = costs_of(model, seq_len);
  const std::int64_t others = stages - 1;
  double best = -1;
  std::int64_t last = 1;
  for (std::int64_t k = 1; k <= model.layers - others; ++k) {
    const double longest = std::max(graph::as_double((model.layers - k + others - 1) / others) * costs.layer,
                                    graph::as_double(k) * costs.layer + costs.head);
    if (best < 0 || longest <= best) best = longest, last = k;
  }
  const std::int64_t rest = std::max<std::int64_t>(0, model.layers - last);
  for (std::int64_t stage = 0; stage < others; ++stage) {
    layout.layers.push_back(rest / others + (stage >= others - rest % others ? 1 : 0));
  }
  layout.layers.push_back(last);
  return layout;
}

double imbalance(const ModelConfig& model, std::int64_t seq_len, const PipelineLayout& layout) {
  const StageCosts costs = costs_of(model, seq_len);
  std::vector<double> of_rank(static_cast<std::size_t>(layout.ranks), 0);
  for (std::int64_t stage = 0; stage < layout.stages(); ++stage) {
    of_rank[static_cast<std::size_t>(layout.rank_of(stage))] +=
        graph::as_double(layout.layers[static_cast<std::size_t>(stage)]) * costs.layer;
  }
  of_rank[static_cast<std::size_t>(layout.last_rank())] += costs.head;
  const double all = std::accumulate(of_rank.begin(), of_rank.end(), 0.0);
  return *std::ranges::max_element(of_rank) * graph::as_double(layout.ranks) / all;
}

void validate_layout(const ModelConfig& model, const PipelineLayout& layout) {
  const std::int64_t stages = layout.stages();
  if (layout.chunks.placement == graph::ChunkPlacement::v && layout.chunks.chunks != 2) {
    throw UserError(
        fmt::format("pipe-chunks = {} in a pipeline that turns back at its last rank", layout.chunks.chunks),
        "2 chunks a rank", "set pipe-chunks = 2, or choose a policy that doesn't place stages in a V");
  }
  if (stages > model.layers) {
    throw UserError(fmt::format("{} pipeline stages (pipe = {}, {} on each rank) for {} layers", stages, layout.ranks,
                                layout.chunks.chunks, model.layers),
                    "at least one layer in each stage", "choose a smaller pipe or pipe-chunks");
  }
  const std::int64_t sum = std::accumulate(layout.layers.begin(), layout.layers.end(), std::int64_t{0});
  const bool positive = std::ranges::all_of(layout.layers, [](std::int64_t layers) { return layers >= 1; });
  if (std::ssize(layout.layers) == stages && sum == model.layers && positive) return;
  throw UserError(fmt::format("stages = {}: {} stages of {} layers in all", fmt::join(layout.layers, ","),
                              layout.layers.size(), sum),
                  fmt::format("{} stages of at least one layer, {} layers in all", stages, model.layers),
                  "leave stages out for a balanced division");
}

graph::Channel forward_channel(const PipelineLayout& layout, std::int64_t stage) {
  const bool falls = layout.chunks.placement == graph::ChunkPlacement::v && stage >= layout.ranks;
  return falls ? graph::Channel::send_previous : graph::Channel::send_next;
}

graph::Channel backward_channel(const PipelineLayout& layout, std::int64_t stage) {
  return forward_channel(layout, stage) == graph::Channel::send_next ? graph::Channel::send_previous
                                                                     : graph::Channel::send_next;
}

bool holds(const ModelConfig& model, const PipelineLayout& layout, const ParameterSpec& spec, std::int64_t pipe) {
  if (layout.ranks == 1) return true;
  if (const std::int64_t layer = layer_of(spec.name); layer >= 0)
    return layout.rank_of(layout.stage_of_layer(layer)) == pipe;
  if (!is_embedding(spec.name)) return layout.last_rank() == pipe;
  return layout.rank_of(0) == pipe || is_copy(model, layout, spec, pipe);
}

bool is_copy(const ModelConfig& model, const PipelineLayout& layout, const ParameterSpec& spec, std::int64_t pipe) {
  return model.tied && spec.name == "wte.weight" && layout.last_rank() == pipe && layout.rank_of(0) != pipe;
}

std::vector<ParameterShard> shards_of_stage(const ModelConfig& model, const PipelineLayout& layout,
                                            std::vector<ParameterShard> shards, std::int64_t pipe) {
  std::erase_if(shards, [&](const ParameterShard& shard) { return !holds(model, layout, *shard.spec, pipe); });
  for (ParameterShard& shard : shards) {
    if (!is_copy(model, layout, *shard.spec, pipe)) continue;
    // Whatever the number is, it isn't 0: another rank counts and stores these elements.
    ++shard.replica;
    ++shard.update_replica;
  }
  return shards;
}

}  // namespace weft::ops
