// metrics.jsonl: the metrics of each step, one JSON object per line.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace weft::train {

/// One line. Times are milliseconds; `model_tflops` counts the model's floating-point operations without recomputation.
struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> val_loss;  // on steps that evaluated
  double grad_norm = 0, lr = 0, step_ms = 0, tokens_per_s = 0, model_tflops = 0, exposed_comm_ms = 0;
  std::uint64_t peak_memory_bytes = 0;
};

/// The value; a NaN loses the sign that some CPUs give it, which would be printed.
double without_nan_sign(double value);

/// {"step":3,"loss":5.52,"grad_norm":1.25,"lr":0.0003,…}. JSON has no NaN and no infinity: such a value becomes null,
/// and "note" names it ("loss is nan"). Appends to `out`, with a newline.
void append_json(const StepMetrics& metrics, fmt::memory_buffer& out);

/// The file of a run, flushed line by line, so that it can be watched and survives a kill.
class MetricsFile {
 public:
  /// Opens `path` for a run that begins with `first_step`: lines of that step and later ones, from a run that went
  /// further than the checkpoint it continues from, are dropped, as is a line cut off by a kill; so each step has one
  /// line. Throws RuntimeFault if the file can't be written.
  MetricsFile(std::filesystem::path path, std::int64_t first_step);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Throws RuntimeFault if the disk does.
  void write(const StepMetrics& metrics);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  fmt::memory_buffer line_;
};

}  // namespace weft::train
