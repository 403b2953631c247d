#include "ops/communication.h"

#include <array>
#include <map>
#include <tuple>

#include "graph/analysis.h"

namespace weft::ops {
namespace {

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

}  // namespace

std::string_view to_string(ModelPart part) {
  constexpr std::array<std::string_view, 9> kNames = {"linear", "biases", "attention", "norms", "embedding",
                                                      "head",   "loss",   "optimizer", "stages"};
  return kNames.at(static_cast<std::size_t>(part));
}

ModelPart part_of(const graph::Task& task) {
  const std::string_view name = task.name;
  const graph::Channel* const channel = graph::channel_of(task.operation);
  if (channel != nullptr && graph::is_message(*channel)) return ModelPart::stages;
  if (task.phase == graph::Phase::update) return ModelPart::optimizer;
  if (has(name, ".loss.")) return ModelPart::loss;
  if (has(name, "norm")) return ModelPart::norms;
  if (has(name, ".bias.")) return ModelPart::biases;
  for (const std::string_view layer :
       {".attn.qkv.", ".attn.out.", ".mlp.up.", ".mlp.down.", ".mlp.router.", ".mlp.experts."}) {
    if (has(name, layer)) return ModelPart::linear;
  }
  if (has(name, ".attn.")) return ModelPart::attention;
  return has(name, ".head.") && !has(name, "wte") ? ModelPart::head : ModelPart::embedding;
}

std::vector<Communication> communication_of(const graph::Graph& graph) {
  std::map<std::tuple<ModelPart, graph::Channel, std::string_view>, Communication> sums;
  for (const graph::Task& task : graph.tasks()) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    if (channel == nullptr) continue;
    const std::string_view kind = graph::kind_name(task.operation);
    auto& sum =
        sums.try_emplace({part_of(task), *channel, kind}, Communication{part_of(task), *channel, kind}).first->second;
    ++sum.count;
    sum.bytes += graph::work_of(graph, task).network_bytes;
  }
  std::vector<Communication> rows;
  for (const auto& [key, sum] : sums) rows.push_back(sum);
  return rows;
}

}  // namespace weft::ops
