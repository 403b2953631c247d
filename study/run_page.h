// The report of a training run, and of several runs beside each other; the metrics of a run, step by step, as `weft
// train` writes them to metrics.jsonl.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "inspect/report/report_page.h"
#include "inspect/report/step_chart.h"
#include "train/config/config.h"

namespace weft::study {

/// One number of each step.
struct MetricSeries {
  std::string key;    // its name in the file: "tokens_per_s"
  std::string title;  // "tokens/s"
  bool from_zero = true;
  std::vector<inspect::StepPoint> points = {};

  /// Nothing was measured: 0.
  double median() const;
};

struct RunMetrics {
  std::size_t steps = 0;
  std::vector<MetricSeries> series;          // loss, exposed communication, tokens/s, gradient norm, learning rate
  std::vector<inspect::StepPoint> held_out;  // losses on held-out data, at the steps that were evaluated
  MetricSeries step_ms;

  const MetricSeries& of(const std::string& key) const;
};

/// A last line without an end is what a kill leaves. Throws UserError on any other file.
RunMetrics read_metrics(const std::filesystem::path& file);

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
