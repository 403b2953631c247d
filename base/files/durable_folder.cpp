#include "base/files/durable_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

fs::path beside(const fs::path& path, std::string_view prefix) {
  return path.parent_path() / (std::string(prefix) + path.filename().string());
}

[[noreturn]] void fail(const fs::path& path, std::string_view what, const std::string& reason) {
  throw RuntimeFault(in_quotes(path) + " can't be " + std::string(what) + ": " + reason);
}

}  // namespace

DurableFolder::DurableFolder(fs::path path) : path_(std::move(path)), temporary_(writing_path(path_)) {
  std::error_code error;
  fs::remove_all(temporary_, error);  // left by a run that was killed
  const bool cleared = !error || error == std::errc::not_a_directory;
  if (cleared) error.clear();
  if (cleared && path_.has_parent_path()) fs::create_directories(path_.parent_path(), error);
  // The folder must be new: a folder or link that somebody else put there meanwhile isn't filled.
  const bool made = !error && fs::create_directory(temporary_, error);
  if (!made) fail(path_, "written", error ? error.message() : "its temporary folder appeared meanwhile");
}

DurableFolder::~DurableFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void DurableFolder::commit() {
  sync_folder(temporary_);
  const auto rename_to_final = [this](unsigned flags) {
    return ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), flags) == 0;
  };
  if (!rename_to_final(RENAME_NOREPLACE)) {
    // The name is taken, or the file system has no rename flags: then the older folder has to make room.
    const bool exchanged = errno == EEXIST && rename_to_final(RENAME_EXCHANGE);
    if (!exchanged) {
      if (fs::exists(path_) && !remove_folder(path_)) fail(path_, "replaced", "the older one can't be removed");
      if (!rename_to_final(0)) fail(path_, "put in place", std::strerror(errno));
    }
  }
  committed_ = true;
  sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);  // the older folder, if there was one
}

void DurableFolder::move_files_to(const fs::path& folder) {
  std::vector<fs::path> moved;
  for (const fs::directory_entry& entry : fs::directory_iterator(temporary_)) {
    const fs::path place = folder / entry.path().filename();
    std::error_code error;
    if (!fs::exists(place, error)) {
      fs::rename(entry.path(), place, error);
    } else {
      error = std::make_error_code(std::errc::file_exists);
    }
    if (error) {
      std::error_code ignored;
      for (const fs::path& file : moved) fs::remove(file, ignored);
      fail(place, "put in place", error.message());
    }
    moved.push_back(place);
  }
  sync_folder(folder);
}

fs::path writing_path(const fs::path& path) {
  return beside(path, kWritingPrefix);
}

bool remove_folder(const fs::path& path) {
  const fs::path removing = beside(path, kRemovingPrefix);
  std::error_code error;
  fs::remove_all(removing, error);
  if (!error) fs::rename(path, removing, error);
  if (!error) fs::remove_all(removing, error);
  return !error;
}

void remove_leftovers(const fs::path& parent) {
  std::vector<fs::path> leftovers;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kWritingPrefix) || name.starts_with(kRemovingPrefix)) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, ignored);
}

MadeFolders::~MadeFolders() {
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    if (::rmdir(folder->c_str()) != 0) return;
  }
}

bool MadeFolders::make(const fs::path& folder, std::error_code& error) {
  error.clear();
  std::vector<fs::path> missing;  // innermost first
  for (fs::path at = fs::absolute(folder).lexically_normal(); !fs::exists(at, error); at = at.parent_path()) {
    if (error) return false;
    if (at.has_filename()) missing.push_back(at);
  }
  bool is_new = false;
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    is_new = fs::create_directory(*at, error);
    if (error) return false;
    if (is_new) made_.push_back(*at);
  }
  if (!fs::is_directory(folder, error) && !error) error = std::make_error_code(std::errc::not_a_directory);
  return is_new;
}

}  // namespace weft
