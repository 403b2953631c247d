// The folder of a run, which belongs to one run at a time and to no earlier run.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "base/files/durable_file.h"
#include "runtime/comm/communicator.h"
#include "train/config/config.h"

namespace weft::train {

/// Locks the file ".lock" in a folder; the file holds the process's number. The lock ends with the process in any case,
/// so a file that is left has no effect. A link in its place is removed, and what it leads to isn't written.
class FolderLock {
 public:
  /// Throws UserError if another process holds the lock, naming it, or if files can't be written or locked. `noun` and
  /// `fix` are of the messages: "the run folder", "--run-dir with another path".
  FolderLock(const std::filesystem::path& folder, std::string_view noun, std::string_view fix);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path file_;
  int fd_ = -1;
};

/// Throws UserError if a folder in a folder of Weft's, which is filled and cleared, is a link: what it leads to may be
/// anybody's. Files need no such care, since writers replace a link in a file's place.
void expect_no_link(const std::filesystem::path& folder, std::string_view fix);

/// A run folder, made if missing and locked during this object's life. A folder that was made and stays empty is
/// removed.
class RunFolder {
 public:
  /// `proposed`: a new folder, with "-2" … if the name is taken. `may_hold_run`: the folder may hold a run already.
  /// Throws UserError.
  RunFolder(const std::filesystem::path& folder, bool proposed, bool may_hold_run);

  const std::filesystem::path& path() const { return path_; }

 private:
  MadeFolders made_;  // outlives the lock
  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
};

/// Settings of the command line for the folder, besides the configuration.
struct RunFolderOptions {
  bool proposed = false;   // by Weft: another name if it is taken
  bool overwrite = false;  // removes an existing run
};

/// Rank 0 claims config.run_dir for a run of `config`; on other ranks the result is null. All get the folder's name in
/// `config`. Throws the same UserError on every rank if the folder holds a run and the new run neither resumes nor
/// overwrites it. Collective over the world.
std::unique_ptr<RunFolder> claim_run_folder(comm::World& world, RunConfig& config, const RunFolderOptions& options);

}  // namespace weft::train
