// Files that are read: at offsets, mapped into memory, or whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// A path as messages show it: in single quotes.
std::string in_quotes(const std::filesystem::path& path);

/// A file opened once and read at offsets, for data that a run reads as long as it lasts. Reading bytes that are no
/// longer there is an error that names the file. Owns one descriptor. A file that is renamed or removed stays readable;
/// a truncated file doesn't.
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

/// A file mapped read-only into memory, so that weights larger than memory are read by page. For files that are read at
/// once, such as checkpoints and profiles: if a file is truncated while it is mapped, SIGBUS
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

/// A small text file, read whole. A person's path may name anything, even an endless device: at most `most_bytes` + 1
/// bytes are read. `what` is the file's name in messages: "the configuration file". Throws UserError if the file can't
/// be read or is larger.
std::string read_text_file(const std::filesystem::path& path, std::string_view what, std::size_t most_bytes,
                           std::string_view expected, std::string_view fix);

/// Whether `name` names a file directly in a known folder: neither the folder itself nor anything elsewhere.
bool is_plain_file_name(std::string_view name);

}  // namespace weft
