#include "train/run/expert_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/text/json_object.h"
#include "ops/lower.h"
#include "train/run/step_routing.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

constexpr float kNoMargin = std::numeric_limits<float>::max();

std::int64_t tokens_in(const LayerLoad& layer) {
  return std::accumulate(layer.tokens.begin(), layer.tokens.end(), std::int64_t{0});
}

// As whole numbers, for a message between ranks.
std::vector<std::int64_t> words_of_load(const std::vector<LayerLoad>& layers) {
  std::vector<std::int64_t> words;
  for (const LayerLoad& layer : layers) {
    words.insert(words.end(), {layer.layer, layer.flips, std::bit_cast<std::int32_t>(layer.margin)});
    words.insert(words.end(), layer.tokens.begin(), layer.tokens.end());
  }
  return words;
}

std::vector<LayerLoad> load_of_words(const std::vector<std::int64_t>& words, std::int64_t experts) {
  std::vector<LayerLoad> layers;
  for (auto word = words.begin(); word != words.end();) {
    LayerLoad& layer = layers.emplace_back();
    layer.layer = *word++;
    layer.flips = *word++;
    layer.margin = std::bit_cast<float>(static_cast<std::int32_t>(*word++));
    layer.tokens.assign(word, word + experts);
    word += experts;
  }
  return layers;
}

}  // namespace

BusiestExpert busiest(const ExpertLoad& load) {
  BusiestExpert found;
  for (const LayerLoad& layer : load.layers) {
    const auto most = std::ranges::max_element(layer.tokens);
    const double mean = static_cast<double>(tokens_in(layer)) / static_cast<double>(layer.tokens.size());
    const double ratio = mean > 0 ? static_cast<double>(*most) / mean : 0;
    if (ratio > found.load) found = {layer.layer, most - layer.tokens.begin(), ratio};
  }
  return found;
}

const LayerLoad* nearest_choice(const ExpertLoad& load) {
  const auto least = std::ranges::min_element(load.layers, {}, &LayerLoad::margin);
  return least == load.layers.end() || least->margin == kNoMargin ? nullptr : &*least;
}

std::int64_t choices_in(const ExpertLoad& load) {
  std::int64_t sum = 0;
  for (const LayerLoad& layer : load.layers) sum += tokens_in(layer);
  return sum;
}

std::int64_t flips_in(const ExpertLoad& load) {
  std::int64_t sum = 0;
  for (const LayerLoad& layer : load.layers) sum += layer.flips;
  return sum;
}

std::string load_text(const ExpertLoad& load, bool replayed) {
  const BusiestExpert most = busiest(load);
  std::string text =
      fmt::format("the busiest got {:.2f} times the mean (layer {}, expert {})", most.load, most.layer, most.expert);
  if (const LayerLoad* nearest = nearest_choice(load); nearest != nullptr) {
    text += fmt::format(", least margin {:.2g} (layer {})", nearest->margin, nearest->layer);
  }
  if (replayed) {
    text += fmt::format(", {} of {} replayed choices differ from the logits' own", flips_in(load), choices_in(load));
  }
  return text;
}

std::string json_line(const ExpertLoad& load, bool replayed) {
  JsonArray layers, tokens, margins, flips;
  for (const LayerLoad& layer : load.layers) {
    layers.add(layer.layer);
    tokens.add(layer.tokens);
    margins.add(layer.margin == kNoMargin ? JsonValue(nullptr) : JsonValue(shortest_double(layer.margin)));
    flips.add(layer.flips);
  }
  JsonObject line;
  line.add("step", load.last_step).add("steps", load.steps).add("layers", layers);
  line.add("tokens", tokens).add("margin", margins);
  if (replayed) line.add("flips", flips);
  return line.text() + "\n";
}

ExpertWatch::ExpertWatch(comm::World& world, const RunConfig& config, const execute::State& state)
    : world_(world), config_(config), state_(state) {
  const graph::Coordinates at = graph::coordinates_of(config.grid, world.rank());
  if (at.x != 0 || at.y != 0) return;  // these ranks have the choices of others
  for (const std::int64_t layer : RoutedStep{config.model, step_config(config)}.expert_layers(at.pipe)) {
    own_.push_back({.layer = layer});
  }
}

void ExpertWatch::add(std::int64_t step) {
  last_step_ = step, ++steps_;
  const auto experts = static_cast<std::size_t>(config_.model.experts);
  for (LayerLoad& own : own_) {
    const auto of = [&](std::string_view what) { return ops::names::of_router(own.layer, what); };
    LayerLoad of_step{own.layer, std::vector<std::int64_t>(experts)};
    const auto counts = state_.get<std::int32_t>(of(ops::names::kCounts));
    for (std::size_t i = 0; i < counts.size(); ++i) of_step.tokens[i % experts] += counts[i];
    for (const float margin : state_.get<float>(of(ops::names::kMargin))) {
      of_step.margin = std::min(of_step.margin, margin);
    }
    for (const std::int32_t flips : state_.get<std::int32_t>(of(ops::names::kFlips))) of_step.flips += flips;
    own.add(of_step);
  }
}

bool ExpertWatch::is_due(std::int64_t step) const {
  constexpr std::int64_t kLines = 200;
  const std::int64_t every =
      config_.log_every > 0 ? config_.log_every : std::max<std::int64_t>(1, config_.steps / kLines);
  return (step + 1) % every == 0;
}

ExpertLoad ExpertWatch::gather() {
  ExpertLoad all{.last_step = last_step_, .steps = std::exchange(steps_, 0)};
  for (const std::int64_t layer : config_.model.expert_layers()) all.layers.push_back({.layer = layer});
  for (const std::vector<std::int64_t>& words : comm::of_ranks(world_, words_of_load(own_))) {
    for (const LayerLoad& layer : load_of_words(words, config_.model.experts)) {
      std::ranges::find(all.layers, layer.layer, &LayerLoad::layer)->add(layer);
    }
  }
  for (LayerLoad& own : own_) own = {.layer = own.layer};
  return all;
}

}  // namespace weft::train
