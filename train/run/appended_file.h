// A file of a run that grows while the run goes on, so that it can be watched and survives a kill.
#pragma once

#include <filesystem>
#include <string_view>

namespace weft::train {

/// Every write is one call of the system where the disk takes it whole.
class AppendedFile {
 public:
  /// Makes the file or goes on at its end. A symbolic link isn't followed. Throws RuntimeFault if it can't be opened.
  explicit AppendedFile(std::filesystem::path path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  /// Throws RuntimeFault if the disk does.
  void append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace weft::train
