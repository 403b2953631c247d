// The choices of experts of a step on a grid: between the state of ranks, of which each has its own sequences and
// layers, and one list for all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/lower.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/state.h"
#include "train/run/routing_file.h"

namespace weft::train {

/// A training step whose ranks choose experts.
struct RoutedStep {
  const ops::ModelConfig& model;
  const ops::StepConfig& step;

  /// The layers with experts on ranks of a coordinate on pipe.
  std::vector<std::int64_t> expert_layers(std::int64_t pipe) const;
};

/// Of the step that has just ended, in the order of RoutingInfo::size(), on every rank. Collective over the world.
Choices choices_of_ranks(comm::World& world, const RoutedStep& of, const execute::State& state);

/// Writes this rank's part of rank 0's `choices` into its state. Collective over the world.
void give_choices(comm::World& world, const RoutedStep& of, const execute::State& state, const Choices& choices);

}  // namespace weft::train
