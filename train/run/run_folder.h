// The folder of a run: of one run at a time, and of no other run before it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/files/made_folders.h"
#include "runtime/comm/communicator.h"
#include "train/config/config.h"

namespace weft::train {

/// Holds the file ".lock" in a folder locked; the process's number stands in it. A process that ends in whatever way
/// lets go of its lock, so a file that is left means nothing.
class FolderLock {
 public:
  /// Throws UserError when another holds it, naming the process, and where files can't be written or locked.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path file_;
  int fd_ = -1;
};

/// A run folder, made where it isn't there and locked as long as this lives. If the run leaves nothing in it, what was
/// made is gone again.
class RunFolder {
 public:
  enum class Name : std::uint8_t { given, proposed };       // proposed: made new, with "-2" … where it is taken
  enum class HeldRun : std::uint8_t { refused, accepted };  // a run that the folder holds already

  /// Throws UserError.
  RunFolder(const std::filesystem::path& folder, Name name, HeldRun held);

  const std::filesystem::path& path() const { return path_; }

 private:
  MadeFolders made_;  // outlives the lock
  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
};

/// What the command line says about the folder, beside the configuration.
struct RunFolderOptions {
  RunFolder::Name name = RunFolder::Name::given;
  bool overwrite = false;  // a run that is there makes room
};

/// Rank 0 claims config.run_dir for a run of `config`; on other ranks the result is null. All get the folder's name in
/// `config`. A folder that holds a run is for resuming that run, or for overwriting it: else UserError, the same on
/// every rank. Collective over the world.
std::unique_ptr<RunFolder> claim_run_folder(comm::World& world, RunConfig& config, const RunFolderOptions& options);

}  // namespace weft::train
