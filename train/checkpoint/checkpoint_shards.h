// Reading the shards of a checkpoint into the arrays of any grid.
#pragma once

#include <filesystem>
#include <span>

#include "train/checkpoint/manifest.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {

/// Which arrays are filled: all of them as they were, or the parameters alone, masters with their values.
enum class LoadedArrays : std::uint8_t { all, parameters };

/// Fills a rank's arrays with their elements out of a checkpoint that any grid wrote, and reads no others: `manifest`
/// is that of `folder`. Throws UserError, naming manifest and tensor, unless the shards are those of the model's
/// tensors in their shapes and cover each of them exactly once, and the files hold what the manifest says.
void load_shards(const std::filesystem::path& folder, const Manifest& manifest,
                 std::span<const MutableParameterState> parameters, LoadedArrays which);

}  // namespace weft::train
