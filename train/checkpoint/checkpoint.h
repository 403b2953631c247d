// Checkpoints, from which a run continues bit for bit and other programs load the model: writing and loading them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/files/durable_file.h"
#include "ops/model_config.h"
#include "runtime/comm/communicator.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {

/// For a rank whose arrays are the whole model: writes <run_dir>/checkpoints/step_00000200 for step 200 and returns its
/// path:
///   model.safetensors      parameters in Hugging Face's names and layout
///   config.json            the model's sizes in Hugging Face's format
///   optimizer.safetensors  fp32 "<tensor>.m", "<tensor>.v", and "<tensor>.master" of bf16 parameters, the same layout
///   gemm_tuning.json       how matrix products were computed, if not by the default methods
///   tokenizer.json, …      the files of the model's tokenizer, if it is known
///   manifest.json          CheckpointInfo, sizes and checksums of the files, the part of a tensor in each shard;
///   written last
/// The folder has a temporary name until all of it is on the disk; one of the same step is replaced. Then the
/// checkpoints that `retention` doesn't keep are removed. Throws RuntimeFault, with older checkpoints untouched and
/// nothing left of the new one, if the disk fails or has too little room for all of it, and if an array holds a NaN or
/// an infinity, from which no run could continue. Throws std::invalid_argument on missing arrays.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_dir, const CheckpointInfo& info,
                                      std::span<const ParameterState> parameters, const Retention& retention = {});

/// The exact number of bytes that save_checkpoint() would write, and the free bytes. Reads no element.
SpaceCheck checkpoint_space(const std::filesystem::path& run_dir, const CheckpointInfo& info,
                            std::span<const ParameterState> parameters);

/// Reads manifest.json of a checkpoint folder, and gemm_tuning.json if there is one, and checks that the files are
/// there in full size. Throws UserError.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& folder);

/// Completes a checkpoint that several ranks wrote into `folder` (see write_checkpoint_part): writes the manifest of
/// all parts, renames the folder and removes the checkpoints that `retention` doesn't keep. Returns the checkpoint's
/// path.
std::filesystem::path commit_checkpoint(DurableFolder& folder, const std::filesystem::path& run_dir,
                                        std::vector<Manifest> parts, const Retention& retention);

/// A rank's index among the ranks that share.
struct ReadShare {
  int rank = 0, ranks = 1;

  /// Whether this rank reads piece `number`.
  bool has(std::int64_t number) const { return number % ranks == rank; }
};

/// Fills all arrays of a rank from a checkpoint folder, exactly as they were, whatever grid wrote it. First one of the
/// ranks that share a file reads all of it and compares its checksum, at some GB/s if it is in memory. Throws
/// UserError, naming file or tensor, on a wrong checksum and on other parameters, shapes or dtype than were saved, and
/// on parts that don't make up a tensor. `elsewhere`: parameters of the model that other ranks hold, whose tensors may
/// be there.
void load_checkpoint(const std::filesystem::path& folder, std::span<const ParameterState> parameters,
                     const ReadShare& share = {}, std::span<const ops::ParameterSpec> elsewhere = {});

/// Reads weights only: from a checkpoint or run folder (whose checksums are compared at once), or from a path for
/// open_weights(), which tells the rest.
ParameterReader open_parameters(const std::filesystem::path& path, const ops::ModelConfig& model,
                                std::span<const ParameterState> parameters, const ReadShare& share = {},
                                std::span<const ops::ParameterSpec> elsewhere = {});

/// Fills `data`, and `master` where there is one, of each parameter with what open_parameters() reads.
void load_parameters(const std::filesystem::path& path, const ops::ModelConfig& model,
                     std::span<const ParameterState> parameters, const ReadShare& share = {},
                     std::span<const ops::ParameterSpec> elsewhere = {});

/// A number that identifies a file or folder: equal on processes of one machine that reach it through one mount. 0 if
/// it doesn't exist.
std::uint64_t file_identity(const std::filesystem::path& path);

/// The ranks for which `path` is the same file or folder. Ranks on other machines read for themselves: a copy may be
/// damaged, and a shared disk can't be told from copies. Collective over the world; the paths may differ.
ReadShare share_reading(comm::World& world, const std::filesystem::path& path);

}  // namespace weft::train
