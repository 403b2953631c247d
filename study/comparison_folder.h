// What `weft compare -o FOLDER` keeps for `weft report`: the configuration, the table, each policy's step, and causes.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "inspect/report/report_page.h"
#include "study/comparison.h"
#include "train/config/config.h"

namespace weft::study {

struct KeptComparison {
  nlohmann::json comparison;  // as comparison_json() writes it
  std::vector<inspect::ReportView> views;
  std::vector<nlohmann::json> causes;  // by view, see causes_json()
  std::string graph_svg;               // of the fastest policy; "" if it can't be laid out
  std::string graph_note, graph_view;  // the view is the policy's
};

/// The planned ones of `comparison`; `measured` are rank 0's steps by report, which count instead of simulated ones
/// where they aren't empty. Explains each simulated step.
KeptComparison keep_comparison(const simulate::PlanningProblem& problem, const Comparison& comparison,
                               const std::vector<plan::StepTrace>& measured);

/// A name without an ending, unless it is a device or a pipe; or a folder that exists.
bool names_folder(const std::filesystem::path& path);

/// Makes the folder, or replaces one that an earlier comparison left; expect_comparison_folder() refuses others.
void write_comparison(const std::filesystem::path& folder, const train::RunConfig& config, const KeptComparison& kept);
void expect_comparison_folder(const std::filesystem::path& folder);

/// Throws UserError on a folder that write_comparison() didn't write.
KeptComparison read_comparison(const std::filesystem::path& folder);

inspect::ReportPage comparison_page(KeptComparison kept);

}  // namespace weft::study
