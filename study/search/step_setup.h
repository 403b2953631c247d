// One way to set up a training step, and all that a model, a batch and a number of ranks allow: the space of a search.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "study/columns.h"
#include "train/config/config.h"

namespace weft::study {

/// Two setups that differ in the grid's order alone have equal graphs.
struct StepSetup {
  graph::Grid grid;
  std::int64_t micro_batch = 1;
  train::Recompute recompute = train::Recompute::none;
  bool reshard_after_forward = false;
  bool zero1 = false;
  bool sequence_parallel = false;
  friend bool operator==(const StepSetup&, const StepSetup&) = default;
};

/// Keys whose values are tried on request only: others are better guesses, or change what a run keeps.
struct Tried {
  bool sequence_parallel = false;        // on and off, where x or y is above 1
  bool context = false, expert = false;  // of the grid: all that divide z and fit the model
  friend bool operator==(const Tried&, const Tried&) = default;
};

using AxisOrder = std::array<graph::Axis, 4>;
using KeptKeys = std::set<std::string, std::less<>>;

/// "x=1,y=8,z=32,data=4, micro-batch 8, recompute block, reshard"; the grid's order if it isn't the usual one.
std::string to_string(const StepSetup& setup);

/// Its axes of more than one rank, neighbouring ranks first: "y=8,z=32"; "1 rank" without any.
std::string grid_text(const StepSetup& setup);
/// The axes of its grid, neighbouring ranks first: "x", "y", "z", "data".
std::vector<std::string> axis_order(const StepSetup& setup);
/// What is on: "recompute, ZeRO-1".
std::string options_text(const StepSetup& setup);

/// The configuration with the setup in its keys.
train::RunConfig with_setup(train::RunConfig config, const StepSetup& setup);

/// The setup as settings of searched_keys(), in their order. `source`: see train::Setting.
std::vector<train::Setting> settings_of(const StepSetup& setup, const std::string& source);

/// What a configuration has in these keys.
StepSetup setup_of(const train::RunConfig& config);

/// The keys that a search chooses, by which its --keep names them: grid, axis-order, micro-batch, recompute,
/// reshard-after-forward, zero-1.
const std::vector<std::string>& searched_keys();

/// Every setup for `ranks` ranks in the grid's usual order, by x, y, z, micro-batch and the rest: any divisors, as far
/// as they fit the model and divide the batch. A key in `kept` stays as the configuration has it. Keys without effect
/// (resharding without z, ZeRO-1 without data, each where it isn't kept) stay off. `config` is filled in, but for its
/// grid and its micro-batch.
/// `pipes`: the numbers of pipeline stages that are tried where the grid isn't kept, as far as there are as many
/// layers. A pipeline has at least as many micro-batches as stages.
/// `tried`: keys that otherwise stay as they are, or at 1 in a grid that isn't kept. Rows that x or y doesn't divide
/// leave sequence parallelism off, or the grid out.
std::vector<StepSetup> setups_of(const train::RunConfig& config, std::int64_t ranks, const KeptKeys& kept,
                                 const std::vector<std::int64_t>& pipes = {1}, const Tried& tried = {});

/// The orders of the grid's axes that differ: axes of one rank are left where they usually are.
std::vector<AxisOrder> axis_orders(const graph::Grid& grid);

/// The number of ranks nearest to `ranks` for which there is a setup; of two equally near ones the smaller. 0 if there
/// is none up to twice `ranks`.
std::int64_t nearest_ranks(const train::RunConfig& config, std::int64_t ranks, const KeptKeys& kept);

/// The columns of a setup, which a search and a scaling study have. `setup_in` gives a row's setup, and `order` the
/// cell of the order of its axes. `micro_batch_rank`: of the table's column.
template <class Row, class SetupIn>
void add_setup(Columns<Row>& columns, SetupIn setup_in, Cell (*order)(const StepSetup&), int micro_batch_rank) {
  const auto of_setup = [setup_in](auto value) {
    return [setup_in, value](const Row& row) { return value(std::invoke(setup_in, row)); };
  };
  columns.figure("grid", of_setup([](const StepSetup& setup) { return graph::to_string(setup.grid); }))
      .shown({.head = "grid, innermost first", .words = true}, of_setup(grid_text));
  columns.figure("axis_order", of_setup(order));
  columns.figure("micro_batch", of_setup([](const StepSetup& setup) { return setup.micro_batch; }),
                 {.head = "micro-batch", .rank = micro_batch_rank});
  columns.figure("recompute", of_setup([](const StepSetup& setup) {
                   return setup.recompute == train::Recompute::block ? "block" : "none";
                 }));
  columns.figure("reshard_after_forward", of_setup([](const StepSetup& setup) { return setup.reshard_after_forward; }));
  columns.figure("zero_1", of_setup([](const StepSetup& setup) { return setup.zero1; }));
  columns.figure("sequence_parallel", of_setup([](const StepSetup& setup) { return setup.sequence_parallel; }));
}

}  // namespace weft::study
