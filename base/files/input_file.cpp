#include "base/files/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
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

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const InputFile file(path_);
  size_ = file.size();
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) {
    throw UserError(in_quotes(path_) + " can't be mapped: " + std::strerror(errno), "a file on a file system with mmap",
                    "copy it to another");
  }
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data()) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(part.data() + part.size());
  // A failure costs memory alone.
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT(performance-no-int-to-ptr)
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::string read_text_file(const std::filesystem::path& path, std::string_view what, std::size_t most_bytes,
                           std::string_view expected, std::string_view fix) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  while (file && text.size() <= most_bytes) {
    const std::size_t kept = text.size(), piece = std::min(most_bytes + 1 - kept, std::max(kept, kPiece));
    text.resize(kept + piece);
    file.read(text.data() + kept, static_cast<std::streamsize>(piece));
    text.resize(kept + static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof())) {
    throw UserError(fmt::format("{} {} can't be read", what, path.string()), expected, fix);
  }
  if (text.size() > most_bytes) {
    throw UserError(fmt::format("{} is larger than {} bytes", path.string(), most_bytes), expected, fix);
  }
  return text;
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

}  // namespace weft
