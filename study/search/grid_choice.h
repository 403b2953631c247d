// The grid of `weft train --grid auto`: the fastest that a search finds, or that of the run that goes on.
#pragma once

#include <cstdint>
#include <vector>

#include "train/run/launch_run.h"

namespace weft::study {

enum class Verbosity : std::uint8_t { quiet, choice };  // choice: progress and the choice, on stderr

/// The settings of searched_keys() for a configuration whose grid is to be chosen. Keys that a file or a flag
/// set stay, and so does the policy. A run that goes on with as many ranks, the same batch and the same set keys keeps
/// what it had, so that it goes on bit for bit. Where neither `memory` nor a machine says how much a rank may take, it
/// is its share of this computer's memory; `memory` is then set too if the policy's own order would take more. Throws
/// UserError.
std::vector<train::Setting> choose_grid(const train::RunConfig& config, const train::RankCount& ranks,
                                        Verbosity verbosity);

}  // namespace weft::study
