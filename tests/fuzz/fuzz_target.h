// What the fuzz targets share: files for readers that take a path, and what counts as a proper answer.
//
// A target is one LLVMFuzzerTestOneInput (https://llvm.org/docs/LibFuzzer.html). It hands the bytes to a reader, which
// has two proper answers: it accepts them, and then what it made of them is consistent, or it throws UserError with a
// message that a terminal can show. All else, such as another exception, is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace weft::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Throws std::logic_error, which nothing catches, with `what` unless `holds`.
void require(bool holds, std::string_view what);

/// Requires a message that names a fix, of moderate length and without control characters: it may quote the input.
void check_refusal(const UserError& error);

/// Calls `read`; whether it accepted the input. A proper refusal is no finding.
template <class Read>
bool accepted(Read read) {
  try {
    read();
    return true;
  } catch (const UserError& error) {
    check_refusal(error);
    return false;
  }
}

/// A folder in memory where there is one (/dev/shm), of this process alone and gone with it.
class InputFolder {
 public:
  InputFolder();
  ~InputFolder();
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Writes a file anew and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view content) const;

 private:
  std::filesystem::path path_;
};

}  // namespace weft::fuzz
