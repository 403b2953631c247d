// How many tokens each expert got, and how near the routers were to other choices: over steps and all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/execute/state.h"
#include "train/config/config.h"
#include "train/config/expert_loads.h"

namespace weft::train {

/// The expert with the most tokens, as a multiple of the mean over its layer's experts.
struct BusiestExpert {
  std::int64_t layer = 0, expert = 0;
  double load = 0;
};
BusiestExpert busiest(const ExpertLoad& load);

/// The layer with the least margin. nullptr if its routers left nothing to choose.
const LayerLoad* nearest_choice(const ExpertLoad& load);

/// Choices of all layers' tokens.
std::int64_t choices_in(const ExpertLoad& load);
std::int64_t flips_in(const ExpertLoad& load);

/// "the busiest expert got 1.42 times the mean (layer 3, expert 5), least margin 3.1e-06 (layer 1)"; with `replayed`
/// choices also the flips.
std::string load_text(const ExpertLoad& load, bool replayed);

/// A line of experts.jsonl, with a newline; flips are there with `replayed` choices.
///   {"step":9,"steps":10,"layers":[0,1],"tokens":[[130,…],[…]],"margin":[0.0003,…]}
std::string json_line(const ExpertLoad& load, bool replayed);
/// Watches the routers of one rank's program. Made on every rank.
class ExpertWatch {
 public:
  /// All must outlive this object.
  ExpertWatch(comm::World& world, const RunConfig& config, const execute::State& state);

  /// After each step.
  void add(std::int64_t step);
  /// Whether steps are gathered after this one: as often as log-every says, else two hundred times in a run.
  bool is_due(std::int64_t step) const;
  /// Of the steps since the last call, over all ranks. Collective over the world.
  ExpertLoad gather();

 private:
  comm::World& world_;
  const RunConfig& config_;
  const execute::State& state_;
  std::vector<LayerLoad> own_;
  std::int64_t last_step_ = 0, steps_ = 0;
};

}  // namespace weft::train
