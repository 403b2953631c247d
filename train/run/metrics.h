// The metrics of each step of a run, and metrics.jsonl and metrics.csv, which have a line a step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/durable_file.h"

namespace weft::train {

/// Times are milliseconds; `model_tflops` counts the model's floating-point operations without recomputation.
struct StepMetrics {
  std::int64_t step = 0;
  double wall_time = 0;                   // seconds since 1970 at the end of the step
  std::int64_t tokens_seen = 0;           // of the whole run, this step's included
  double loss = 0;                        // none unless `learnt`
  bool learnt = true;                     // a target of the step counted in the loss
  std::optional<double> val_loss;         // on steps that evaluated
  std::optional<double> val_loss_before;  // of the model before step 0, on that step; not in CSV
  double grad_norm = 0, lr = 0, step_ms = 0, tokens_per_s = 0, model_tflops = 0, exposed_comm_ms = 0;
  std::uint64_t peak_memory_bytes = 0;
  std::optional<double> mfu = {};  // model_tflops as a share of what the ranks' products reach; of a named machine
};

/// The value; a NaN loses the sign that some CPUs give it, which would be printed.
double without_nan_sign(double value);

/// A loss with four digits; "none" of a step that learnt nothing.
std::string loss_text(double loss, bool learnt);

/// One number of a step. Metrics that a step lacks are left out of JSON and empty in CSV.
struct Metric {
  std::string_view name;  // "loss": the member of the JSON line, the column of the CSV file
  double value = 0;
  bool present = true;
};
/// All but the step and the whole numbers, in the order of the files.
std::vector<Metric> metrics_in_order(const StepMetrics& metrics);

/// {"step":3,"loss":5.52,"grad_norm":1.25,"lr":0.0003,…}. JSON has no NaN and no infinity: such a value becomes null,
/// and "note" names it ("loss is nan"); so does the loss of a step that learnt nothing. With a newline.
std::string json_line(const StepMetrics& metrics);

/// The first line of a CSV file: "step,loss,val_loss,…".
std::string_view csv_header();
/// A line below it: "3,5.52,,1.25,…". With a newline.
std::string csv_line(const StepMetrics& metrics);

enum class MetricsForm : std::uint8_t { json_lines, csv };

/// A file of a run with lines about its steps, flushed line by line, so that it can be watched and survives a kill.
class MetricsFile {
 public:
  /// Opens `path` for a run that begins with `first_step`: lines of that step and later ones, from a run that went
  /// further than the checkpoint it continues from, are dropped, as is a line cut off by a kill; so each step has one
  /// line. JSON lines name their step in the member "step". Throws RuntimeFault if the file can't be written, UserError
  /// on a CSV file with other columns.
  MetricsFile(const std::filesystem::path& path, std::int64_t first_step, MetricsForm form = MetricsForm::json_lines);

  /// Throws RuntimeFault if the disk does.
  void write(const StepMetrics& metrics);
  /// A line of another form, with its newline.
  void write(const std::string& line) { file_.append(line); }

 private:
  MetricsForm form_;
  AppendedFile file_;
};

}  // namespace weft::train
