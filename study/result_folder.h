// A folder in which one command at a time collects results, so that it goes on where it was stopped.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

namespace weft::study {

/// A file that is open; closed at the end.
class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

class ResultFolder {
 public:
  /// Makes the folder, or opens one that has the file `marker`, by which `command` knows its own, and locks it. Throws
  /// UserError on a file, a folder with other files, or one to which another process writes.
  ResultFolder(std::filesystem::path path, std::string_view marker, std::string_view command);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor lock_;
};

}  // namespace weft::study
