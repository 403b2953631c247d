// Folders that are either complete or absent: filled under a temporary name, then renamed; or made before it is known
// whether they will hold anything.
#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace weft {

/// Temporary names begin with this prefix. While no run is writing in a folder, every such name is a leftover.
inline constexpr std::string_view kWritingPrefix = ".writing_";
inline constexpr std::string_view kRemovingPrefix = ".removing_";

/// One folder being filled; its files are synced to disk themselves (see DurableFile). Until commit(), nothing exists
/// under its name, or the older folder is still there. Destroying it before commit(), by an exception say, removes it.
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
