// Texts that are packed with Zstandard, unpacked piece by piece while they are read (RFC 8878).
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/files/input_file.h"

namespace weft {

/// The most bytes that one packed byte stands for: a block of 128 KiB may take four.
inline constexpr std::uint64_t kMostUnpackedByZstd = 32768;

/// Whether a file begins with a frame of Zstandard, or with one that its readers skip.
bool is_zstd_file(const InputFile& file);

/// The content of all frames, in their order. The source throws UserError, naming the file, if it is truncated or
/// damaged, needs a dictionary, or a window of more than 128 MiB, which is memory.
ByteSource zstd_source(const std::filesystem::path& path);

}  // namespace weft
