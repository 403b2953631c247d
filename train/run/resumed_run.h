// A run that goes on, compared with the run that wrote its checkpoint: what would make another run of it is refused
// unless the user accepts it.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "train/checkpoint/manifest.h"
#include "train/config/config.h"
#include "train/data/batches.h"
#include "train/data/token_source.h"

namespace weft::train {

/// Compares the data, and the keys that decide which tokens are read next and which are held out. Returns a warning for
/// each difference that the configuration accepts, with which the run goes on at the same token, and for another global
/// batch, which moves no token. What a checkpoint of an older build doesn't tell isn't compared, and is noted in the
/// source. Throws UserError with all other differences.
std::vector<std::string> expect_same_run(const RunConfig& config, const CheckpointInfo& before, TokenSource& source);

/// Logs a warning if a decaying learning rate jumps because the run has another number of steps than before, such as a
/// finished one that gets more. `config` has its steps.
void warn_of_jump(const RunConfig& config, const CheckpointInfo& before, const BatchPlan& plan, const Log& log);

}  // namespace weft::train
