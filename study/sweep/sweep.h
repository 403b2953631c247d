// A sweep: the simulated steps of every combination of some keys' values, of policies and of seeds of the noise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "study/experiment.h"
#include "train/config/config.h"

namespace weft::study {

/// A key of the configuration ("model.layers") or a number of the machine ("machine.network.latency"), with the values
/// that it takes.
struct SweptKey {
  std::string key;
  std::vector<std::string> values;
  friend bool operator==(const SweptKey&, const SweptKey&) = default;
};

inline constexpr std::string_view kMachinePrefix = "machine.";

struct Sweep {
  train::RunConfig base;                 // of the file alone, not resolved
  std::vector<train::Setting> settings;  // of the command line, "machine.…" among them: they hold for all combinations
  std::vector<SweptKey> keys;
  std::vector<policy::NamedPolicy> policies;
  double noise = 0;        // relative standard deviation of every task's time
  std::int64_t seeds = 1;  // of the noise, from the configuration's seed on
  int threads = 1;
};

/// The keys of a sweep. Groups the words of --over: KEY=VALUE begins a group if KEY is in `known`, "model.…" or
/// "machine.…", and at the beginning; every other word is a further value. Throws UserError on a first word without a
/// key, on a key that isn't in `known` and names no number of a machine, and on a key or a value that comes twice.
std::vector<SweptKey> swept_keys(std::span<const std::string> words, const std::vector<std::string>& known);

/// One simulated step, or the reason why there is none.
struct SweepRow {
  std::vector<std::string> values = {};  // by key
  std::string policy = {};
  std::uint64_t seed = 0;  // of the noise
  double step_ms = 0, tokens_per_s = 0, mfu = 0, exposed_ms = 0, communication_ms = 0;
  std::int64_t memory_bytes = 0;
  bool fits = false;
  double bound_ms = 0;
  std::string reason = {};  // "": the step was simulated
  // Of a row that sums up seeds by their medians: the 5th and the 95th percentile of the step.
  double low_ms = 0, high_ms = 0;

  bool possible() const { return reason.empty(); }
  friend bool operator==(const SweepRow&, const SweepRow&) = default;
};

/// The configuration that all combinations share, not resolved, without numbers of the machine.
train::RunConfig shared_config(const Sweep& sweep);

/// Throws UserError on what is wrong with every combination: a value that can't be read, a key with a fixed value too,
/// seeds without noise, a policy that comes twice, too many rows.
void check_sweep(const Sweep& sweep);

/// Combinations of the keys' values × policies × seeds.
std::int64_t row_count(const Sweep& sweep);

/// All rows: the last key's values change first, then policies, then seeds. A plan is made once for all draws. What
/// can't be planned becomes a row with the reason. `sweep` has passed check_sweep(), and outlives the experiment.
Experiment<SweepRow> experiment_of(const Sweep& sweep);

/// Of files and tables. Without a step the figures are empty.
Columns<SweepRow> sweep_columns(const Sweep& sweep);

/// As text a line for each combination and policy: over several seeds the median, and the 5th to 95th percentile of the
/// step. Further lines have reasons. The fastest stands out. As JSON {"rows":[…]}, in which numbers of keys are
/// numbers. As a picture the steps over the first key with several values, a series for each combination of the others
/// and each policy, with intervals over seeds. Both arguments outlive the results.
Results results_of(const Sweep& sweep, std::span<const SweepRow> rows);

/// base.toml: the configuration, which simulates, and in its comments the noise, the numbers of the machine that --set
/// gave, and checksums of the machines and the profiles.
FolderDescription sweep_base(const Sweep& sweep);

/// Makes the folder, or opens one that an equal sweep left. Throws UserError on a folder with other files, of another
/// sweep, or in which a sweep is running.
RowFolder<SweepRow> sweep_folder(const std::filesystem::path& path, const Sweep& sweep);

}  // namespace weft::study
