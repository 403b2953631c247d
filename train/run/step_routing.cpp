#include "train/run/step_routing.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

namespace weft::train {
namespace {

/// Where the choices of a rank are among all, layer by layer: those of its sequences, which follow one another, or of
/// its part of each of them.
class RankPart {
 public:
  RankPart(const RoutedStep& of, const graph::Coordinates& at)
      : all_(of.model.expert_layers()), own_(of.expert_layers(at.pipe)) {
    const ops::StepConfig& step = of.step;
    sequences_ = static_cast<std::size_t>(step.micro_batches * step.micro_batch);
    of_sequence_ = static_cast<std::size_t>(step.seq_len * of.model.experts_per_token);
    own_of_sequence_ = of_sequence_ / static_cast<std::size_t>(step.grid.context);
    of_layer_ = static_cast<std::size_t>(step.grid.batch_ranks()) * sequences_ * of_sequence_;
    begin_ = static_cast<std::size_t>(graph::batch_rank(step.grid, at)) * sequences_ * of_sequence_ +
             static_cast<std::size_t>(graph::context_rank(step.grid, at)) * own_of_sequence_;
  }

  const std::vector<std::int64_t>& layers() const { return own_; }
  std::size_t all() const { return all_.size() * of_layer_; }

  /// Calls copy(place among all, place among the rank's numbers of this layer, numbers).
  template <class Copy>
  void for_each_sequence(std::int64_t layer, const Copy& copy) const {
    const auto number = static_cast<std::size_t>(std::ranges::find(all_, layer) - all_.begin());
    for (std::size_t s = 0; s < sequences_; ++s) {
      copy(number * of_layer_ + begin_ + s * of_sequence_, s * own_of_sequence_, own_of_sequence_);
    }
  }
  /// Numbers of a layer.
  std::size_t size() const { return sequences_ * own_of_sequence_; }

 private:
  std::vector<std::int64_t> all_, own_;
  std::size_t of_layer_ = 0, begin_ = 0, sequences_ = 0, of_sequence_ = 0, own_of_sequence_ = 0;
};

std::span<std::int32_t> chosen_of(const execute::State& state, std::int64_t layer) {
  return state.get<std::int32_t>(ops::names::of_router(layer, ops::names::kChosen));
}

}  // namespace

std::vector<std::int64_t> RoutedStep::expert_layers(std::int64_t pipe) const {
  std::vector<std::int64_t> layers = model.expert_layers();
  const ops::PipelineLayout& layout = step.pipeline;
  std::erase_if(layers, [&](std::int64_t layer) { return layout.rank_of(layout.stage_of_layer(layer)) != pipe; });
  return layers;
}

Choices choices_of_ranks(comm::World& world, const RoutedStep& of, const execute::State& state) {
  const graph::Coordinates here = graph::coordinates_of(of.step.grid, world.rank());
  Choices own;
  if (here.x == 0 && here.y == 0) {  // the others have the same
    for (const std::int64_t layer : of.expert_layers(here.pipe)) {
      for (const std::int32_t expert : chosen_of(state, layer)) own.push_back(static_cast<std::uint16_t>(expert));
    }
  }
  const std::vector<Choices> of_ranks = comm::of_ranks(world, own);
  Choices all(RankPart(of, here).all());
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank].empty()) continue;
    const RankPart part(of, graph::coordinates_of(of.step.grid, static_cast<std::int64_t>(rank)));
    const std::uint16_t* from = of_ranks[rank].data();
    for (const std::int64_t layer : part.layers()) {
      part.for_each_sequence(layer, [&](std::size_t place, std::size_t own, std::size_t count) {
        std::copy_n(&from[own], count, &all[place]);
      });
      from += part.size();
    }
  }
  return all;
}

void give_choices(comm::World& world, const RoutedStep& of, const execute::State& state, const Choices& choices) {
  const std::span<const std::byte> sent = std::as_bytes(std::span(choices));
  std::vector<std::byte> bytes(sent.begin(), sent.end());
  world.broadcast(bytes, 0);
  Choices all(bytes.size() / sizeof(Choices::value_type));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const RankPart part(of, graph::coordinates_of(of.step.grid, world.rank()));
  for (const std::int64_t layer : part.layers()) {
    const std::span<std::int32_t> chosen = chosen_of(state, layer);
    part.for_each_sequence(layer, [&](std::size_t place, std::size_t own, std::size_t count) {
      std::copy_n(&all[place], count, &chosen[own]);
    });
  }
}

}  // namespace weft::train
