// Shared by the fuzz targets: files for readers that take a path, and the definition of a proper answer.
//
// A target is one LLVMFuzzerTestOneInput (https://llvm.org/docs/LibFuzzer.html). It passes the bytes to a reader. A
// reader has two proper answers: it accepts the bytes, and its result is consistent; or it throws UserError with a
// message that a terminal can show. Anything else, such as another exception, is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tests/base/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace weft::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Throws std::logic_error with `what`, which nothing catches, unless `holds` is true.
void require(bool holds, std::string_view what);

/// Requires that the message names a fix, has a moderate length and has no control characters; it may quote the input.
void check_refusal(const UserError& error);

/// Calls `read` and returns whether it accepted the input. A proper refusal isn't a finding.
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

/// A folder in memory if possible (/dev/shm).
testing::TemporaryFolder input_folder();

}  // namespace weft::fuzz
