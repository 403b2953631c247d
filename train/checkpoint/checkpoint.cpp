// The order of writing a checkpoint, and the checks before loading.
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

const std::string kTuning(execute::kGemmTuningFile);

/// Verifies this rank's share of the files.
template <class Wanted>
void verify_share(const fs::path& folder, const Manifest& manifest, const ReadShare& share, const Wanted& wanted) {
  std::int64_t number = 0;
  for (const auto& [name, summary] : manifest.files) {
    if (wanted(name) && share.has(number++)) verify(folder, manifest, name);
  }
}

}  // namespace

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
  const ParameterReader read = open_shards(folder, manifest, parameters, LoadedArrays::all, elsewhere);
  for (const ParameterState& parameter : parameters) read(parameter);
}

ParameterReader open_parameters(const fs::path& path, const ops::ModelConfig& model,
                                std::span<const ParameterState> parameters, const ReadShare& share,
                                std::span<const ops::ParameterSpec> elsewhere) {
  const fs::path found = inside_run(path);
  if (!is_checkpoint(found)) return open_weights(found, model, parameters, elsewhere);
  const Manifest manifest = read_manifest(found);
  std::set<std::string> files;
  for (const StoredShard& shard : manifest.shards) {
    if (shard.content == kParameterContent) files.insert(shard.file);
  }
  verify_share(found, manifest, share, [&](const std::string& name) { return files.contains(name); });
  return open_shards(found, manifest, parameters, LoadedArrays::parameters, elsewhere);
}

void load_parameters(const fs::path& path, const ops::ModelConfig& model, std::span<const ParameterState> parameters,
                     const ReadShare& share, std::span<const ops::ParameterSpec> elsewhere) {
  const ParameterReader read = open_parameters(path, model, parameters, share, elsewhere);
  for (const ParameterState& parameter : parameters) read(parameter);
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
  fs::path path = checkpoint_path(run_dir, manifest.info.step);
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
