// Checkpoints: folders, complete or absent, from which a run continues bit for bit and other programs load the model;
// their names, completeness and retention.
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
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {

inline constexpr std::string_view kManifestFile = "manifest.json";

/// The name of a run's best checkpoint where a path stands for a checkpoint: RUN/best.
inline constexpr std::string_view kBestName = "best";

/// The checkpoints that are kept after a newer one is complete: the last `keep_last` (0: all), all whose step is a
/// multiple of `keep_every` (0: none), and the best.
struct Retention {
  std::int64_t keep_last = 0, keep_every = 0;
  bool keep_best = false;
};

struct CheckpointFolder {
  std::int64_t step = 0;
  std::filesystem::path path;
};

/// <run_dir>/checkpoints.
std::filesystem::path checkpoints_of(const std::filesystem::path& run_dir);
/// <run_dir>/checkpoints/step_00000200 for step 200.
std::filesystem::path checkpoint_path(const std::filesystem::path& run_dir, std::int64_t step);

/// Whether a folder is a complete checkpoint: it has a manifest, which is written last.
bool is_checkpoint(const std::filesystem::path& folder);
/// The complete checkpoints below <run_dir>/checkpoints, by step.
std::vector<CheckpointFolder> complete_checkpoints(const std::filesystem::path& run_dir);
/// The complete checkpoint with the highest step, or for RUN/best, if that is no folder, the best; nullopt if there is
/// none.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& run_dir);
/// A checkpoint and its held-out loss.
struct BestCheckpoint {
  CheckpointFolder folder;
  double val_loss = 0;
};
/// Of the checkpoints up to a step whose manifests tell a held-out loss, the newest with the lowest; nullopt if there
/// are none.
std::optional<BestCheckpoint> best_checkpoint(const std::filesystem::path& run_dir,
                                              std::int64_t most_steps = std::numeric_limits<std::int64_t>::max());
/// The checkpoint that `path` means, as find_checkpoint() does, or `path` itself if there is none.
std::filesystem::path inside_run(const std::filesystem::path& path);
/// The checkpoint that `path` means: a checkpoint folder itself, a run folder's latest, or RUN/best. Throws UserError.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// Removes the complete checkpoints up to `newest_step` that `retention` doesn't keep, never that of `newest_step`
/// itself. Checkpoints of higher steps, from a run that went further than this one's start, are neither counted nor
/// removed.
void remove_superseded(const std::filesystem::path& run_dir, std::int64_t newest_step, const Retention& retention);

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

/// Compares the checksums of a checkpoint's files without arrays, such as config.json and those of its tokenizer.
/// Throws UserError.
void verify_settings(const std::filesystem::path& folder, const Manifest& manifest);

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

/// Loads weights only: from a checkpoint or run folder (with a comparison of checksums), or from a path for
/// load_weights().
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
