// The output of `weft explain`: paragraphs as wide as the terminal, and the same as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/text/json_object.h"
#include "runtime/simulate/explain.h"
#include "runtime/simulate/remedies.h"
#include "study/policy_step.h"
#include "study/verdict.h"

namespace weft::tools {

/// The micro-batch halved: more messages to hide, of half the size. Not exact, unlike the rewrites.
struct HalvedBatch {
  std::int64_t micro_batch = 0;
  double gain_ns = 0;
};

struct ExplainedStep {
  const simulate::Report& report;
  const simulate::Explanation& explanation;
  std::size_t of_class = 0;  // that is explained
  std::string only = {};     // as the user asked for it; "": everything
  std::optional<HalvedBatch> halved = {};
  std::optional<simulate::AppliedRemedies> applied = {};
  study::Verdict verdict = {};
  bool whole = false;                    // prints every group
  std::string output = {};               // the plan file that was written; "": none
  std::vector<std::string> unsure = {};  // numbers of the machine
  std::string summation_note = {};       // see train::summation_note()

  const simulate::ClassReport& own() const { return report.classes[of_class]; }
};

StyledText explanation_text(const ExplainedStep& step, std::optional<std::size_t> width);
JsonObject explanation_json(const ExplainedStep& step);

/// For what the stages of a pipeline wait while they don't compute, and the longest gaps.
study::Verdict bubble_verdict(const study::PolicyStep& step, std::vector<study::Change> settings);
std::string bubble_text(const study::PolicyStep& step, std::size_t most, const study::Verdict& verdict,
                        std::optional<std::size_t> width);
JsonObject bubble_json(const study::PolicyStep& step, std::size_t most, const study::Verdict& verdict);

}  // namespace weft::tools
