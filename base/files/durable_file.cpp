// The sequence write, fsync, rename by POSIX calls; every error names the file.
#include "base/files/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/units.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, std::string_view what, const std::string& reason = std::strerror(errno)) {
  throw RuntimeFault(fmt::format("{} can't be {}: {}", in_quotes(path), what, reason));
}

constexpr int kMostLinks = 40;  // the system's limit
// Temporary names tried: one for each writer of a file at a time, and for each file of somebody else.
constexpr int kMostWriters = 100;

/// The n-th temporary name for `path`, short enough for the longest file names.
fs::path temporary_name(const fs::path& path, int n) {
  constexpr std::size_t kLongest = 230;
  const std::string name = std::string(kWritingPrefix) + path.filename().string().substr(0, kLongest);
  return path.parent_path() / (n == 0 ? name : name + "." + std::to_string(n));
}

/// Whether the open file still has this name.
bool bears(int fd, const fs::path& name) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(fd, &open_file) == 0 && ::lstat(name.c_str(), &named) == 0 && open_file.st_ino == named.st_ino &&
         open_file.st_dev == named.st_dev;
}

/// Removes the temporary file that a killed writer left: a file of this user that nobody has locked. Returns false if
/// the name belongs to something else or to an active writer.
bool remove_abandoned(const fs::path& name) {
  const int fd = ::open(name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT;
  struct stat found {};
  const bool ours = ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == ::geteuid();
  const bool removed = ours && ::flock(fd, LOCK_EX | LOCK_NB) == 0 && bears(fd, name) && ::unlink(name.c_str()) == 0;
  ::close(fd);
  return removed;
}

/// Creates a temporary file `name` for `path`, locked while it is open. Returns -1 if the name is taken; the existing
/// file isn't touched.
int create_exclusively(const fs::path& name, const fs::path& path) {
  const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) {
    if (errno == EEXIST) return -1;
    fail(path, "created");
  }
  // On a file system without locks, flock() fails with another error, and no writer removes another's file as
  // abandoned.
  const bool taken = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!taken && bears(fd, name)) return fd;
  ::close(fd);  // before it was locked, another writer removed it as abandoned
  return -1;
}

/// The target of a person's path.
struct Place {
  fs::path path;                  // after all links
  std::optional<int> descriptor;  // of this process: /dev/stdout, /dev/fd/3
  bool special = false;           // not a regular file: a device, a pipe
};

/// The descriptor that a path like /proc/self/fd/3 names, through any links to that folder.
std::optional<int> descriptor_of(const fs::path& path) {
  std::error_code none;
  const fs::path own = fs::canonical("/proc/self/fd", none);
  if (none || fs::canonical(path.parent_path(), none) != own || none) return std::nullopt;
  return number_in<int>(path.filename().string());
}

Place place_of(fs::path path) {
  std::error_code none;
  // The target of such a link, "pipe:[4711]", can't be opened by that name.
  for (int i = 0; i < kMostLinks; ++i) {
    if (const std::optional<int> descriptor = descriptor_of(path)) return {std::move(path), descriptor, false};
    if (!fs::is_symlink(path, none)) break;
    path = path.parent_path() / fs::read_symlink(path, none);
  }
  const bool special = fs::is_other(path, none);
  return {std::move(path), std::nullopt, special};
}

fs::path nearest_existing(fs::path folder) {
  folder = fs::absolute(folder);
  std::error_code ignored;
  while (folder.has_relative_path() && !fs::exists(folder, ignored)) folder = folder.parent_path();
  return folder;
}

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    constexpr std::size_t kLargest = std::size_t{1} << 30;  // one call transfers less than 2 GiB
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kLargest));
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EFBIG) fail(path, "written", "it is larger than this process's limit of a file's size (ulimit -f)");
      fail(path, "written");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

fs::path beside(const fs::path& path, std::string_view prefix) {
  return path.parent_path() / (std::string(prefix) + path.filename().string());
}

}  // namespace

DurableFile::DurableFile(fs::path path, Named named) : path_(std::move(path)) {
  if (named == Named::by_person) {
    Place place = place_of(path_);
    if (place.descriptor || place.special) {
      std::fflush(stdout);  // earlier output comes first
      fd_ = place.descriptor ? ::fcntl(*place.descriptor, F_DUPFD_CLOEXEC, 0)
                             : ::open(place.path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
      if (fd_ < 0) fail(path_, "opened");
      return;
    }
    path_ = std::move(place.path);
  }
  for (int n = 0; n < kMostWriters && fd_ < 0; ++n) {
    temporary_ = temporary_name(path_, n);
    fd_ = create_exclusively(temporary_, path_);
    if (fd_ < 0 && remove_abandoned(temporary_)) fd_ = create_exclusively(temporary_, path_);
  }
  if (fd_ < 0) throw RuntimeFault(in_quotes(path_) + " can't be created: all temporary names beside it are taken");
}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());  // before the lock is released
  ::close(fd_);
}

void DurableFile::write(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  checksum_.add(bytes);
  write_all(fd_, bytes, path_);
}

void DurableFile::replace_begin(std::span<const std::byte> bytes) {
  const auto size = static_cast<ssize_t>(bytes.size());
  if (temporary_.empty() || ::pwrite(fd_, bytes.data(), bytes.size(), 0) != size) fail(path_, "written");
  replaced_ = true;
}

FileSummary DurableFile::commit() {
  if (temporary_.empty()) {
    if (::close(std::exchange(fd_, -1)) != 0) fail(path_, "written");
    return {bytes_, checksum_.text()};
  }
  FileSummary summary{bytes_, replaced_ ? "" : checksum_.text()};
  if (::fsync(fd_) != 0) fail(path_, "synced to disk");
  // Still locked, so that no other writer takes the file for an abandoned one.
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "put in place");
  if (::close(std::exchange(fd_, -1)) != 0) fail(path_, "put in place");
  sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  return summary;
}

FileSummary write_durable(const fs::path& path, std::string_view text, Named named) {
  DurableFile file(path, named);
  file.write(std::as_bytes(std::span(text.data(), text.size())));
  return file.commit();
}

AppendedFile::AppendedFile(fs::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path_, "opened");
}

AppendedFile::~AppendedFile() {
  ::close(fd_);
}

void AppendedFile::append(std::string_view text) {
  write_all(fd_, std::as_bytes(std::span(text)), path_);
}

bool written_at_once(const fs::path& path) {
  const Place place = place_of(path);
  return place.descriptor || place.special;
}

fs::path behind_links(fs::path path) {
  return place_of(std::move(path)).path;
}

void expect_writable(const fs::path& file, std::string_view fix) {
  const Place place = place_of(file);
  const fs::path folder = place.path.has_parent_path() ? place.path.parent_path() : ".";
  std::error_code none;
  bool fine = false;
  if (place.descriptor) {
    const int flags = ::fcntl(*place.descriptor, F_GETFL);
    fine = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
  } else if (place.special) {
    fine = ::access(place.path.c_str(), W_OK) == 0;
  } else {
    fine = fs::is_directory(folder, none) && !fs::is_directory(place.path, none) && !fs::is_symlink(place.path, none) &&
           ::access(folder.c_str(), W_OK) == 0;
  }
  if (!fine) throw UserError(in_quotes(file) + " can't be written", "a file in a folder that is there", fix);
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(folder, "opened");
  const int result = ::fsync(fd);
  const int reason = errno;
  ::close(fd);
  // Some file systems can't sync a folder (EINVAL); their renames are as durable as they get.
  if (result != 0 && reason != EINVAL) {
    errno = reason;
    fail(folder, "synced to disk");
  }
}

std::string SpaceCheck::text() const {
  return fmt::format("needs {} bytes ({}), but {} has {} bytes ({}) free", needed, human_bytes(needed),
                     in_quotes(where), free, human_bytes(free));
}

SpaceCheck check_space(const fs::path& folder, std::span<const std::uint64_t> file_sizes) {
  constexpr std::uint64_t kBlocksOfFolder = 2;
  SpaceCheck check{nearest_existing(folder), 0, 0};
  struct statvfs status {};
  if (::statvfs(check.where.c_str(), &status) != 0) {
    throw RuntimeFault(
        fmt::format("the free space of {} is unknown: {}", in_quotes(check.where), std::strerror(errno)));
  }
  const std::uint64_t block = status.f_frsize;
  check.free = status.f_bavail * block;
  check.needed = kBlocksOfFolder * block;
  for (const std::uint64_t size : file_sizes) check.needed += (size + block - 1) / block * block;
  return check;
}

DurableFolder::DurableFolder(fs::path path) : path_(std::move(path)), temporary_(writing_path(path_)) {
  std::error_code error;
  fs::remove_all(temporary_, error);  // left by a run that was killed
  const bool cleared = !error || error == std::errc::not_a_directory;
  if (cleared) error.clear();
  if (cleared && path_.has_parent_path()) fs::create_directories(path_.parent_path(), error);
  // The folder must be new: a folder or link that somebody else put there meanwhile isn't filled.
  const bool made = !error && fs::create_directory(temporary_, error);
  if (!made) fail(path_, "written", error ? error.message() : "its temporary folder appeared meanwhile");
}

DurableFolder::~DurableFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void DurableFolder::commit() {
  sync_folder(temporary_);
  const auto rename_to_final = [this](unsigned flags) {
    return ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), flags) == 0;
  };
  if (!rename_to_final(RENAME_NOREPLACE)) {
    // The name is taken, or the file system has no rename flags: then the older folder has to make room.
    const bool exchanged = errno == EEXIST && rename_to_final(RENAME_EXCHANGE);
    if (!exchanged) {
      if (fs::exists(path_) && !remove_folder(path_)) fail(path_, "replaced", "the older one can't be removed");
      if (!rename_to_final(0)) fail(path_, "put in place");
    }
  }
  committed_ = true;
  sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);  // the older folder, if there was one
}

void DurableFolder::move_files_to(const fs::path& folder) {
  std::vector<fs::path> moved;
  for (const fs::directory_entry& entry : fs::directory_iterator(temporary_)) {
    const fs::path place = folder / entry.path().filename();
    std::error_code error;
    if (!fs::exists(place, error)) {
      fs::rename(entry.path(), place, error);
    } else {
      error = std::make_error_code(std::errc::file_exists);
    }
    if (error) {
      std::error_code ignored;
      for (const fs::path& file : moved) fs::remove(file, ignored);
      fail(place, "put in place", error.message());
    }
    moved.push_back(place);
  }
  sync_folder(folder);
}

fs::path writing_path(const fs::path& path) {
  return beside(path, kWritingPrefix);
}

bool remove_folder(const fs::path& path) {
  const fs::path removing = beside(path, kRemovingPrefix);
  std::error_code error;
  fs::remove_all(removing, error);
  if (!error) fs::rename(path, removing, error);
  if (!error) fs::remove_all(removing, error);
  return !error;
}

void remove_leftovers(const fs::path& parent) {
  std::vector<fs::path> leftovers;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kWritingPrefix) || name.starts_with(kRemovingPrefix)) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, ignored);
}

MadeFolders::~MadeFolders() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    if (::rmdir(folder->c_str()) != 0) return;
  }
}

bool MadeFolders::make(const fs::path& folder, std::error_code& error) {
  error.clear();
  std::vector<fs::path> missing;  // innermost first
  for (fs::path at = fs::absolute(folder).lexically_normal(); !fs::exists(at, error); at = at.parent_path()) {
    if (error) return false;
    if (at.has_filename()) missing.push_back(at);
  }
  bool is_new = false;
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    is_new = fs::create_directory(*at, error);
    if (error) return false;
    if (is_new) made_.push_back(*at);
  }
  if (!fs::is_directory(folder, error) && !error) error = std::make_error_code(std::errc::not_a_directory);
  return is_new;
}

}  // namespace weft
