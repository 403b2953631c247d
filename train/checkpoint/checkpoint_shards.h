// Reading the shards of a checkpoint into the arrays of any grid.
#pragma once

#include <filesystem>
#include <span>

#include "train/checkpoint/manifest.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {

/// The arrays to fill: all of them as saved, or only the parameters, with masters that equal them.
enum class LoadedArrays : std::uint8_t { all, parameters };

/// Fills a rank's arrays from a checkpoint that any grid wrote, and reads only the needed elements: `manifest` is that
/// of `folder`. Throws UserError, naming manifest and tensor, unless the shards have the shapes of the model's tensors
/// and cover each tensor exactly once, and the files agree with the manifest. `elsewhere`: parameters that other ranks
/// hold.
void load_shards(const std::filesystem::path& folder, const Manifest& manifest,
                 std::span<const ParameterState> parameters, LoadedArrays which,
                 std::span<const ops::ParameterSpec> elsewhere = {});

}  // namespace weft::train
