// One choice of a search for the fastest training step, and all choices that a model, a batch and a number of ranks
// allow.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "train/config/config.h"

namespace weft::study {

/// One way to run a step. Two choices that differ in the grid's order alone have equal graphs.
struct Choice {
  graph::Grid grid;
  std::int64_t micro_batch = 1;
  train::Recompute recompute = train::Recompute::none;
  bool reshard_after_forward = false;
  bool zero1 = false;
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// "x=1,y=8,z=32,data=4, micro-batch 8, recompute block, reshard"; the grid's order if it isn't the usual one.
std::string to_string(const Choice& choice);

/// Its axes of more than one rank, neighbouring ranks first: "y=8,z=32"; "1 rank" without any.
std::string grid_text(const Choice& choice);
/// The axes of its grid, neighbouring ranks first: "x", "y", "z", "data".
std::vector<std::string> axis_order(const Choice& choice);
/// What is on: "recompute, ZeRO-1".
std::string options_text(const Choice& choice);

/// The configuration with the choice in its keys.
train::RunConfig with_choice(train::RunConfig config, const Choice& choice);

/// The choice as settings of searched_keys(), in their order. `source`: see train::Setting.
std::vector<train::Setting> settings_of(const Choice& choice, const std::string& source);

/// What a configuration has in these keys.
Choice choice_of(const train::RunConfig& config);

/// The keys that a search chooses, by which its --keep names them: grid, axis-order, micro-batch, recompute,
/// reshard-after-forward, zero-1.
const std::vector<std::string>& searched_keys();

/// Every choice for `ranks` ranks in the grid's usual order, by x, y, z, micro-batch and the rest: any divisors, as far
/// as they fit the model and divide the batch. A key in `kept` stays as the configuration has it. Keys without effect
/// (resharding without z, ZeRO-1 without data, each where it isn't kept) stay off. `config` is filled in, but for its
/// grid and its micro-batch.
/// `pipes`: the numbers of pipeline stages that are tried where the grid isn't kept, as far as there are as many
/// layers. A pipeline has at least as many micro-batches as stages.
std::vector<Choice> choices_of(const train::RunConfig& config, std::int64_t ranks,
                               const std::set<std::string, std::less<>>& kept,
                               const std::vector<std::int64_t>& pipes = {1});

/// The orders of the grid's axes that differ: axes of one rank are left where they usually are.
std::vector<std::array<graph::Axis, 4>> axis_orders(const graph::Grid& grid);

/// The number of ranks nearest to `ranks` for which there is a choice; of two equally near ones the smaller. 0 if there
/// is none up to twice `ranks`.
std::int64_t nearest_ranks(const train::RunConfig& config, std::int64_t ranks,
                           const std::set<std::string, std::less<>>& kept);

}  // namespace weft::study
