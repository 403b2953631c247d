#include "study/result_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace weft::study {

namespace fs = std::filesystem;

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ResultFolder::ResultFolder(fs::path path, std::string_view marker, std::string_view command) : path_(std::move(path)) {
  constexpr const char* kFix = "-o with another name";
  std::error_code error;
  const bool existed = fs::exists(path_, error);
  if (existed && !fs::is_directory(path_, error)) {
    throw UserError(fmt::format("{} isn't a folder", path_.string()),
                    fmt::format("a new folder, or one of {}", command), kFix);
  }
  if (existed && !fs::exists(path_ / marker, error) && !fs::is_empty(path_, error)) {
    throw UserError(fmt::format("{} holds other files", path_.string()),
                    fmt::format("a new folder, an empty one or one of {}", command), kFix);
  }
  if (!existed && !fs::create_directories(path_, error)) {
    throw UserError(fmt::format("{} can't be made: {}", path_.string(), error.message()), "a folder for the results",
                    kFix);
  }
  lock_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_.get() >= 0 && ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return;
  if (lock_.get() >= 0 && errno == EWOULDBLOCK) {
    throw UserError(fmt::format("another process writes to {}", path_.string()), "a folder for each command",
                    fmt::format("wait for its end, or {}", kFix));
  }
  throw UserError(fmt::format("{} can't be used: {}", path_.string(), std::strerror(errno)), "", kFix);
}

}  // namespace weft::study
