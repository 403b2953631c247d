// Lines are written with one call each; a file is only parsed when a run continues.
#include "train/run/metrics.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"

namespace weft::train {
namespace {

bool is_of_earlier_step(std::string_view line, std::int64_t first_step, MetricsForm form) {
  if (form == MetricsForm::csv) {
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), step);
    return error == std::errc() && *end == ',' && step < first_step;
  }
  try {
    const Document document = read_json(line, "");
    return document.root()["step"].integer(INT64_MIN, INT64_MAX) < first_step;
  } catch (const UserError&) {
    return false;
  }
}

/// The lines of `text` that are whole and belong to steps before `first_step`.
std::string earlier_lines(std::string_view text, std::int64_t first_step, MetricsForm form) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end + 1);
    text.remove_prefix(end + 1);
    if (is_of_earlier_step(line, first_step, form)) kept += line;
  }
  return kept;
}

/// The content that a file begins with.
std::string opening_of(const std::filesystem::path& path, std::int64_t first_step, MetricsForm form) {
  const std::string_view head = form == MetricsForm::csv ? csv_header() : "";
  if (!std::filesystem::exists(path)) return std::string(head);
  const std::string text = whole_file(path);
  if (!text.empty() && !text.starts_with(head)) {
    throw UserError(in_quotes(path) + " has other columns", std::string(head.substr(0, head.size() - 1)),
                    "move it away, or name another --run-dir");
  }
  return std::string(head) + earlier_lines(text, first_step, form);
}

/// `path`, with the opening that it needs.
const std::filesystem::path& prepared(const std::filesystem::path& path, std::int64_t first_step, MetricsForm form) {
  if (form == MetricsForm::csv || std::filesystem::exists(path))
    write_durable(path, opening_of(path, first_step, form));
  return path;
}

}  // namespace

double without_nan_sign(double value) {
  return std::isnan(value) ? std::nan("") : value;
}

std::string loss_text(double loss, bool learnt) {
  return learnt ? fmt::format("{:.4f}", loss) : "none";
}

std::vector<Metric> metrics_in_order(const StepMetrics& metrics) {
  return {
      {"loss", metrics.loss, metrics.learnt}, {"val_loss", metrics.val_loss.value_or(0), metrics.val_loss.has_value()},
      {"grad_norm", metrics.grad_norm},       {"lr", metrics.lr},
      {"step_ms", metrics.step_ms},           {"tokens_per_s", metrics.tokens_per_s},
      {"model_tflops", metrics.model_tflops}, {"exposed_comm_ms", metrics.exposed_comm_ms}};
}

std::string json_line(const StepMetrics& metrics) {
  std::string line = fmt::format("{{\"step\":{}", metrics.step);
  std::vector<std::string> notes;
  if (!metrics.learnt) {
    line += ",\"loss\":null";
    notes.emplace_back("no target of the step counts in the loss");
  }
  for (const Metric& field : metrics_in_order(metrics)) {
    if (!field.present) continue;
    const bool finite = std::isfinite(field.value);
    line += fmt::format(",\"{}\":{}", field.name, finite ? fmt::format("{}", field.value) : "null");
    if (!finite) notes.push_back(fmt::format("{} is {}", field.name, field.value));
  }
  if (metrics.val_loss_before && std::isfinite(*metrics.val_loss_before))
    line += fmt::format(",\"val_loss_before\":{}", *metrics.val_loss_before);
  line += fmt::format(",\"peak_memory_bytes\":{},\"tokens_seen\":{},\"wall_time\":{:.3f}", metrics.peak_memory_bytes,
                      metrics.tokens_seen, metrics.wall_time);
  if (metrics.mfu) line += fmt::format(",\"mfu\":{:.4f}", *metrics.mfu);
  return line + (notes.empty() ? "}\n" : fmt::format(",\"note\":\"{}\"}}\n", join(notes)));
}

std::string_view csv_header() {
  static const std::string header = [] {
    std::string names = "step";
    for (const Metric& field : metrics_in_order({})) names += fmt::format(",{}", field.name);
    return names + ",peak_memory_bytes,tokens_seen,wall_time\n";
  }();
  return header;
}

std::string csv_line(const StepMetrics& metrics) {
  std::string line = fmt::format("{}", metrics.step);
  for (const Metric& field : metrics_in_order(metrics)) {
    line += field.present ? fmt::format(",{}", field.value) : ",";
  }
  return line + fmt::format(",{},{},{:.3f}\n", metrics.peak_memory_bytes, metrics.tokens_seen, metrics.wall_time);
}

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t first_step, MetricsForm form)
    : form_(form), file_(prepared(path, first_step, form)) {}

void MetricsFile::write(const StepMetrics& metrics) {
  file_.append(form_ == MetricsForm::csv ? csv_line(metrics) : json_line(metrics));
}

}  // namespace weft::train
