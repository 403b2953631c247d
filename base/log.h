// Logging: warnings and errors to the person at the terminal, everything to the log of a run.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

namespace weft {

enum class LogLevel : std::uint8_t { error, warning, info, debug, trace };

std::string_view to_string(LogLevel level);

/// Throws UserError that names the nearest level.
LogLevel log_level_of(std::string_view name);

/// The subject of a record.
enum class LogTopic : std::uint8_t { run, comm, memory, plan, tuning, checkpoint, evaluation, watchdog };

/// Logs for one rank. A value to be made where a record is logged:
///
///   const Log log(LogTopic::checkpoint, world.rank());
///   log.info("{} written", path);
///   log.warning("{} is in the way", name);     // on stderr too: "weft: warning: … is in the way"
///
/// A record that nobody reads isn't formatted. Don't log tasks or steps: a record is formatted, written and flushed by
/// its caller.
///
/// The destination belongs to the process and isn't passed as an argument. It is the one exception to our rule against
/// global state: stderr belongs to the process too, and a communicator or a watchdog thread may log at any depth. The
/// global is a pointer to the RunLog that a command or a test holds; only a RunLog changes it.
class Log {
 public:
  explicit Log(LogTopic topic, std::optional<int> rank = std::nullopt) : topic_(topic), rank_(rank) {}

  template <class... Arguments>
  void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::error, format, fmt::make_format_args(arguments...));
  }
  template <class... Arguments>
  void warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::warning, format, fmt::make_format_args(arguments...));
  }
  template <class... Arguments>
  void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::info, format, fmt::make_format_args(arguments...));
  }
  template <class... Arguments>
  void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::debug, format, fmt::make_format_args(arguments...));
  }
  template <class... Arguments>
  void trace(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    say(LogLevel::trace, format, fmt::make_format_args(arguments...));
  }

  /// Writes a text to stderr as it is, whatever the level, and as a record to the log of the run.
  void tell(LogLevel level, std::string_view text) const;

  /// Whether anybody reads records of the level.
  static bool is_read(LogLevel level);

 private:
  void say(LogLevel level, fmt::string_view format, fmt::format_args arguments) const;
  /// To the log of the run alone.
  void record(LogLevel level, std::string_view text) const;

  LogTopic topic_;
  std::optional<int> rank_;
};

/// The log of a run. While it exists, it keeps records down to its level in memory; once it is opened, they are in its
/// file. A refused run leaves no file. A record is one line: time, level, rank, topic, text. Ranks of one process share
/// the log. The newest RunLog gets the process's records; after it is destroyed, the previous one gets them again.
class RunLog {
 public:
  explicit RunLog(LogLevel level = LogLevel::info);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Appends the kept records to the file, then every new record at once, so that it survives a crash of the process.
  /// If the file can't be written, the run loses its log and warns, but goes on.
  void open(const std::filesystem::path& file);

  class File;  // in log.cpp

 private:
  const std::shared_ptr<File> file_, before_;
};

/// Writes to stderr, and to no log, a text for a person that is neither a result nor a warning nor an error.
void tell(std::string_view text);

}  // namespace weft
