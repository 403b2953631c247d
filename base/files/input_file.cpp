#include "base/files/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace weft {

std::string in_quotes(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  const auto status = std::filesystem::status(path_, error);
  const std::string name = in_quotes(path_);
  if (!std::filesystem::exists(status)) throw UserError(name + " doesn't exist", "a file", "check the path");
  if (std::filesystem::is_directory(status)) throw UserError(name + " is a folder", "a file", "name a file in it");
  if (!std::filesystem::is_regular_file(status))
    throw UserError(name + " isn't a regular file", "a file", "copy its content to a file");
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0 && (errno == EMFILE || errno == ENFILE)) {
    throw UserError(name + " can't be opened: " + std::strerror(errno), "fewer files open at once",
                    "join them into fewer files, or raise the limit: ulimit -n 65536");
  }
  struct stat info {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0) {
    const int cause = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw UserError(name + " can't be opened: " + std::strerror(cause), "a readable file", "check its permissions");
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw RuntimeFault(fmt::format("{} can't be read: {}", in_quotes(path_), std::strerror(errno)));
    if (got == 0) {
      struct stat info {};
      const auto found = ::fstat(descriptor_, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : offset;
      throw RuntimeFault(
          fmt::format("{} was truncated while it was in use: it has {} bytes, and had {} when it was opened",
                      in_quotes(path_), found, size_));
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void read_in_pieces(const InputFile& file, std::uint64_t begin, std::uint64_t end,
                    const std::function<bool(std::span<const std::byte>)>& look) {
  constexpr std::uint64_t kPiece = 1 << 20;
  std::vector<std::byte> buffer(std::min(kPiece, end - begin));
  while (begin < end) {
    const std::span<std::byte> piece(buffer.data(), std::min<std::uint64_t>(buffer.size(), end - begin));
    file.read(begin, piece);
    if (!look(piece)) return;
    begin += piece.size();
  }
}

}  // namespace weft
