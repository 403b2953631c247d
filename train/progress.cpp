// The parts of the line, and the decision which lines a log needs.
#include "train/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/units.h"

namespace weft::train {

namespace {

constexpr double kSecondsOfLog = 10;
constexpr std::size_t kColumns = 79;  // many terminals wrap after the 80th

}  // namespace

Status progress_status(const StepMetrics& metrics, std::int64_t first_step, std::int64_t steps, double elapsed) {
  const std::int64_t done = std::min(metrics.step + 1, steps), here = done - first_step;
  const double left = elapsed / static_cast<double>(here) * static_cast<double>(steps - done);
  Status status{"", done, steps,
                done < steps ? "ETA " + human_duration(here > 0 ? left : NAN) : "in " + human_duration(elapsed)};
  // In their order, each with a rank: those of a higher rank go first.
  std::vector<std::pair<int, std::string>> parts = {
      {0, fmt::format("{}/{}  loss {}", done, steps, loss_text(metrics.loss, metrics.learnt))}};
  if (metrics.val_loss) parts.emplace_back(0, fmt::format("  val {:.4f}", *metrics.val_loss));
  parts.emplace_back(3, fmt::format("  norm {:.2f}", metrics.grad_norm));
  parts.emplace_back(2, fmt::format("  lr {:.1e}", metrics.lr));
  parts.emplace_back(0, fmt::format("  {} tok/s", human_count(metrics.tokens_per_s)));
  if (metrics.mfu) parts.emplace_back(1, fmt::format("  MFU {:.0f}%", 100 * *metrics.mfu));
  for (int most = 3; most >= 0; --most) {
    status.text.clear();
    for (const auto& [rank, text] : parts) status.text += rank <= most ? text : "";
    constexpr std::size_t kShareAndGap = 7;  // " 42% " and the two blanks before the time
    if (kShareAndGap + status.text.size() + status.time.size() <= kColumns) break;
  }
  return status;
}

bool LoggedSteps::has(const StepMetrics& metrics, double elapsed) {
  bool is_due = !latest_ || metrics.val_loss || metrics.step + 1 >= steps_;
  if (!is_due) is_due = every_ > 0 ? (metrics.step + 1) % every_ == 0 : elapsed - *latest_ >= kSecondsOfLog;
  if (is_due) latest_ = elapsed;
  return is_due;
}

void EvaluationBar::show(std::int64_t done, std::int64_t batches) {
  const auto now = Clock::now();
  if (done == 0) begun_at_ = shown_at_ = now;
  const double interval = line_.on_terminal() ? 0.1 : kSecondsOfLog;
  if (std::chrono::duration<double>(now - shown_at_).count() < interval) return;
  shown_at_ = now;
  const double elapsed = std::chrono::duration<double>(now - begun_at_).count();
  const double left = elapsed / static_cast<double>(done) * static_cast<double>(batches - done);
  const Status status{fmt::format("held-out batch {}/{}", done, batches), done, batches,
                      "ETA " + human_duration(done > 0 ? left : NAN)};
  line_.on_terminal() ? line_.show(status) : line_.print(status_text(status, kColumns));
}

void Progress::update(const StepMetrics& metrics, double elapsed) {
  const bool logged = logged_.has(metrics, elapsed);
  const Status status = progress_status(metrics, first_step_, steps_, elapsed);
  if (!line_.on_terminal()) {
    if (logged) line_.print(status_text(status, kColumns));
    return;
  }
  line_.show(status);
  const bool asked = log_every_ > 0 && logged;
  if (asked || metrics.val_loss || metrics.step + 1 >= steps_) line_.keep();
}

}  // namespace weft::train
