// Lines are written with one call each; the file is only parsed when a run continues.
#include "train/run/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/files/mapped_file.h"

namespace weft::train {
namespace {

bool is_of_earlier_step(std::string_view line, std::int64_t first_step) {
  try {
    const Document document = read_json(line, "");
    return document.root()["step"].integer(INT64_MIN, INT64_MAX) < first_step;
  } catch (const UserError&) {
    return false;
  }
}

/// The lines of `text` that are whole and belong to steps before `first_step`.
std::string earlier_lines(std::string_view text, std::int64_t first_step) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end + 1);
    text.remove_prefix(end + 1);
    if (is_of_earlier_step(line, first_step)) kept += line;
  }
  return kept;
}

}  // namespace

double without_nan_sign(double value) {
  return std::isnan(value) ? std::nan("") : value;
}

void append_json(const StepMetrics& metrics, fmt::memory_buffer& out) {
  auto end = fmt::appender(out);
  struct Field {
    std::string_view name;
    double value;
    bool present = true;
  };
  const std::array<Field, 8> fields = {{{"loss", metrics.loss},
                                        {"val_loss", metrics.val_loss.value_or(0), metrics.val_loss.has_value()},
                                        {"grad_norm", metrics.grad_norm},
                                        {"lr", metrics.lr},
                                        {"step_ms", metrics.step_ms},
                                        {"tokens_per_s", metrics.tokens_per_s},
                                        {"model_tflops", metrics.model_tflops},
                                        {"exposed_comm_ms", metrics.exposed_comm_ms}}};
  fmt::format_to(end, "{{\"step\":{}", metrics.step);
  for (const Field& field : fields) {
    if (!field.present) continue;
    if (std::isfinite(field.value)) {
      fmt::format_to(end, ",\"{}\":{}", field.name, field.value);
    } else {
      fmt::format_to(end, ",\"{}\":null", field.name);
    }
  }
  fmt::format_to(end, ",\"peak_memory_bytes\":{}", metrics.peak_memory_bytes);
  bool noted = false;
  for (const Field& field : fields) {
    if (std::isfinite(field.value)) continue;
    fmt::format_to(end, "{}{} is {}", noted ? ", " : ",\"note\":\"", field.name, field.value);
    noted = true;
  }
  fmt::format_to(end, "{}\n", noted ? "\"}" : "}");
}

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t first_step) : path_(std::move(path)) {
  if (std::filesystem::exists(path_)) {
    const MappedFile old(path_);
    const auto bytes = old.bytes();
    write_durable(path_, earlier_lines({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, first_step));
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0) throw RuntimeFault(in_quotes(path_) + " can't be opened: " + std::strerror(errno));
}

MetricsFile::~MetricsFile() {
  ::close(fd_);
}

void MetricsFile::write(const StepMetrics& metrics) {
  line_.clear();
  append_json(metrics, line_);
  const char* data = line_.data();
  std::size_t left = line_.size();
  while (left > 0) {
    const ssize_t written = ::write(fd_, data, left);
    if (written < 0) {
      if (errno == EINTR) continue;
      throw RuntimeFault(in_quotes(path_) + " can't be written: " + std::strerror(errno));
    }
    data += written;
    left -= static_cast<std::size_t>(written);
  }
}

}  // namespace weft::train
