// mmap and its release; a file descriptor is only needed while mapping.
#include "train/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const char* path) : fd_(::open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string in_quotes(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  const auto status = std::filesystem::status(path_, error);
  const std::string name = in_quotes(path_);
  if (!std::filesystem::exists(status)) throw UserError(name + " doesn't exist", "a file", "check the path");
  if (std::filesystem::is_directory(status)) throw UserError(name + " is a folder", "a file", "name a file in it");
  if (!std::filesystem::is_regular_file(status))
    throw UserError(name + " isn't a regular file", "a file", "copy its content to a file");
  const Descriptor file(path_.c_str());
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    throw UserError(name + " can't be opened: " + std::strerror(errno), "a readable file", "check its permissions");
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) {
    throw UserError(name + " can't be mapped: " + std::strerror(errno), "a file on a file system with mmap",
                    "copy it to another");
  }
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace weft
