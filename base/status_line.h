// The terminal that an output stream writes to, if it writes to one, and the progress of a command: one line at its
// bottom, replaced at each update, with a bar and the remaining time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

struct Terminal {
  bool is_terminal = false;
  int columns = 80;  // 80 where the width isn't known, as in a pipe
  bool colours = false;
};

/// The state of now: people resize terminals. Colours are for terminals only, and neither for TERM=dumb nor where
/// NO_COLOR is set and not empty (see no-color.org).
Terminal terminal_of(std::FILE* file);

/// The progress of some work.
struct Status {
  std::string text;
  std::int64_t done = 0, total = 0;  // a total of 0: unknown, no bar
  std::string time = "";  // at the end of the line; "": the remaining time, estimated from the progress so far
};

/// The line for a terminal of `columns` columns. The bar takes the columns that the text leaves; if they are too few,
/// the bar is dropped, then the text is cut. Without a width, as in a file, the bar has 20 places and nothing is cut.
///   " 42% [========>           ] 84/200  loss 2.3456  ETA 0:32"
std::string status_text(const Status& status, std::optional<std::size_t> columns = std::nullopt);

/// The latest status stays at the bottom of a terminal until this object is destroyed. Text that say() and the log
/// write to the same terminal appears above it. A pipe or a file gets plain lines without control characters.
///
///   StatusLine line;
///   for (…) line.tell({"[3/8] planning", 2, 8});
///
/// A terminal has one bottom line: of several status lines in a process, the last updated one is visible.
class StatusLine {
 public:
  /// If `shown` is false, nothing is printed.
  explicit StatusLine(bool shown = true, std::FILE* out = stderr);
  /// Erases the line.
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool on_terminal() const { return terminal_; }
  /// Updates the line, on a terminal only.
  void show(Status status);
  /// Like show(); a pipe or a file gets the text as a line.
  void tell(const Status& status);
  /// Leaves the status on the terminal, uncut, as an ordinary line.
  void keep();
  /// Prints a line above the status.
  void print(std::string_view line) const;

 private:
  std::string time_left(const Status& status);

  using Clock = std::chrono::steady_clock;

  const bool shown_, terminal_;
  std::FILE* const out_;
  Clock::time_point begin_;            // of the current work
  std::int64_t done_ = 0, total_ = 0;  // of the current work, at the last update
};

/// A callback that work reports its progress to.
using TellStatus = std::function<void(const Status& status)>;

/// Writes to a stream; all of Weft's output to people goes through here, by say() and the log. A status line on the
/// stream's terminal is erased first, and redrawn after a text that ends its line. Everything is written in one piece,
/// since other processes may write to the same terminal.
void write_above_status(std::FILE* file, std::string_view text);

}  // namespace weft
