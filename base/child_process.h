// A program that runs beside this one and exchanges lines of text with it, until a moment at which it is ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// A child in a process group of its own. The destructor ends the whole group. Its standard input is empty, and what it
/// prints goes to this program's standard error, so that results on standard output stay clean.
///
///   ChildProcess child({"python3", "-c", script, "@requests", "@answers"}, {}, now + 60 s);
///   while (auto line = child.read_line()) child.write_line(answer_to(*line));
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;
  enum class End : std::uint8_t { none, closed, late, too_long };

  /// `command`: the program, looked up in PATH, and its arguments, of which "@0", "@1", … become the descriptors in
  /// `inherited`, "@requests" the one that the child writes lines to, and "@answers" the one that it reads lines from.
  /// Throws UserError if the program can't be started.
  ChildProcess(std::vector<std::string> command, std::span<const int> inherited, Clock::time_point deadline);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The next line that the child writes, without its end. nullopt: there is none, and why() says why.
  std::optional<std::string> read_line();
  /// False if the child no longer reads, or doesn't until the deadline.
  bool write_line(std::string_view line);
  End why() const { return end_; }
  /// Another moment at which the child is ended.
  void set_deadline(Clock::time_point deadline) { deadline_ = deadline; }
  /// Ends the child's process group at once, and waits for its end. Returns the child's exit code, or −signal.
  int stop() noexcept;

 private:
  bool wait_for(int descriptor, short events);

  Clock::time_point deadline_;
  pid_t id_ = -1;
  int requests_ = -1, answers_ = -1;  // read from, written to
  int status_ = 0;
  std::string buffer_;
  End end_ = End::none;
};

}  // namespace weft
