// A run as its configuration describes it, with every text read: the policy as an object, the machine, the measured
// costs. Made once, before data is opened or anything is measured, and passed to all code that plans or runs a step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cost/machine.h"
#include "runtime/cost/profile.h"
#include "runtime/policy/catalog/policies.h"
#include "train/config/config.h"
#include "train/config/expert_loads.h"

namespace weft::train {

/// The value of the key gemm-tuning: the source of a run's tuned matrix products.
struct TuningSetting {
  enum class From : std::uint8_t {
    checkpoint,  // "": the checkpoint's table, else none
    nothing,     // "none": the default methods, whatever a checkpoint holds
    trials,      // "auto": the checkpoint's table, else tuned at the start
    file,        // a file that `weft tune` wrote
  };
  From from = From::checkpoint;
  std::string file = {};

  friend bool operator==(const TuningSetting&, const TuningSetting&) = default;
};

/// Any text other than these words names a file.
TuningSetting tuning_setting(std::string_view text);

struct ResolvedRun {
  /// The filled-in configuration, as in files of the run: model, grid, batch, schedule, data and the words of the
  /// device. The objects that its texts of policy, machine, profile and gemm-tuning name are below, and read nowhere
  /// else.
  RunConfig config = {};
  policy::NamedPolicy policy = {};
  std::shared_ptr<const cost::Machine> machine = nullptr;  // the machine that policies plan for; null: none is named
  std::shared_ptr<const cost::Profile> profile = nullptr;  // measured costs; null: none are named
  TuningSetting gemm_tuning = {};
  /// Of the file that expert-load names; null: it names none.
  std::shared_ptr<const std::vector<ExpertLoad>> expert_loads = nullptr;
  bool equal_layers = false;  // steps of fewer layers stand for the whole, so expert-load makes them all equal

  /// Sets the policy here and in the configuration. The configuration must not be filled in yet, because the policy
  /// decides how many pipeline stages a rank has.
  void set_policy(policy::NamedPolicy chosen);
};

/// Fills in a configuration and reads what it names, for a world of `world_size` ranks (0: not started by mpirun).
/// Throws UserError on every error that can be found before data is opened: the refusals of fill_in(), unknown
/// policies, libraries that the command line doesn't name, plan files, machines and profiles that can't be read.
ResolvedRun resolve(RunConfig config, std::int64_t world_size);

/// The same with another policy than the configuration's, which the caller trusts; with pipeline stages it decides how
/// many a rank has.
ResolvedRun resolve_with(RunConfig config, const std::string& policy, std::int64_t world_size = 0);

/// The first half of resolve(): reads the objects that the texts name, without fill_in(); for callers that try several
/// grids.
ResolvedRun read_texts(RunConfig config);

/// For commands that don't use the configuration's policy: replaces a library that the command line doesn't name by the
/// default policy, so that the user needn't trust it.
void leave_out_library(RunConfig& config);

}  // namespace weft::train
