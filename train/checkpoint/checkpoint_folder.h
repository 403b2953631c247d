// The folders of checkpoints, complete or absent: their names, which of them are there and which are kept, and the
// checksums of their files. Arrays are read and written elsewhere (checkpoint.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/checkpoint/manifest.h"

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

/// Compares a file's checksum with the manifest's. Throws UserError.
void verify(const std::filesystem::path& folder, const Manifest& manifest, const std::string& name);

/// Compares the checksums of a checkpoint's files without arrays, such as config.json and those of its tokenizer.
/// Throws UserError.
void verify_settings(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace weft::train
