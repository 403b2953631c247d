// The folders of checkpoints: their names, the order of writing, and the checks before loading.
#include "train/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "train/checkpoint/checkpoint_part.h"
#include "train/checkpoint/weights.h"

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

const std::string kTuning(execute::kGemmTuningFile);

void verify(const fs::path& folder, const Manifest& manifest, const std::string& name) {
  const auto listed = manifest.files.find(name);
  if (listed == manifest.files.end()) {
    throw UserError(in_quotes(folder / kManifestFile) + " doesn't list " + name, "all files of a checkpoint",
                    "use another checkpoint of the run");
  }
  const MappedFile file(folder / name);
  const std::string found = Crc32c().add(file.bytes()).text();
  if (found == listed->second.crc32c) return;
  throw UserError(fmt::format("{} has the checksum {}", in_quotes(file.path()), found),
                  fmt::format("{}, as the manifest says: it was damaged", listed->second.crc32c),
                  "use another checkpoint of the run");
}

/// Verifies this rank's share of the files.
template <class Wanted>
void verify_share(const fs::path& folder, const Manifest& manifest, const ReadShare& share, const Wanted& wanted) {
  std::int64_t number = 0;
  for (const auto& [name, summary] : manifest.files) {
    if (wanted(name) && share.has(number++)) verify(folder, manifest, name);
  }
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
  if (const fs::path found = inside_run(path); is_checkpoint(found)) return found;
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

SpaceCheck checkpoint_space(const fs::path& run_dir, const CheckpointInfo& info,
                            std::span<const ParameterState> parameters) {
  return check_space(checkpoints_of(run_dir), checkpoint_part_bytes(info, 0, parameters, RankHolds::everything));
}

fs::path save_checkpoint(const fs::path& run_dir, const CheckpointInfo& info,
                         std::span<const ParameterState> parameters, const Retention& retention) {
  const fs::path path = checkpoint_path(run_dir, info.step);
  remove_leftovers(checkpoints_of(run_dir));
  if (const SpaceCheck space = checkpoint_space(run_dir, info, parameters); !space.fits()) {
    throw RuntimeFault(fmt::format("checkpoint {} can't be written: it {}", in_quotes(path), space.text()));
  }
  DurableFolder folder(path);
  Manifest manifest = write_checkpoint_part(folder.path(), info, 0, parameters, RankHolds::everything);
  return commit_checkpoint(folder, run_dir, {std::move(manifest)}, retention);
}

CheckpointInfo read_checkpoint_info(const fs::path& folder) {
  Manifest manifest = read_manifest(folder);
  if (manifest.files.contains(kTuning)) {
    verify(folder, manifest, kTuning);
    manifest.info.gemm_tuning = execute::read_gemm_tuning_text(folder / kTuning);
  }
  return manifest.info;
}

void verify_settings(const fs::path& folder, const Manifest& manifest) {
  std::set<std::string> arrays;
  for (const StoredShard& shard : manifest.shards) arrays.insert(shard.file);
  verify_share(folder, manifest, {}, [&](const std::string& name) {
    return !arrays.contains(name) && !name.ends_with(".safetensors");  // a rank without parameters has an empty one
  });
}

void load_checkpoint(const fs::path& folder, std::span<const ParameterState> parameters, const ReadShare& share,
                     std::span<const ops::ParameterSpec> elsewhere) {
  const Manifest manifest = read_manifest(folder);
  const DType dtype = manifest.info.dtype;
  for (const ParameterState& parameter : parameters) {
    if (parameter.dtype == dtype) continue;
    throw UserError(fmt::format("{} was trained in {}", in_quotes(folder), to_string(dtype)),
                    fmt::format("{}, this run's dtype", to_string(parameter.dtype)),
                    fmt::format("give --dtype {}; or --init-from, to start from its weights alone", to_string(dtype)));
  }
  verify_share(folder, manifest, share, [](const std::string&) { return true; });
  load_shards(folder, manifest, parameters, LoadedArrays::all, elsewhere);
}

void load_parameters(const fs::path& path, const ops::ModelConfig& model, std::span<const ParameterState> parameters,
                     const ReadShare& share, std::span<const ops::ParameterSpec> elsewhere) {
  const fs::path found = inside_run(path);
  if (!is_checkpoint(found)) return load_weights(found, model, parameters, elsewhere);
  const Manifest manifest = read_manifest(found);
  std::set<std::string> files;
  for (const StoredShard& shard : manifest.shards) {
    if (shard.content == kParameterContent) files.insert(shard.file);
  }
  verify_share(found, manifest, share, [&](const std::string& name) { return files.contains(name); });
  load_shards(found, manifest, parameters, LoadedArrays::parameters, elsewhere);
}

fs::path commit_checkpoint(DurableFolder& folder, const fs::path& run_dir, std::vector<Manifest> parts,
                           const Retention& retention) {
  Manifest manifest{parts.at(0).info, {}, {}};
  for (Manifest& part : parts) {
    manifest.files.merge(part.files);
    std::move(part.shards.begin(), part.shards.end(), std::back_inserter(manifest.shards));
  }
  write_durable(folder.path() / kManifestFile, to_json(manifest));
  folder.commit();
  const fs::path path = checkpoint_path(run_dir, manifest.info.step);
  Log(LogTopic::checkpoint).info("{} written", in_quotes(path));
  remove_superseded(run_dir, manifest.info.step, retention);
  return path;
}

std::uint64_t file_identity(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  // Device numbers are only valid on one machine.
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return Fingerprint().add(boot).add(status.st_dev).add(status.st_ino).value();
}

ReadShare share_reading(comm::World& world, const std::filesystem::path& path) {
  const std::vector<std::uint64_t> all = world.all_gather(file_identity(path));
  const std::uint64_t own = all[static_cast<std::size_t>(world.rank())];
  ReadShare share{0, 0};
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != own) continue;
    if (static_cast<int>(rank) < world.rank()) ++share.rank;
    ++share.ranks;
  }
  return share;
}

}  // namespace weft::train
