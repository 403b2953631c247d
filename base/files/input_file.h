// A file opened once and read at offsets, for data that a run reads as long as it lasts. Reading bytes that are no
// longer there is an error that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace weft {

/// A path as messages show it: in single quotes.
std::string in_quotes(const std::filesystem::path& path);

/// Owns one descriptor. A file that is renamed or removed stays readable; a truncated file doesn't.
class InputFile {
 public:
  /// Throws UserError if the path is missing, is a folder, can't be read or isn't a regular file.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// Bytes of the file when it was opened.
  std::uint64_t size() const { return size_; }
  /// Fills `out` from `offset` on. Allocates nothing, and may be called by several threads at once. Throws
  /// RuntimeFault, naming the file, if it has fewer bytes by now or can't be read.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Calls `look` with the bytes [begin, end) of the file, in order, in pieces of at most 1 MiB. `look` returns whether
/// to go on.
void read_in_pieces(const InputFile& file, std::uint64_t begin, std::uint64_t end,
                    const std::function<bool(std::span<const std::byte>)>& look);

}  // namespace weft
