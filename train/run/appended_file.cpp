#include "train/run/appended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"

namespace weft::train {

AppendedFile::AppendedFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd_ < 0) throw RuntimeFault(in_quotes(path_) + " can't be opened: " + std::strerror(errno));
}

AppendedFile::~AppendedFile() {
  ::close(fd_);
}

void AppendedFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw RuntimeFault(in_quotes(path_) + " can't be written: " + std::strerror(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace weft::train
