#include "study/run_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "base/files/document.h"
#include "base/files/text_file.h"

namespace weft::study {
namespace {

/// A number, unless the line has none: null stands for one that isn't finite.
void read_point(const DocumentValue& line, const std::string& key, std::vector<inspect::StepPoint>& points) {
  const auto value = line.find(key.c_str());
  if (value && !value->is_null()) points.push_back({line["step"].integer(0, INT64_MAX), value->number()});
}

}  // namespace

double MetricSeries::median() const {
  if (points.empty()) return 0;
  std::vector<double> values;
  for (const inspect::StepPoint& point : points) values.push_back(point.value);
  std::ranges::sort(values);
  return values[values.size() / 2];
}

const MetricSeries& RunMetrics::of(const std::string& key) const {
  const auto found = std::ranges::find(series, key, &MetricSeries::key);
  if (found == series.end()) throw std::logic_error("no series of metrics is called " + key);
  return *found;
}

RunMetrics read_metrics(const std::filesystem::path& file) {
  RunMetrics metrics;
  metrics.series = {{"loss", "loss", false},
                    {"exposed_comm_ms", "exposed communication, ms"},
                    {"tokens_per_s", "tokens/s"},
                    {"grad_norm", "gradient norm"},
                    {"lr", "learning rate"}};
  metrics.step_ms = {"step_ms", "step, ms"};
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  constexpr const char* kFix = "give a run folder, with the metrics.jsonl that weft train wrote";
  const std::string text = read_text_file(file, "the file", kMostBytes, "the metrics of a run", kFix);
  std::size_t number = 0;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string name = fmt::format("{} line {}", file.string(), ++number);
    const Document document = read_json(std::string_view(text).substr(at, end - at), name, {.fix = kFix});
    const DocumentValue line = document.root();
    for (const char* key : {"step", "loss", "step_ms"}) (void)line[key];  // each line has these
    for (MetricSeries& series : metrics.series) read_point(line, series.key, series.points);
    read_point(line, "val_loss", metrics.held_out);
    metrics.step_ms.points.push_back({line["step"].integer(0, INT64_MAX), line["step_ms"].number()});
  }
  metrics.steps = number;
  return metrics;
}

}  // namespace weft::study
