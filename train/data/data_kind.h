// What a data file is that is neither text nor bare token ids, told by its first bytes and its name: easily given by
// mistake, and read as text or as ids it would train a model on noise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/files/input_file.h"

namespace weft::train {

struct ForeignKind {
  std::string name;  // "a NumPy array"
  std::string fix;   // how its content can be trained on
};

/// Bytes of a file's beginning that are looked at.
constexpr std::size_t kKindBytes = 64 * 1024;

/// Of a file that begins with `head`: the whole of it, or kKindBytes. nullopt: text, ids, or bytes of an unknown kind.
/// Known are NumPy's arrays, Arrow, Parquet, HDF5, JSON and JSON lines, safetensors, and compressed files.
std::optional<ForeignKind> foreign_kind(const std::filesystem::path& path, std::span<const std::byte> head);

/// Throws UserError, naming the file and what it is, if it is of such a kind.
void refuse_foreign_kind(const InputFile& file);

/// Whether a name is that of a file in which data sets are shared: "train-00000-of-00001.parquet".
bool is_data_set_name(const std::filesystem::path& path);

}  // namespace weft::train
