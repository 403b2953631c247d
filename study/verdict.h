// The verdict on a planned step, for the first lines of `weft explain` and `weft report`: what bounds it, and the three
// changes that shorten it most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/simulate/explain.h"
#include "study/policy_step.h"

namespace weft::study {

enum class BoundBy : std::uint8_t {
  order,          // the step is over 5 % longer than the graph's bound, so another order may be shorter
  computing,      // else: computations run for most of the step
  communication,  // collectives are in flight for most of the step, and for longer
  dependencies,   // neither: tasks wait for each other's results
  // Of a recorded step alone:
  host,     // launches and other work of CPU threads
  copying,  // copies of the device
  ranks,    // waiting for slower ranks
};

/// The enumerator's name, for programs that read it.
std::string_view identifier_of(BoundBy by);
std::optional<BoundBy> find_bound(std::string_view identifier);

/// Something to change, with what the whole step gets shorter by, simulated.
struct Change {
  std::string what = {};  // "--reduce-dtype bf16", "issue it before …"
  double gain_ns = 0;
  std::string note = {};  // its other costs; "": none
  int number = 0;         // of a remedy, for --apply; 0: a setting
};

/// Settings of the run's configuration that the user may change: gradients sent as bf16, nothing recomputed,
/// micro-batches of half the size, fewer ranks that share out experts or sequences. `plan` plans and simulates a run on
/// the costs of the step. A setting that the configuration can't have is left out.
std::vector<Change> other_settings(const PolicyStep& step,
                                   const std::function<PolicyStep(train::ResolvedRun run)>& plan);

struct Verdict {
  BoundBy by = BoundBy::order;
  double busy_ns = 0;                   // time of the work that bounds it; of an order, the most that another one gains
  std::string text = {};                // a sentence
  std::vector<std::string> facts = {};  // more sentences
  std::vector<Change> changes = {};     // at most three, each of which gains, by falling gain
};

/// Of a class of a planned report. `settings`: what other_settings() found.
Verdict verdict_of(const simulate::Report& report, std::size_t of_class, const simulate::Explanation& explanation,
                   std::vector<Change> settings = {});

/// Keeps the changes that gain most.
void add_changes(Verdict& verdict, std::vector<Change> changes);

/// The verdict as lines for a report: "Bound by …", "-71.000 ms: --reduce-dtype bf16 (changes roundings)".
std::vector<std::string> lines_of(const Verdict& verdict);

}  // namespace weft::study
