// A folder in which one command at a time collects results, so that it goes on where it was stopped.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/run/run_folder.h"

namespace weft::study {

/// What all results of a folder rest on, as text. Files that it names may differ in their number, not in their content.
struct FolderDescription {
  std::string head = {};
  std::vector<std::string> files = {};  // lines of file_line()
  std::string tail = {};
};

/// "# file: machine perlmutter crc32c e3069283"
std::string file_line(std::string_view name, std::string_view content);

class ResultFolder {
 public:
  /// Makes the folder, or opens one that has the file `marker`, by which `command` knows its own, and locks it. Throws
  /// UserError on a file, a folder with other files, or one to which another process writes. A marker that is new is
  /// empty until describe().
  ResultFolder(std::filesystem::path path, std::string_view marker, std::string_view command);

  const std::filesystem::path& path() const { return path_; }

  /// Writes the description to the marker's file, with the files that an earlier command named. Throws UserError naming
  /// the line in which results that are there rest on something else.
  void describe(const FolderDescription& now) const;
  /// A file of results; "" if it isn't there. Throws UserError if it can't be read.
  std::string read(const std::filesystem::path& name) const;

 private:
  std::filesystem::path path_;
  std::string marker_, command_;
  std::unique_ptr<train::FolderLock> lock_;
};

}  // namespace weft::study
