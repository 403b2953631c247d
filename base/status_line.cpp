// The layout of the line, and the rules for writing to a terminal.
#include "base/status_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/printable.h"
#include "base/units.h"
#include "base/utf8.h"

namespace weft {
namespace {

constexpr const char* kErase = "\r\x1b[K";  // clears the cursor's line

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The bottom line of this process's terminal. All threads share it, so it belongs to the process, as stderr does.
struct BottomLine {
  std::mutex mutex;
  const StatusLine* owner = nullptr;  // null: nothing is shown
  std::FILE* file = nullptr;
  Status status;  // kept rather than its text, since the width may change
};

BottomLine& bottom_line() {
  static BottomLine line;
  return line;
}

/// One column stays free: many terminals wrap after the last column.
void draw(const BottomLine& line) {
  fmt::print(line.file, "{}{}", kErase,
             status_text(line.status, static_cast<std::size_t>(terminal_of(line.file).columns) - 1));
  std::fflush(line.file);
}

/// The progress bar, in the columns that the text leaves free.
std::string bar_of(const Status& status, std::size_t places) {
  const auto filled = static_cast<std::size_t>(std::clamp<std::int64_t>(
      status.done * static_cast<std::int64_t>(places) / status.total, 0, static_cast<std::int64_t>(places)));
  std::string bar(filled, '=');
  if (filled < places) bar.push_back('>');
  bar.resize(places, ' ');
  return "[" + bar + "] ";
}

}  // namespace

Terminal terminal_of(std::FILE* file) {
  Terminal terminal;
  const int descriptor = ::fileno(file);
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) terminal.columns = size.ws_col;
  terminal.is_terminal = ::isatty(descriptor) != 0;
  terminal.colours = terminal.is_terminal && environment("TERM") != "dumb" && environment("NO_COLOR").empty();
  return terminal;
}

std::string status_text(const Status& status, std::optional<std::size_t> columns) {
  constexpr std::size_t kUsualBar = 20, kLeastBar = 8, kBrackets = 3;
  const std::string text = printable_line(status.text), end = status.time.empty() ? "" : "  " + status.time;
  const std::string begin = status.total > 0 ? fmt::format("{:3}% ", 100 * status.done / status.total) : "";
  const std::size_t fixed = text_width(begin) + text_width(end), used = fixed + text_width(text);
  if (!columns) return begin + (status.total > 0 ? bar_of(status, kUsualBar) : "") + text + end;
  if (status.total > 0 && used + kBrackets + kLeastBar <= *columns) {
    return begin + bar_of(status, *columns - used - kBrackets) + text + end;
  }
  if (fixed >= *columns) return cut_to_width(begin + text, *columns);
  return begin + cut_to_width(text, *columns - fixed) + end;
}

StatusLine::StatusLine(bool shown, std::FILE* out)
    : shown_(shown), terminal_(shown && ::isatty(::fileno(out)) != 0), out_(out), begin_(Clock::now()) {}

StatusLine::~StatusLine() {
  BottomLine& line = bottom_line();
  const std::lock_guard lock(line.mutex);
  if (line.owner != this) return;
  line.owner = nullptr;
  std::fputs(kErase, out_);
  std::fflush(out_);
}

std::string StatusLine::time_left(const Status& status) {
  const auto now = Clock::now();
  if (status.total != total_ || status.done < done_) begin_ = now;  // other work began
  done_ = status.done;
  total_ = status.total;
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  if (status.done <= 0 || status.done >= status.total || elapsed <= 0) return "";
  const double a_part = elapsed / static_cast<double>(status.done);
  return "ETA " + human_duration(a_part * static_cast<double>(status.total - status.done));
}

void StatusLine::show(Status status) {
  if (!terminal_) return;
  if (status.time.empty()) status.time = time_left(status);
  BottomLine& line = bottom_line();
  const std::lock_guard lock(line.mutex);
  line.owner = this;
  line.file = out_;
  line.status = std::move(status);
  draw(line);
}

void StatusLine::tell(const Status& status) {
  terminal_ ? show(status) : print(status.text);
}

void StatusLine::keep() {
  BottomLine& line = bottom_line();
  const std::lock_guard lock(line.mutex);
  if (line.owner != this) return;
  line.owner = nullptr;
  fmt::print(out_, "{}{}\n", kErase, status_text(line.status));
  std::fflush(out_);
}

void StatusLine::print(std::string_view line) const {
  if (!shown_) return;
  write_above_status(out_, printable(line) + "\n");
  std::fflush(out_);
}

void write_above_status(std::FILE* file, std::string_view text) {
  BottomLine& line = bottom_line();
  const std::lock_guard lock(line.mutex);
  const bool disturbs = line.owner != nullptr && ::isatty(::fileno(file)) != 0;
  if (disturbs) {
    std::fputs(kErase, line.file);
    std::fflush(line.file);
  }
  fmt::print(file, "{}", text);
  if (!disturbs) return;
  std::fflush(file);
  if (text.ends_with('\n')) {
    draw(line);
  } else {
    line.owner = nullptr;
  }
}

}  // namespace weft
