// How many tokens each expert got: lines of experts.jsonl, and the key expert-load, which says for which loads costs
// are counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cost/expert_rows.h"

namespace weft::train {

struct ResolvedRun;
struct RunConfig;

struct LayerLoad {
  std::int64_t layer = 0;
  std::vector<std::int64_t> tokens = {};             // of each expert
  float margin = std::numeric_limits<float>::max();  // the least, see graph::CountChoices
  std::int64_t flips = 0;

  /// More steps of the same layer.
  void add(const LayerLoad& other);
};

/// Of steps that follow one another.
struct ExpertLoad {
  std::int64_t last_step = 0, steps = 0;
  std::vector<LayerLoad> layers = {};

  /// Steps that follow, of the same model.
  void add(const ExpertLoad& later);
};

/// The members of a line but for steps; null for a margin where nothing is left to choose.
ExpertLoad parse_expert_load(std::string_view line, const std::string& name);

/// The lines of experts.jsonl. A last line without an end is what a kill leaves. Throws UserError, which ends with
/// `fix`, on any other file.
std::vector<ExpertLoad> read_expert_loads(const std::filesystem::path& file,
                                          std::string_view fix =
                                              "give a run folder, with the files that weft train "
                                              "wrote");

/// The value of the key expert-load.
struct LoadSetting {
  enum class From : std::uint8_t {
    balanced,  // equal shares
    zipf,      // cost::zipf_shares(), in every layer
    file,      // as in the steps of a run
  };
  From from = From::balanced;
  double exponent = 0;
  std::string file = {};
};

/// "balanced", "zipf:1.2", or else the name of a file. `where` opens messages. Throws UserError.
LoadSetting load_setting(std::string_view text, std::string_view where);

/// Refuses expert-load for a filled-in run that has no experts, whose costs are measured, or whose layers and experts
/// aren't those of the file.
void check_expert_load(const ResolvedRun& run);

/// Whether the run's ranks exchange rows of experts by NCCL, which sends as many as there may be: by `auto` they do, as
/// they have a GPU each.
bool sends_row_segments(const RunConfig& config);

/// What expert-load makes of the rows on the grid of a filled-in run: by layer, the mean of λ over the file's lines,
/// each weighted by its steps. Where all layers are to be equal, each has the mean over the layers.
cost::RowFactors row_factors(const ResolvedRun& run);

}  // namespace weft::train
