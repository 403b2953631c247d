// Recognises data files that are neither text nor bare token ids by their first bytes and names. They are easily given
// by mistake, and a model would train on noise.
#pragma once

#include <cstddef>
#include <vector>

#include "base/files/input_file.h"

namespace weft::train {

/// The bytes at a file's beginning that are examined: 64 KiB, or the whole of it.
std::vector<std::byte> head_of(const InputFile& file);

/// Throws UserError, naming the file and its kind, unless it is text, ids, or bytes of an unknown kind. Known are
/// NumPy's arrays, Arrow, Parquet, HDF5, JSON and JSON lines, safetensors, text in UTF-16, Git LFS's pointers, and
/// compressed files.
void refuse_foreign_kind(const InputFile& file);
/// The same where texts may be packed with gzip or Zstandard, and be JSON lines: those with their name, or, if `json`,
/// any JSON; their lines tell their form.
void refuse_no_text(const InputFile& file, bool json);

}  // namespace weft::train
