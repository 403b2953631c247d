// What a command says while it works: one line at the bottom of a terminal, which the next one replaces, with a bar and
// the time that is left.
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

/// How far a work is.
struct Status {
  std::string text;
  std::int64_t done = 0, total = 0;  // a total of 0: nobody knows, and there is no bar
  std::string time = "";             // at the end of the line; "": the time left, by what was done so far
};

/// The line, as wide as so many columns: the bar takes what the rest leaves, and goes where that is too little; then
/// the text is cut. Without a width, as in a file, the bar has 20 places and nothing is cut.
///   " 42% [========>           ] 84/200  loss 2.3456  ETA 0:32"
std::string status_text(const Status& status, std::optional<std::size_t> columns = std::nullopt);

/// The latest status stands at the bottom of a terminal until this ends; what say() and the log write to the same
/// terminal meanwhile comes above it. A pipe or a file gets lines alone, and no control characters.
///
///   StatusLine line;
///   for (…) line.tell({"[3/8] planning", 2, 8});
///
/// A terminal has one bottom line, so of several status lines in a process the one that spoke last is seen.
class StatusLine {
 public:
  /// `shown` false: it says nothing.
  explicit StatusLine(bool shown = true, std::FILE* out = stderr);
  /// Takes the line away.
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool on_terminal() const { return terminal_; }
  /// On a terminal alone.
  void show(Status status);
  /// Elsewhere too: there its text, as a line.
  void tell(const Status& status);
  /// What stands on the terminal stays there, uncut, as a line like others.
  void keep();
  /// A line above the status.
  void print(std::string_view line) const;

 private:
  std::string time_left(const Status& status);

  using Clock = std::chrono::steady_clock;

  const bool shown_, terminal_;
  std::FILE* const out_;
  Clock::time_point begin_;            // of the work that is being done
  std::int64_t done_ = 0, total_ = 0;  // of it, when it was last spoken of
};

/// Where somebody who works tells how far that is.
using TellStatus = std::function<void(const Status& status)>;

/// Writes to a stream; all of Weft's output to people goes through here, by say() and the log. Where a status line
/// stands on the stream's terminal, it is taken away first and put back after a text that ends its line. In one piece,
/// as other processes may write to the same terminal.
void write_above_status(std::FILE* file, std::string_view text);

}  // namespace weft
