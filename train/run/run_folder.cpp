#include "train/run/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "runtime/comm/agreement.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/run_files.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAnotherFolder = "--run-dir with another path";

/// The number that the holder of a lock has written, "" if there is none.
std::string holder(int fd) {
  std::array<char, 20> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  const auto end = std::find_if_not(text.begin(), text.begin() + std::max<ssize_t>(0, size),
                                    [](unsigned char c) { return std::isdigit(c) != 0; });
  return std::string(text.begin(), end);
}

/// Of a file with hard links, which may be anybody's.
bool has_other_names(int fd) {
  struct stat open {};
  return ::fstat(fd, &open) == 0 && open.st_nlink > 1;
}

bool is_same_file(int fd, const fs::path& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

/// Whether a run of this configuration continues the run in its run folder.
bool goes_on(const RunConfig& config) {
  if (config.resume.empty() || config.resume == kResumeAuto) return !config.resume.empty();
  std::error_code absent;
  return fs::equivalent(find_checkpoint(config.resume).parent_path(), checkpoints_of(config.run_dir), absent);
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, std::string_view noun, std::string_view fix) : file_(folder / ".lock") {
  while (fd_ < 0) {
    const int fd = ::open(file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    const bool led_away = fd < 0 ? errno == ELOOP : has_other_names(fd);
    if (led_away && ::unlink(file_.c_str()) == 0) {
      if (fd >= 0) ::close(fd);
      continue;
    }
    if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      const std::string process = fd >= 0 ? holder(fd) : "";
      if (fd >= 0) ::close(fd);
      if (reason == EWOULDBLOCK) {
        throw UserError(fmt::format("{} {} is in use by {}", noun, in_quotes(folder),
                                    process.empty() ? "another process" : "process " + process),
                        "one run at a time", fmt::format("{}, or wait for the end of that run", fix));
      }
      throw UserError(fmt::format("{} {} can't be locked: {}", noun, in_quotes(folder), std::strerror(reason)),
                      "a folder that can be written", std::string(fix));
    }
    // The previous holder may have removed the file between the two calls; then try again with a new file.
    if (is_same_file(fd, file_)) {
      fd_ = fd;
    } else {
      ::close(fd);
    }
  }
  const std::string own = fmt::format("{}\n", ::getpid());
  // For the message of a refused process, which leaves the number out if the disk is full.
  [[maybe_unused]] const bool told = ::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, own.data(), own.size(), 0) > 0;
}

FolderLock::~FolderLock() {
  ::unlink(file_.c_str());
  ::close(fd_);
}

void expect_no_link(const fs::path& folder, std::string_view fix) {
  std::error_code absent;
  if (!fs::is_symlink(folder, absent)) return;
  throw UserError(in_quotes(folder) + " is a link", "a folder: what a link leads to isn't written or cleared",
                  fmt::format("remove the link; or {}, on another disk say", fix));
}

RunFolder::RunFolder(const fs::path& folder, bool proposed, bool may_hold_run) : path_(folder) {
  std::error_code error;
  for (int number = 2; !made_.make(path_, error) && !error && proposed; ++number) {
    path_ = fmt::format("{}-{}", folder.string(), number);
  }
  if (error) {
    throw UserError(fmt::format("can't make the run folder {}: {}", path_.string(), error.message()),
                    "a folder that can be written", kAnotherFolder);
  }
  lock_ = std::make_unique<FolderLock>(path_, "the run folder", kAnotherFolder);
  for (const fs::path& own : {checkpoints_of(path_), path_ / kTensorBoardFolder}) expect_no_link(own, kAnotherFolder);
  if (!may_hold_run && holds_run(path_)) {
    throw UserError(fmt::format("the run folder {} already holds a run", in_quotes(path_)), "a folder without one",
                    fmt::format("--resume auto continues that run; {} begins another run; --overwrite removes "
                                "its metrics, logs, traces and checkpoints",
                                kAnotherFolder));
  }
}

std::unique_ptr<RunFolder> claim_run_folder(comm::World& world, RunConfig& config, const RunFolderOptions& options) {
  std::unique_ptr<RunFolder> folder;
  std::string path;
  comm::act_together(world, [&] {
    if (options.overwrite && !config.resume.empty()) {
      throw UserError(fmt::format("--overwrite and resume = {}", config.resume),
                      "only one: resume continues a run, --overwrite removes it",
                      "leave one out; --resume \"\" where a file sets it");
    }
    if (world.rank() != 0) return;
    folder = std::make_unique<RunFolder>(config.run_dir, options.proposed, options.overwrite || goes_on(config));
    path = folder->path().string();
  });
  config.run_dir = comm::text_of_rank_0(world, path);
  return folder;
}

}  // namespace weft::train
