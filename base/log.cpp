// Sinks of spdlog: stderr, and a run's log file, whose records stay in memory until it is opened.
#include "base/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 5> kLevels = {"error", "warning", "info", "debug", "trace"};
constexpr std::array<std::string_view, 8> kTopics = {"run",    "comm",       "memory",     "plan",
                                                     "tuning", "checkpoint", "evaluation", "watchdog"};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  constexpr std::array kOfSpdlog = {spdlog::level::err, spdlog::level::warn, spdlog::level::info, spdlog::level::debug,
                                    spdlog::level::trace};
  return kOfSpdlog.at(static_cast<std::size_t>(level));
}

/// The text of a record on one line, with terminal control sequences escaped: people read logs on terminals.
class OneLine final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/, spdlog::memory_buf_t& line) override {
    const std::string text = printable_line({message.payload.data(), message.payload.size()});
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<OneLine>(); }
};

std::unique_ptr<spdlog::formatter> formatter_of(const char* pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::local, "\n");
  formatter->add_flag<OneLine>('*');
  formatter->set_pattern(pattern);
  return formatter;
}

/// Warnings and errors in the form that people know: "weft: warning: …".
class StandardError final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  StandardError() {
    set_formatter(formatter_of("%v"));
    set_level(spdlog::level::warn);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    StyledText line("weft: ");
    const bool fatal = message.level >= spdlog::level::err;
    line.add(fatal ? "error:" : "warning:", fatal ? Emphasis::error : Emphasis::warning);
    line.add(" ").add(std::string_view(text.data(), text.size()));
    say(stderr, line);
  }
  void flush_() override {}
};

}  // namespace

class RunLog::File final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit File(LogLevel level) {
    set_formatter(formatter_of("%Y-%m-%d %H:%M:%S.%e %-7l %n  %*"));
    set_level(spdlog_level(level));
  }

  void open(const std::filesystem::path& path) {
    {
      const std::lock_guard lock(mutex_);
      path_ = path;
      file_ = opened(path);
      if (file_ != nullptr) {
        append(early_);
      } else {
        lost_ = errno;
      }
      early_.clear();
    }
    warn_if_lost();
  }

  /// Warns once. Call it without the lock, which the record of the warning takes too.
  void warn_if_lost() {
    std::string file;
    int reason = 0;
    {
      const std::lock_guard lock(mutex_);
      if (lost_ == 0 || std::exchange(warned_, true)) return;
      file = path_.string();
      reason = lost_;
    }
    Log(LogTopic::run)
        .warning("the log {} can't be written: {}; the run goes on without it", file, std::strerror(reason));
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (lost_ != 0) return;
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    if (file_ == nullptr) {
      early_ += text;
    } else {
      append(text);
    }
  }
  void flush_() override {}

 private:
  void append(std::string_view text) {
    const bool written =
        std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() && std::fflush(file_.get()) == 0;
    if (!written) lost_ = errno;
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using Stream = std::unique_ptr<std::FILE, Close>;

  /// Null, with errno set, if it can't be opened. The folder may belong to somebody else: a link in the file's place is
  /// replaced, and a pipe without a reader doesn't block the run.
  static Stream opened(const std::filesystem::path& path) {
    const auto open = [&] {
      return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    };
    int descriptor = open();
    if (descriptor < 0 && errno == ELOOP && ::unlink(path.c_str()) == 0) descriptor = open();
    return Stream(descriptor < 0 ? nullptr : ::fdopen(descriptor, "a"));
  }

  std::filesystem::path path_;
  Stream file_;        // null: not yet open, or lost
  std::string early_;  // records from before it was opened
  int lost_ = 0;       // the errno that ended writing; 0 while records are written
  bool warned_ = false;
};

namespace {

/// The destinations of this process's records.
struct Destination {
  std::mutex mutex;
  std::shared_ptr<RunLog::File> file;
  std::atomic<LogLevel> level = LogLevel::warning;  // the least severe level that is read
};

Destination& destination() {
  static Destination of_process;
  return of_process;
}

std::shared_ptr<RunLog::File> current_file() {
  const std::lock_guard lock(destination().mutex);
  return destination().file;
}

std::shared_ptr<RunLog::File> exchange_file(std::shared_ptr<RunLog::File> file) {
  Destination& to = destination();
  const std::lock_guard lock(to.mutex);
  LogLevel level = LogLevel::warning;
  for (const LogLevel lower : {LogLevel::info, LogLevel::debug, LogLevel::trace}) {
    if (file != nullptr && file->should_log(spdlog_level(lower))) level = lower;
  }
  to.level = level;
  return std::exchange(to.file, std::move(file));
}

}  // namespace

std::string_view to_string(LogLevel level) {
  return kLevels.at(static_cast<std::size_t>(level));
}

LogLevel log_level_of(std::string_view name) {
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i] == name) return static_cast<LogLevel>(i);
  }
  const std::vector<std::string> known(kLevels.begin(), kLevels.end());
  const auto begun =
      std::ranges::find_if(known, [&](const std::string& level) { return !name.empty() && level.starts_with(name); });
  const std::string nearest = begun != known.end() ? *begun : nearest_name(name, known);
  throw UserError(fmt::format("\"{}\" isn't a log level", name), "one of " + join(known),
                  "--log-level " + (nearest.empty() ? std::string("info") : nearest));
}

bool Log::is_read(LogLevel level) {
  return level <= destination().level.load(std::memory_order_relaxed);
}

void Log::write(LogLevel level, std::string_view text, Readers readers) const {
  static const auto standard_error = std::make_shared<StandardError>();
  const std::shared_ptr<RunLog::File> file = current_file();
  std::vector<spdlog::sink_ptr> sinks;
  if (readers == Readers::all) sinks.push_back(standard_error);
  if (file != nullptr) sinks.push_back(file);
  const std::string rank = rank_ ? fmt::format("rank {}", *rank_) : "-";
  spdlog::logger logger(fmt::format("{:<7} {:<10}", rank, kTopics.at(static_cast<std::size_t>(topic_))), sinks.begin(),
                        sinks.end());
  logger.set_level(spdlog::level::trace);  // sinks have levels of their own
  logger.log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
  if (file != nullptr) file->warn_if_lost();
}

void Log::tell(LogLevel level, std::string_view text) const {
  weft::tell(text);
  if (text.ends_with('\n')) text.remove_suffix(1);
  write(level, text, Readers::file);
}

RunLog::RunLog(LogLevel level) : file_(std::make_shared<File>(level)), before_(exchange_file(file_)) {}

RunLog::~RunLog() {
  exchange_file(before_);
}

void RunLog::open(const std::filesystem::path& file) {
  file_->open(file);
}

void tell(std::string_view text) {
  say(stderr, "{}{}", text, text.ends_with('\n') ? "" : "\n");
}

}  // namespace weft
