// One rank's part of a checkpoint: the tensors that it writes, and their entries in the manifest.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/checkpoint/manifest.h"
#include "train/checkpoint/parameter_state.h"
#include "train/checkpoint/safetensors.h"

namespace weft::train {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kModelConfigFile = "config.json";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kParameterContent = "parameter";

/// Whether a rank's arrays are the whole model and its optimizer state, which is true on all ranks or on none. If true,
/// one rank writes the checkpoint alone.
bool holds_everything(std::span<const ParameterState> parameters);

/// Of a model's parameters; f32 without any.
DType dtype_of(std::span<const ParameterState> parameters);

/// The optimizer's arrays by content; a frozen parameter has none. A checkpoint keeps the masters of bf16 parameters
/// only; other masters equal the parameter. Throws std::invalid_argument if one is missing.
std::vector<std::pair<std::string, float*>> optimizer_arrays(const ParameterState& parameter);

/// Calls visit(content, dtype, array, pieces, elements) for each array that this rank stores of a parameter.
template <class Visit>
void for_each_stored_array(const ParameterState& parameter, const Visit& visit) {
  if (parameter.shard == nullptr || parameter.shard->replica == 0) {
    visit(kParameterContent, parameter.dtype, parameter.data, parameter.kept_pieces(), parameter.kept_elements());
  }
  if (parameter.shard != nullptr && parameter.shard->update_replica != 0) return;
  for (const auto& [content, array] : optimizer_arrays(parameter)) {
    visit(content.c_str(), DType::f32, static_cast<void*>(array), parameter.updated_pieces(),
          parameter.updated_elements());
  }
}

/// Whether each rank has all parameters of the model, in whole or in part, or those of its pipeline stage alone; or one
/// rank has everything, and writes the checkpoint alone.
enum class RankHolds : std::uint8_t { every_parameter, own_stage, everything };

/// The files of a rank that writes alone are model.safetensors and optimizer.safetensors, with whole tensors in Hugging
/// Face's layout. Of a checkpoint that several ranks write, the rank whose (update) replica is 0 writes an element;
/// files are model-00003.safetensors and optimizer-00003.safetensors on rank 3; model.safetensors where rank 0 holds
/// all parameters whole. A shard's layout is "out, in". The tensors refer to `parameters`.
struct CheckpointPart {
  struct File {
    std::string name;
    std::vector<TensorToWrite> tensors;
  };
  std::vector<File> files;
  std::vector<StoredShard> shards;
};
CheckpointPart checkpoint_part(int rank, std::span<const ParameterState> parameters,
                               RankHolds holds = RankHolds::every_parameter);

/// Bytes of the files that write_checkpoint_part() makes and of their part of the manifest.
std::vector<std::uint64_t> checkpoint_part_bytes(const CheckpointInfo& info, int rank,
                                                 std::span<const ParameterState> parameters,
                                                 RankHolds holds = RankHolds::every_parameter);

/// Writes a rank's files into the existing `folder`; rank 0 also writes config.json. Returns the manifest of only these
/// files. Throws RuntimeFault if the disk does, or if an array holds a NaN or an infinity.
Manifest write_checkpoint_part(const std::filesystem::path& folder, const CheckpointInfo& info, int rank,
                               std::span<const ParameterState> parameters,
                               RankHolds holds = RankHolds::every_parameter);

/// Throws RuntimeFault if an array that this rank stores holds a NaN or an infinity.
void refuse_non_finite(std::span<const ParameterState> parameters, std::int64_t step);

}  // namespace weft::train
