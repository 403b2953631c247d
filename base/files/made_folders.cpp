#include "base/files/made_folders.h"

#include <unistd.h>

namespace weft {

namespace fs = std::filesystem;

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
