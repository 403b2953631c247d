// The parts of the line, and the decision which lines a log needs.
#include "train/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace weft::train {

Status progress_status(const StepMetrics& metrics, std::int64_t first_step, std::int64_t steps, double elapsed) {
  const std::int64_t done = std::min(metrics.step + 1, steps);
  std::string text = fmt::format("{}/{}  loss {:.4f}", done, steps, metrics.loss);
  if (metrics.val_loss) text += fmt::format("  val {:.4f}", *metrics.val_loss);
  text += fmt::format("  norm {:.2f}  lr {:.1e}  {} tok/s", metrics.grad_norm, metrics.lr,
                      human_count(metrics.tokens_per_s));
  const std::int64_t here = done - first_step;
  const double left = elapsed / static_cast<double>(here) * static_cast<double>(steps - done);
  return {text, done, steps,
          done < steps ? "ETA " + human_duration(here > 0 ? left : NAN) : "in " + human_duration(elapsed)};
}

void Progress::update(const StepMetrics& metrics, double elapsed) {
  constexpr double kInterval = 10;
  const bool stays = metrics.val_loss || metrics.step + 1 >= steps_;
  if (!line_.on_terminal() && printed_at_ && !stays && elapsed - *printed_at_ < kInterval) return;
  printed_at_ = elapsed;
  const Status status = progress_status(metrics, first_step_, steps_, elapsed);
  if (!line_.on_terminal()) {
    line_.print(status_text(status));
    return;
  }
  line_.show(status);
  if (stays) line_.keep();
}

}  // namespace weft::train
