// One rank's part of a checkpoint: the tensors that it writes, and their entries in the manifest; and the shards that
// it reads into the arrays of any grid.
#pragma once

#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "train/checkpoint/manifest.h"
#include "train/checkpoint/parameter_state.h"
#include "train/checkpoint/safetensors.h"

namespace weft::train {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kParameterContent = "parameter";

/// Whether a rank's arrays are the whole model and its optimizer state, which is true on all ranks or on none. If true,
/// one rank writes the checkpoint alone.
bool holds_everything(std::span<const ParameterState> parameters);

/// Of a model's parameters; f32 without any.
DType dtype_of(std::span<const ParameterState> parameters);

/// Calls visit(content, dtype, array, range) for each array that this rank stores of a parameter; arrays are pointers,
/// which may be replaced. A frozen parameter has no optimizer state. A checkpoint keeps the masters of bf16 parameters
/// only; other masters equal the parameter. Throws std::invalid_argument if an array is missing.
template <class State, class Visit>
void for_each_stored_array(State& parameter, const Visit& visit) {
  const ops::ParameterShard* shard = parameter.shard;
  if (shard == nullptr || shard->replica == 0) {
    visit(kParameterContent, parameter.dtype, parameter.data, parameter.kept());
  }
  if (parameter.spec->frozen || (shard != nullptr && shard->update_replica != 0)) return;
  const auto of_optimizer = [&](const char* content, auto& array) {
    if (array == nullptr || parameter.data == nullptr) {
      throw std::invalid_argument("checkpoint: " + parameter.spec->name + " has no array for " + content);
    }
    visit(content, DType::f32, array, parameter.updated());
  };
  of_optimizer("m", parameter.m);
  of_optimizer("v", parameter.v);
  if (parameter.dtype == DType::bf16) of_optimizer("master", parameter.master);
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

/// The arrays to fill: all of them as saved, or only the parameters, with masters that equal them.
enum class LoadedArrays : std::uint8_t { all, parameters };

/// Reads a rank's arrays from a checkpoint that any grid wrote, and only the needed elements: `manifest` is that of
/// `folder`. Throws UserError at once, naming manifest and tensor, unless the shards have the shapes of the model's
/// tensors and cover each tensor exactly once; the reader does unless the files agree with the manifest. Of
/// `parameters` only the specs count, which must outlive the reader. `elsewhere`: parameters that other ranks hold.
ParameterReader open_shards(const std::filesystem::path& folder, Manifest manifest,
                            std::span<const ParameterState> parameters, LoadedArrays which,
                            std::span<const ops::ParameterSpec> elsewhere = {});

}  // namespace weft::train
