#include "train/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step_";

/// The step in "step_00000200"; nullopt for another name.
std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const auto step = number_in<std::int64_t>(std::string_view(name).substr(kStepPrefix.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

}  // namespace

fs::path checkpoints_of(const fs::path& run_dir) {
  return run_dir / "checkpoints";
}

fs::path checkpoint_path(const fs::path& run_dir, std::int64_t step) {
  return checkpoints_of(run_dir) / fmt::format("{}{:08}", kStepPrefix, step);
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code hidden;  // a folder that can't be read counts as absent
  return fs::exists(folder / kManifestFile, hidden);
}

std::vector<CheckpointFolder> complete_checkpoints(const fs::path& run_dir) {
  std::vector<CheckpointFolder> found;
  std::error_code none;  // no such folder: no checkpoints
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints_of(run_dir), none)) {
    const auto step = step_of(entry.path());
    if (step && is_checkpoint(entry.path())) found.push_back({*step, entry.path()});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointFolder& a, const CheckpointFolder& b) { return a.step < b.step; });
  return found;
}

std::optional<fs::path> latest_checkpoint(const fs::path& run_dir) {
  const auto found = complete_checkpoints(run_dir);
  if (!found.empty()) return found.back().path;
  std::error_code hidden;
  if (run_dir.filename() != kBestName || fs::exists(run_dir, hidden)) return std::nullopt;
  if (const auto best = best_checkpoint(run_dir.parent_path())) return best->folder.path;
  return std::nullopt;
}

std::optional<BestCheckpoint> best_checkpoint(const fs::path& run_dir, std::int64_t most_steps) {
  std::optional<BestCheckpoint> best;
  for (CheckpointFolder& folder : complete_checkpoints(run_dir)) {
    std::optional<double> loss;
    try {
      if (folder.step <= most_steps) loss = read_manifest(folder.path).info.val_loss;
    } catch (const UserError&) {
      continue;  // a damaged one is refused by name where somebody asks for it
    }
    if (loss && (!best || *loss <= best->val_loss)) best = {std::move(folder), *loss};
  }
  return best;
}

fs::path inside_run(const fs::path& path) {
  return is_checkpoint(path) ? path : latest_checkpoint(path).value_or(path);
}

fs::path find_checkpoint(const fs::path& path) {
  if (fs::path found = inside_run(path); is_checkpoint(found)) return found;
  std::error_code hidden;
  throw UserError(in_quotes(path) + (fs::exists(path, hidden) ? " holds no complete checkpoint" : " doesn't exist"),
                  "a run folder with checkpoints/step_…, one of those folders, or RUN/best of a run with --keep-best",
                  "to start from weights alone, give --init-from");
}

void remove_superseded(const fs::path& run_dir, std::int64_t newest_step, const Retention& retention) {
  if (retention.keep_last == 0) return;
  auto found = complete_checkpoints(run_dir);
  std::erase_if(found, [&](const CheckpointFolder& c) { return c.step > newest_step; });
  const auto kept = static_cast<std::size_t>(retention.keep_last);
  std::optional<BestCheckpoint> best;
  if (retention.keep_best) best = best_checkpoint(run_dir, newest_step);
  for (std::size_t i = 0; i + kept < found.size(); ++i) {
    if (retention.keep_every > 0 && found[i].step % retention.keep_every == 0) continue;
    if (best && best->folder.step == found[i].step) continue;
    // A failed removal is tried again after the next checkpoint.
    Log(LogTopic::checkpoint)
        .info("{} {}: newer checkpoints are kept", in_quotes(found[i].path),
              remove_folder(found[i].path) ? "removed" : "can't be removed");
  }
}

void verify(const fs::path& folder, const Manifest& manifest, const std::string& name) {
  const auto listed = manifest.files.find(name);
  if (listed == manifest.files.end()) {
    throw UserError(in_quotes(folder / kManifestFile) + " doesn't list " + name, "all files of a checkpoint",
                    "use another checkpoint of the run");
  }
  const InputFile file(folder / name);
  Crc32c checksum;
  read_in_pieces(file, 0, file.size(), [&](std::span<const std::byte> piece) {
    checksum.add(piece);
    return true;
  });
  const std::string found = checksum.text();
  if (found == listed->second.crc32c) return;
  throw UserError(fmt::format("{} has the checksum {}", in_quotes(file.path()), found),
                  fmt::format("{}, as the manifest says: it was damaged", listed->second.crc32c),
                  "use another checkpoint of the run");
}

void verify_settings(const fs::path& folder, const Manifest& manifest) {
  std::set<std::string> arrays;
  for (const StoredShard& shard : manifest.shards) arrays.insert(shard.file);
  for (const auto& [name, summary] : manifest.files) {
    // A rank without parameters has an empty file of arrays.
    if (!arrays.contains(name) && !name.ends_with(".safetensors")) verify(folder, manifest, name);
  }
}

}  // namespace weft::train
