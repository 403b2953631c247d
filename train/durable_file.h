// Files that are either complete or absent: written under a temporary name, synced to disk, then renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "train/checksum.h"

namespace weft {

/// What was written: to be compared with what is read back.
struct FileSummary {
  std::uint64_t bytes = 0;
  std::string crc32c;  // eight hexadecimal digits, see Crc32c
  friend bool operator==(const FileSummary&, const FileSummary&) = default;
};

/// One file being written. Until commit() nothing exists under its name (or the older file is still there), and a
/// writer that is abandoned, by an exception say, removes its temporary file.
///
///   DurableFile file("run/manifest.json");
///   file.write(bytes);
///   file.commit();
class DurableFile {
 public:
  /// Creates "<path>.tmp". Throws RuntimeFault if that fails.
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  /// Appends. Throws RuntimeFault (a full disk, for example), naming the file.
  void write(std::span<const std::byte> bytes);
  /// Syncs, renames to the final name and syncs the folder.
  FileSummary commit();

 private:
  std::filesystem::path path_, temporary_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  Crc32c checksum_;
};

/// Writes a whole text file durably.
FileSummary write_durable(const std::filesystem::path& path, std::string_view text);

/// Throws UserError unless a file can be written there: before minutes of work whose result would be lost.
void expect_writable(const std::filesystem::path& file, std::string_view fix = "-o with another path");

/// Makes renames inside `folder` survive a power failure.
void sync_folder(const std::filesystem::path& folder);

}  // namespace weft
