// The write, fsync, rename sequence over POSIX calls, whose errors carry the name of what failed.
#include "train/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "train/mapped_file.h"

namespace weft {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view what) {
  const std::string reason = std::strerror(errno);
  throw RuntimeFault(in_quotes(path) + " can't be " + std::string(what) + ": " + reason);
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  std::filesystem::path name = path;
  name += ".tmp";
  return name;
}

}  // namespace

DurableFile::DurableFile(std::filesystem::path path) : path_(std::move(path)), temporary_(temporary_name(path_)) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail(temporary_, "created");
}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void DurableFile::write(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  checksum_.add(bytes);
  while (!bytes.empty()) {
    constexpr std::size_t kLargest = std::size_t{1} << 30;  // one call transfers less than 2 GiB
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kLargest));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(path_, "written");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

FileSummary DurableFile::commit() {
  if (::fsync(fd_) != 0) fail(path_, "synced to disk");
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    fail(path_, "put in place");
  }
  sync_folder(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
  return {bytes_, checksum_.text()};
}

FileSummary write_durable(const std::filesystem::path& path, std::string_view text) {
  DurableFile file(path);
  file.write(std::as_bytes(std::span(text.data(), text.size())));
  return file.commit();
}

void expect_writable(const std::filesystem::path& file, std::string_view fix) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (std::filesystem::is_directory(folder) && !std::filesystem::is_directory(file) &&
      access(folder.c_str(), W_OK) == 0) {
    return;
  }
  throw UserError(in_quotes(file) + " can't be written", "a file in a folder that is there", fix);
}

void sync_folder(const std::filesystem::path& folder) {
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

}  // namespace weft
