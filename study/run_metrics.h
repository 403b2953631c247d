// The metrics of a run, step by step, as `weft train` writes them to metrics.jsonl.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "inspect/report/step_chart.h"

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

}  // namespace weft::study
