// What Weft says of its own doings: warnings and errors to the person at the terminal, everything to the log of a run.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

enum class LogLevel : std::uint8_t { error, warning, info, debug, trace };

std::string_view to_string(LogLevel level);

/// Throws UserError, which names the nearest level.
LogLevel log_level_of(std::string_view name);

/// What a record is about.
enum class LogTopic : std::uint8_t { run, comm, memory, plan, tuning, checkpoint, evaluation, watchdog };

/// Says what happens, for a rank. A value to be made where something is said:
///
///   const Log log(LogTopic::checkpoint, world.rank());
///   log.info("{} written", path);
///   log.warning("{} is in the way", name);     // on stderr too: "weft: warning: … is in the way"
///
/// Nothing is made of arguments that nobody wants to read. Not for tasks, and not for steps: a record is formatted,
/// written and flushed where it is said.
///
/// Where records go belongs to the process and isn't handed on, the one exception from our rule against global state:
/// stderr is the process's as well, and a communicator or a watchdog thread may have something to say at any depth.
/// What is global is a pointer to the RunLog that a command or a test holds, and only a RunLog changes it.
class Log {
 public:
  explicit Log(LogTopic topic, std::optional<int> rank = std::nullopt) : topic_(topic), rank_(rank) {}

  template <class... Arguments>
  void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::error, format, std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  void warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::warning, format, std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::info, format, std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::debug, format, std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  void trace(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::trace, format, std::forward<Arguments>(arguments)...);
  }

  /// A text that stands on stderr as it is, whatever the level, and in the log of the run as a record.
  void tell(LogLevel level, std::string_view text) const;

  /// Whether anybody reads records of the level.
  static bool is_read(LogLevel level);

 private:
  template <class... Arguments>
  void say(LogLevel level, fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (is_read(level)) write(level, fmt::format(format, std::forward<Arguments>(arguments)...), Readers::all);
  }
  enum class Readers : std::uint8_t { all, file };
  void write(LogLevel level, std::string_view text, Readers readers) const;

  LogTopic topic_;
  std::optional<int> rank_;
};

/// The log of a run: while one lives, records down to its level are kept in memory, and are in its file from the moment
/// that there is one; a run that is refused leaves none. A record is a line: time, level, rank, topic, text. Several
/// ranks of one process share it. The RunLog made last is the process's; when it ends, the one before is so again.
class RunLog {
 public:
  explicit RunLog(LogLevel level = LogLevel::info);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Adds what was kept to the end of the file, and from now on every record at once, so that it stays whatever the
  /// process comes to. A file that can't be written costs the run its log and a warning, nothing else.
  void open(const std::filesystem::path& file);

  class File;  // in log.cpp

 private:
  const std::shared_ptr<File> file_, before_;
};

/// For a person, on stderr and in no log: what isn't a result, a warning or an error.
void tell(std::string_view text);

}  // namespace weft
