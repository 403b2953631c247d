// Formatting, and the decision which lines a log needs.
#include "train/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text/printable.h"
#include "base/text/units.h"

namespace weft {
namespace {

constexpr const char* kErase = "\r\x1b[K";  // what the line showed

}  // namespace

std::string progress_line(const StepMetrics& metrics, std::int64_t first_step, std::int64_t steps, double elapsed) {
  constexpr std::int64_t kWidth = 20;
  const std::int64_t done = std::min(metrics.step + 1, steps);
  const std::int64_t filled = steps > 0 ? done * kWidth / steps : kWidth;
  std::string bar(static_cast<std::size_t>(filled), '=');
  if (filled < kWidth) bar.push_back('>');
  bar.resize(static_cast<std::size_t>(kWidth), ' ');
  std::string line = fmt::format("{:3}% [{}] {}/{}  loss {:.4f}", steps > 0 ? 100 * done / steps : 100, bar, done,
                                 steps, metrics.loss);
  if (metrics.val_loss) line += fmt::format("  val {:.4f}", *metrics.val_loss);
  line += fmt::format("  norm {:.2f}  lr {:.1e}  {} tok/s", metrics.grad_norm, metrics.lr,
                      human_count(metrics.tokens_per_s));
  const std::int64_t here = done - first_step;
  const double left = elapsed / static_cast<double>(here) * static_cast<double>(steps - done);
  line += done < steps ? "  ETA " + human_duration(here > 0 ? left : NAN) : "  in " + human_duration(elapsed);
  return line;
}

Progress::Progress(std::FILE* out, bool terminal, std::int64_t first_step, std::int64_t steps, double interval)
    : out_(out), terminal_(terminal), first_step_(first_step), steps_(steps), interval_(interval) {}

Progress::~Progress() {
  if (!line_.empty()) std::fputc('\n', out_);
  std::fflush(out_);
}

void Progress::update(const StepMetrics& metrics, double elapsed) {
  const bool last = metrics.step + 1 >= steps_;
  if (!terminal_ && !first_ && !last && !metrics.val_loss && elapsed - printed_at_ < interval_) return;
  first_ = false;
  printed_at_ = elapsed;
  std::string line = progress_line(metrics, first_step_, steps_, elapsed);
  if (!terminal_) {
    say(out_, "{}\n", line);
  } else if (metrics.val_loss || last) {
    std::fputs(kErase, out_);
    say(out_, "{}\n", line);  // these stay
    line.clear();
  } else {
    std::fputs(kErase, out_);
    say(out_, "{}", line);
  }
  line_ = terminal_ ? std::move(line) : std::string();
  std::fflush(out_);
}

void Progress::message(const std::string& text) {
  if (line_.empty()) {
    say(out_, "{}\n", text);
  } else {
    std::fputs(kErase, out_);
    say(out_, "{}\n{}", text, line_);
  }
  std::fflush(out_);
}

}  // namespace weft
