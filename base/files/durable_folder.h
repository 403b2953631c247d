// Folders that are either complete or absent: filled under a temporary name, then renamed.
#pragma once

#include <filesystem>
#include <string_view>

namespace weft {

/// Temporary names begin with these; what bears one is left over when no run is writing there.
inline constexpr std::string_view kWritingPrefix = ".writing_";
inline constexpr std::string_view kRemovingPrefix = ".removing_";

/// One folder being filled, with files that are synced to disk themselves (see DurableFile). Until commit() nothing
/// exists under its name, or the older folder is still there; one that is abandoned, by an exception say, is removed.
///
///   DurableFolder folder("run/checkpoints/step_00000200");
///   write_durable(folder.path() / "manifest.json", text);
///   folder.commit();
class DurableFolder {
 public:
  /// Makes the folder above and an empty temporary one beside `path`. Throws RuntimeFault.
  explicit DurableFolder(std::filesystem::path path);
  ~DurableFolder();
  DurableFolder(const DurableFolder&) = delete;
  DurableFolder& operator=(const DurableFolder&) = delete;

  /// Where to put the files; other processes may, too, as long as they are told when.
  const std::filesystem::path& path() const { return temporary_; }
  /// Renames to the final name and syncs the folder above. An older folder of that name is exchanged in one step where
  /// the file system can (ext4, xfs, btrfs, tmpfs); on others (NFS) a kill between two renames leaves neither.
  void commit();
  /// In place of commit(): moves the files into a folder that is there and may hold others. None of those is replaced;
  /// on a fault none of the files stays.
  void move_files_to(const std::filesystem::path& folder);

 private:
  std::filesystem::path path_, temporary_;
  bool committed_ = false;
};

/// The temporary name of a DurableFolder for `path`.
std::filesystem::path writing_path(const std::filesystem::path& path);

/// Removes a folder under a temporary name, so that what a kill leaves of it never looks complete. False if some of it
/// couldn't be removed: remove_leftovers() will try again.
bool remove_folder(const std::filesystem::path& path);

/// Removes all that bears a temporary name in `parent`, as far as that is possible. Nobody may be writing there.
void remove_leftovers(const std::filesystem::path& parent);

}  // namespace weft
