// A run as its configuration describes it, with every text read: the policy as an object, the machine, the measured
// costs. Made once, before data is opened or anything is measured, and carried to whatever plans or runs a step.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/cost/machine.h"
#include "runtime/cost/profile.h"
#include "runtime/policy/policy.h"
#include "train/config/config.h"
#include "train/config/tuning_setting.h"

namespace weft::train {

struct ResolvedRun {
  /// Filled in, and as files of the run tell it: model, grid, batch, schedule, data and the words of the device. What
  /// its texts of policy, machine, profile and gemm-tuning name is below, and read nowhere else.
  RunConfig config = {};
  policy::NamedPolicy policy = {};
  std::shared_ptr<const cost::Machine> machine = nullptr;  // that policies plan for; null: none is named
  std::shared_ptr<const cost::Profile> profile = nullptr;  // measured costs; null: none are named
  TuningSetting gemm_tuning = {};
};

/// Fills in a configuration and reads what it names, for a world of `world_size` ranks (0: not started by mpirun).
/// Throws UserError on everything that can be known to be wrong before data is opened: what fill_in() refuses, unknown
/// policies, libraries that the command line doesn't name, plan files, machines and profiles that can't be read.
ResolvedRun resolve(RunConfig config, std::int64_t world_size);

/// The first half of it: reads what the texts name, and leaves open what fill_in() fills, for who tries several grids.
ResolvedRun read_texts(RunConfig config);

/// For what orders no task by the configuration's own policy: a library that the command line doesn't name gives way to
/// the default policy, so that nobody has to trust it.
void leave_out_library(RunConfig& config);

}  // namespace weft::train
