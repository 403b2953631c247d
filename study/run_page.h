// The report of a training run, and of several runs beside each other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "inspect/report/report_page.h"
#include "train/config/config.h"

namespace weft::study {

/// More would be more curves than a chart can tell apart.
inline constexpr std::size_t kMostRuns = 12;

/// `overrides`: of the run's configuration, whose plan is made again. Throws UserError unless the folder has a
/// configuration, metrics and a trace.
inspect::ReportPage run_page(const std::filesystem::path& folder, const std::vector<train::Setting>& overrides);

/// Curves of all runs in one chart each, a table of the runs, and each run's own tables.
inspect::ReportPage runs_page(const std::vector<std::string>& folders);

/// Short names that differ: the folders' last names, or their paths where these are equal. Throws UserError if a folder
/// is named twice, or if there are too many.
std::vector<std::string> run_names(const std::vector<std::string>& folders);

}  // namespace weft::study
