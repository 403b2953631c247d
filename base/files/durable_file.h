// Files and folders that are either complete or absent: written under a temporary name, synced to disk, then renamed.
// Files that grow while a run goes on; folders made before it is known whether they will hold anything; and whether a
// large write has the space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/files/checksum.h"

namespace weft {

/// The size and checksum of the bytes written, to be compared with the bytes read back.
struct FileSummary {
  std::uint64_t bytes = 0;
  std::string crc32c;  // eight hexadecimal digits, see Crc32c; "": of a file whose begin was replaced
  friend bool operator==(const FileSummary&, const FileSummary&) = default;
};

/// Who chose a file's name. A file in a folder that Weft fills takes its name: a link or anything else there is
/// replaced, never written through. A path that a person chose, with -o say, means the same as in other tools: links
/// are followed to their target, and anything that isn't a regular file (a device, a pipe, /dev/stdout, /dev/fd/3) is
/// written to directly.
enum class Named : std::uint8_t { by_weft, by_person };

/// One file being written. Until commit(), nothing exists under its name, or the older file is still there. A writer
/// that is destroyed before commit(), by an exception say, removes its temporary file. A device or a pipe gets the
/// bytes at once.
///
///   DurableFile file("run/manifest.json");
///   file.write(bytes);
///   file.commit();
class DurableFile {
 public:
  /// Creates a temporary file beside `path` that no other writer uses, and removes the one that a killed writer of
  /// `path` left. Throws RuntimeFault on failure.
  explicit DurableFile(std::filesystem::path path, Named named = Named::by_weft);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  /// Appends. Throws RuntimeFault (a full disk, for example), naming the file.
  void write(std::span<const std::byte> bytes);
  /// Replaces the first bytes, which were written before: a header that tells what follows it. Devices and pipes, whose
  /// bytes are gone, throw RuntimeFault.
  void replace_begin(std::span<const std::byte> bytes);
  /// Syncs, renames to the final name and syncs the folder.
  FileSummary commit();

 private:
  std::filesystem::path path_, temporary_;  // temporary_ is empty if bytes are written at once
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
  Crc32c checksum_;
  bool replaced_ = false;  // the begin: the checksum is another by now
};

/// Writes a whole text file durably.
FileSummary write_durable(const std::filesystem::path& path, std::string_view text, Named named = Named::by_weft);

/// A file that grows while a run goes on, so that it can be watched and survives a kill. Every write is one call of the
/// system where the disk takes it whole.
class AppendedFile {
 public:
  /// Makes the file or goes on at its end. A symbolic link isn't followed. Throws RuntimeFault if it can't be opened.
  explicit AppendedFile(std::filesystem::path path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  /// Throws RuntimeFault if the disk does.
  void append(std::string_view text);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Whether a person's path isn't a regular file, so that it gets bytes as they come: a device, a pipe, /dev/stdout.
bool written_at_once(const std::filesystem::path& path);

/// Where a chain of links ends: a path that is no link, and need not exist.
std::filesystem::path behind_links(std::filesystem::path path);

/// Throws UserError unless a person's path can be written. Call it before minutes of work whose result would be lost.
void expect_writable(const std::filesystem::path& file, std::string_view fix = "-o with another path");

/// Makes renames inside `folder` survive a power failure.
void sync_folder(const std::filesystem::path& folder);

/// Bytes needed and bytes free at `where`, the nearest existing folder.
struct SpaceCheck {
  std::filesystem::path where;
  std::uint64_t needed = 0, free = 0;

  bool fits() const { return needed <= free; }
  /// "needs 1240032 bytes (1.18 MiB), but '/data' has 4096 bytes (4.00 KiB) free".
  std::string text() const;
};

/// Compares the space that files of these sizes (bytes) need below `folder`, which need not exist, with the space that
/// this user may still write there. Files take whole blocks, and the folder itself two more. Throws RuntimeFault if the
/// system doesn't tell.
SpaceCheck check_space(const std::filesystem::path& folder, std::span<const std::uint64_t> file_sizes);

/// Temporary names begin with this prefix. While no run is writing in a folder, every such name is a leftover.
inline constexpr std::string_view kWritingPrefix = ".writing_";
inline constexpr std::string_view kRemovingPrefix = ".removing_";

/// A folder while files are written into it. Their writers sync them to disk (see DurableFile). Until commit(), nothing
/// exists under the folder's name, or the older folder is still there. A DurableFolder that is destroyed before
/// commit(), by an exception say, removes its files.
///
///   DurableFolder folder("run/checkpoints/step_00000200");
///   write_durable(folder.path() / "manifest.json", text);
///   folder.commit();
class DurableFolder {
 public:
  /// Makes the parent folder and an empty temporary folder beside `path`. Throws RuntimeFault.
  explicit DurableFolder(std::filesystem::path path);
  ~DurableFolder();
  DurableFolder(const DurableFolder&) = delete;
  DurableFolder& operator=(const DurableFolder&) = delete;

  /// The folder to put the files into; other processes may do so too, provided that they are told when.
  const std::filesystem::path& path() const { return temporary_; }
  /// Renames to the final name and syncs the parent folder. An older folder of that name is exchanged in one step if
  /// the file system can (ext4, xfs, btrfs, tmpfs); on others (NFS) a kill between two renames leaves neither folder.
  void commit();
  /// Instead of commit(): moves the files into an existing folder, which may hold other files. It replaces no file;
  /// after a fault, none of the moved files stays.
  void move_files_to(const std::filesystem::path& folder);

 private:
  std::filesystem::path path_, temporary_;
  bool committed_ = false;
};

/// The temporary name of a DurableFolder for `path`.
std::filesystem::path writing_path(const std::filesystem::path& path);

/// Removes a folder after renaming it to a temporary name, so that a kill never leaves an incomplete folder that looks
/// complete. Returns false if a part couldn't be removed: remove_leftovers() will try again.
bool remove_folder(const std::filesystem::path& path);

/// Removes everything with a temporary name in `parent`, as far as possible. Nobody may be writing there.
void remove_leftovers(const std::filesystem::path& parent);

/// Remembers the folders that it made; its destructor removes the empty ones.
class MadeFolders {
 public:
  MadeFolders() = default;
  ~MadeFolders();
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  /// Makes `folder` and its missing parents. Returns whether `folder` is new; if several processes make it at once,
  /// exactly one gets true.
  bool make(const std::filesystem::path& folder, std::error_code& error);

 private:
  std::vector<std::filesystem::path> made_;  // outermost first
};

}  // namespace weft
