// A file mapped read-only into memory, so that weights larger than memory are read by page.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/files/input_file.h"

namespace weft {

/// For files that are read at once, such as checkpoints and profiles: if a file is truncated while it is mapped, SIGBUS
/// ends the process. For data that a run reads as long as it lasts, use InputFile.
///
/// Owns one mapping. The bytes stay where they are when the object is moved, so views into them stay valid.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws UserError if the path is missing, is a folder, can't be read or isn't a regular file. An empty file is
  /// fine: it has no bytes.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  /// Takes the pages of `part`, a part of bytes(), from the process. They are read again if somebody needs them, so a
  /// reader that calls this as it goes on takes little memory, however large the file is.
  void release(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft
