// Models and steps small enough to examine task by task, and queries on their graphs for tests.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/lower.h"

namespace weft::testing {

struct ModelSizes {
  std::int64_t layers = 2, hidden = 16, heads = 4, kv_heads = 2, ffn = 24, vocab = 19, context = 8;
};

/// These sizes as gpt2, which has a tied head and keys and values of every head, or as llama with an untied head. A
/// family of experts has four of them.
inline ops::ModelConfig of_family(ops::Family family, const ModelSizes& sizes) {
  ops::ModelConfig model;
  model.family = family;
  model.layers = sizes.layers;
  model.hidden = sizes.hidden;
  model.heads = sizes.heads;
  model.kv_heads = family == ops::Family::gpt2 ? sizes.heads : sizes.kv_heads;
  model.ffn = sizes.ffn;
  model.vocab = sizes.vocab;
  model.context = sizes.context;
  model.tied = family == ops::Family::gpt2;
  if (model.parts().has_key("experts")) model.experts = 4;
  return model;
}

/// Two layers of width 16; llama with two key/value heads and an untied head, gpt2 with a tied one.
inline ops::ModelConfig tiny_model(ops::Family family) {
  return of_family(family, {});
}

/// The model types of Hugging Face, at the sizes of tiny_model().
enum class ModelKind : std::uint8_t {
  gpt2,
  llama,
  llama_biased,
  mistral,
  qwen2,
  qwen3,
  ministral,
  phi3,
  smollm3,
  granite,
  olmo2,
  olmo3,
  gemma,
  gemma3_text,
  mixtral,
  qwen3_moe
};

inline const char* to_string(ModelKind kind) {
  constexpr const char* kNames[] = {"gpt2",      "llama",       "llama_biased", "mistral",  "qwen2", "qwen3",
                                    "ministral", "phi3",        "smollm3",      "granite",  "olmo2", "olmo3",
                                    "gemma",     "gemma3_text", "mixtral",      "qwen3_moe"};
  return kNames[static_cast<std::size_t>(kind)];
}

inline constexpr auto kEveryKind = std::to_array<ModelKind>(
    {ModelKind::gpt2, ModelKind::llama, ModelKind::llama_biased, ModelKind::mistral, ModelKind::qwen2, ModelKind::qwen3,
     ModelKind::ministral, ModelKind::phi3, ModelKind::smollm3, ModelKind::granite, ModelKind::olmo2, ModelKind::olmo3,
     ModelKind::gemma, ModelKind::gemma3_text, ModelKind::mixtral, ModelKind::qwen3_moe});

inline ops::Family family_of(ModelKind kind) {
  for (const ops::FamilyParts& parts : ops::all_families()) {
    if (std::string_view(to_string(kind)).starts_with(parts.name) && kind != ModelKind::gemma3_text)
      return parts.family;
  }
  return kind == ModelKind::gemma3_text ? ops::Family::gemma3 : ops::Family::llama;
}

/// The families as a test's parameter, and the names of its cases where the parameter has one.
inline const auto kFamilies = ::testing::Values(ops::Family::gpt2, ops::Family::llama);
inline const auto kNameOfParam = [](const auto& info) { return std::string(to_string(info.param)); };

/// "x2data3", for names of cases: the axes with several ranks; "one" if there are none.
inline std::string name_of(const graph::Grid& grid) {
  std::string name;
  for (const graph::Axis axis :
       {graph::Axis::x, graph::Axis::y, graph::Axis::z, graph::Axis::data, graph::Axis::pipe}) {
    if (grid.on(axis) > 1) name += std::string(graph::to_string(axis)) + std::to_string(grid.on(axis));
  }
  if (grid.context > 1) name += "context" + std::to_string(grid.context);
  if (grid.expert > 1) name += "expert" + std::to_string(grid.expert);
  return name.empty() ? "one" : name;
}

/// Windows shorter than the context, heads wider than hidden / heads, and all kinds of scaled rotary frequencies.
inline ops::ModelConfig tiny_model(ModelKind kind, const ModelSizes& sizes = {}) {
  ops::ModelConfig model = of_family(family_of(kind), sizes);
  switch (kind) {
    case ModelKind::gpt2:
    case ModelKind::llama:
    case ModelKind::mixtral:
      break;
    case ModelKind::ministral:
      model.window = 4;
      model.full_layers = ops::LayerSet({1});
      break;
    case ModelKind::phi3:
      model.window = 3;
      break;
    case ModelKind::smollm3:
      model.unrotated_layers = ops::LayerSet({1});
      model.qkv_bias = model.out_bias = true;
      break;
    case ModelKind::granite:
      model.attention_scale = 0.4F;
      model.embedding_factor = 1.5F;
      model.residual_factor = 0.75F;
      model.logits_divisor = 2.0F;
      break;
    case ModelKind::olmo2:
      model.qkv_bias = model.out_bias = true;
      break;
    case ModelKind::olmo3:
      model.window = 3;
      model.full_layers = ops::LayerSet({1});
      model.rope_scaling = ops::RopeKind::yarn;
      model.rope_scaling_factor = 4.0F;
      model.rope_low_freq_factor = 1.0F, model.rope_high_freq_factor = 32.0F;
      model.rope_original_context = 100.0F;
      model.rope_local_theta = 1e4F;
      break;
    case ModelKind::gemma:
      model.head_size = 6;
      break;
    case ModelKind::gemma3_text:
      model.head_size = 6;
      model.window = 4, model.window_from = 1;
      model.rope_local_theta = 100.0F;
      model.attention_scale = 0.5F;
      break;
    case ModelKind::llama_biased:
      model.qkv_bias = model.out_bias = model.mlp_bias = true;
      model.rope_scaling = ops::RopeKind::linear;
      model.rope_scaling_factor = 4.0F;
      break;
    case ModelKind::mistral:
      model.window = 3;
      model.head_size = 6;
      break;
    case ModelKind::qwen3_moe:
      model.experts = 8, model.experts_per_token = 3, model.expert_ffn = 12;
      model.normalise_experts = false;
      model.head_size = 6;
      break;
    case ModelKind::qwen2:
      model.qkv_bias = true;
      model.window = 4, model.window_from = 1;
      break;
    case ModelKind::qwen3:
      model.qk_norm = true;
      model.head_size = 6;
      model.rope_scaling = ops::RopeKind::yarn;
      model.rope_scaling_factor = 4.0F;
      model.rope_low_freq_factor = 1.0F, model.rope_high_freq_factor = 32.0F;
      model.rope_original_context = 100.0F;
      model.window = 4, model.window_from = 1;
      break;
  }
  return model;
}

/// Two micro-batches of one sequence that fills the context.
inline ops::StepConfig tiny_step() {
  ops::StepConfig step;
  step.micro_batch = 1;
  step.seq_len = 8;
  step.micro_batches = 2;
  return step;
}

/// The task with this name; if there is none, a failed expectation and the first task.
inline const graph::Task& task(const graph::Graph& graph, std::string_view name) {
  const graph::TaskId id = graph.find_task(name);
  EXPECT_TRUE(id.valid()) << "no task " << name;
  return graph.task(id.valid() ? id : graph::TaskId(0));
}

template <class Operation>
const Operation& operation(const graph::Graph& graph, std::string_view name) {
  return std::get<Operation>(task(graph, name).operation);
}

/// Names of the tasks whose names contain `part`, in program order.
inline std::vector<std::string> tasks_with(const graph::Graph& graph, std::string_view part) {
  std::vector<std::string> names;
  for (const graph::Task& t : graph.tasks()) {
    if (t.name.find(part) != std::string::npos) names.push_back(t.name);
  }
  return names;
}

template <class Operation>
std::int64_t count_of(const graph::Graph& graph) {
  std::int64_t count = 0;
  for (const graph::Task& t : graph.tasks()) count += std::holds_alternative<Operation>(t.operation) ? 1 : 0;
  return count;
}

/// The name of the tensor of a task's access number `index`.
inline const std::string& tensor_of(const graph::Graph& graph, std::string_view name, std::size_t index) {
  return graph.tensor(task(graph, name).accesses.at(index).view.tensor).name;
}

}  // namespace weft::testing
