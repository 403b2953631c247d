// Records as lines, and a run's log file, whose records stay in memory until it is opened.
#include "base/log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
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

}  // namespace

class RunLog::File {
 public:
  explicit File(LogLevel level) : level_(level) {}

  LogLevel level() const { return level_; }

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

  void add(std::string_view line) {
    {
      const std::lock_guard lock(mutex_);
      if (lost_ == 0 && file_ == nullptr) {
        early_ += line;
      } else if (lost_ == 0) {
        append(line);
      }
    }
    warn_if_lost();
  }

 private:
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

  void append(std::string_view text) {
    const bool written =
        std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() && std::fflush(file_.get()) == 0;
    if (!written) lost_ = errno;
  }

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using Stream = std::unique_ptr<std::FILE, Close>;

  /// Null, with errno set, if it can't be opened. The folder may belong to somebody else: a link in the file's place,
  /// symbolic or hard, is replaced, and a pipe without a reader doesn't block the run.
  static Stream opened(const std::filesystem::path& path) {
    const auto open = [&] {
      return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    };
    int descriptor = open();
    struct stat found {};
    const bool shared =
        descriptor >= 0 && ::fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink > 1;
    if ((shared || (descriptor < 0 && errno == ELOOP)) && ::unlink(path.c_str()) == 0) {
      if (descriptor >= 0) ::close(descriptor);
      descriptor = open();
    }
    return Stream(descriptor < 0 ? nullptr : ::fdopen(descriptor, "a"));
  }

  const LogLevel level_;
  std::mutex mutex_;
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
  to.level = file == nullptr ? LogLevel::warning : std::max(LogLevel::warning, file->level());
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

void Log::say(LogLevel level, fmt::string_view format, fmt::format_args arguments) const {
  if (!is_read(level)) return;
  const std::string text = fmt::vformat(format, arguments);
  if (level <= LogLevel::warning) {
    const bool fatal = level == LogLevel::error;
    StyledText line("weft: ");
    line.add(fatal ? "error:" : "warning:", fatal ? Emphasis::error : Emphasis::warning);
    line.add(fmt::format(" {}\n", text));
    weft::say(stderr, line);
  }
  record(level, text);
}

void Log::record(LogLevel level, std::string_view text) const {
  const std::shared_ptr<RunLog::File> file = current_file();
  if (file == nullptr || level > file->level()) return;
  const auto now = std::chrono::system_clock::now();
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  // People read logs on terminals: a record is one line, with control sequences escaped.
  file->add(fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03} {:<7} {:<7} {:<10}  {}\n",
                        fmt::localtime(std::chrono::system_clock::to_time_t(now)), milliseconds, to_string(level),
                        rank_ ? fmt::format("rank {}", *rank_) : "-", kTopics.at(static_cast<std::size_t>(topic_)),
                        printable_line(text)));
}

void Log::tell(LogLevel level, std::string_view text) const {
  weft::tell(text);
  if (text.ends_with('\n')) text.remove_suffix(1);
  record(level, text);
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
