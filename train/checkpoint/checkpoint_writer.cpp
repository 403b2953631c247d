#include "train/checkpoint/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "train/checkpoint/checkpoint_part.h"

namespace weft::train {
namespace {

/// Calls visit(array, bytes) for each array of a parameter that this rank stores and steps change; arrays are pointers,
/// to be replaced.
template <class Visit>
void for_each_array(ParameterState& parameter, const Visit& visit) {
  if (parameter.spec->frozen) return;
  for_each_stored_array(parameter, [&](const char*, DType dtype, auto*& array, const BlockRange& range) {
    visit(array, static_cast<std::size_t>(range.size()) * size_of(dtype));
  });
}

// Arrays begin at cache lines.
std::size_t padded(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

std::int64_t snapshot_bytes(std::span<const ParameterState> parameters) {
  std::size_t total = 0;
  for (ParameterState parameter : parameters) {
    for_each_array(parameter, [&](auto*, std::size_t bytes) { total += padded(bytes); });
  }
  return static_cast<std::int64_t>(total);
}

CheckpointWriter::CheckpointWriter(comm::World& world, std::filesystem::path run_dir, const Retention& retention,
                                   RankHolds holds)
    : world_(world), run_dir_(std::move(run_dir)), retention_(retention), holds_(holds) {
  if (world_.rank() == 0) remove_leftovers(checkpoints_of(run_dir_));
}

bool CheckpointWriter::writes_alone(std::span<const ParameterState> parameters) const {
  return holds_ == RankHolds::every_parameter && holds_everything(parameters);
}

SpaceCheck CheckpointWriter::space(const CheckpointInfo& info, std::span<const ParameterState> parameters) {
  if (writes_alone(parameters)) {
    return world_.rank() == 0 ? checkpoint_space(run_dir_, info, parameters) : SpaceCheck{run_dir_, 0, 0};
  }
  const std::vector<std::uint64_t> own = checkpoint_part_bytes(info, world_.rank(), parameters, holds_);
  std::vector<std::uint64_t> all;
  for (const auto& of_rank : comm::of_ranks(world_, own)) all.insert(all.end(), of_rank.begin(), of_rank.end());
  return check_space(checkpoints_of(run_dir_), all);
}

// After the barrier all ranks see the folder.
std::filesystem::path CheckpointWriter::begin_together(const CheckpointInfo& info,
                                                       std::span<const ParameterState> parameters) {
  const std::filesystem::path path = checkpoint_path(run_dir_, info.step);
  if (const SpaceCheck check = space(info, parameters); !check.fits()) {
    throw RuntimeFault(fmt::format("checkpoint {} can't be written: it {}", in_quotes(path), check.text()));
  }
  if (world_.rank() == 0) {
    remove_leftovers(checkpoints_of(run_dir_));
    folder_ = std::make_unique<DurableFolder>(path);
  }
  world_.barrier();
  together_ = true;
  return writing_path(path);
}

void CheckpointWriter::end_together() {
  const std::vector<std::string> all = comm::of_ranks(world_, to_json(*part_));
  together_ = false;
  part_.reset();
  if (world_.rank() != 0) return;
  writing_ = std::async(std::launch::async, [this, all] {
    const std::unique_ptr<DurableFolder> folder = std::move(folder_);  // removed with its content on a fault
    std::vector<Manifest> parts;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      parts.push_back(parse_manifest(all[rank], fmt::format("the manifest of rank {}", rank)));
    }
    return commit_checkpoint(*folder, run_dir_, std::move(parts), retention_);
  });
}

std::span<const ParameterState> CheckpointWriter::kept(std::span<const ParameterState> parameters) {
  snapshot_.assign(parameters.begin(), parameters.end());
  return snapshot_;
}

std::span<const ParameterState> CheckpointWriter::copied(std::span<const ParameterState> parameters) {
  const std::int64_t bytes = snapshot_bytes(parameters);
  if (memory_.size() < bytes) memory_ = Buffer(bytes);
  (void)kept(parameters);
  std::byte* at = memory_.data();
  for (ParameterState& parameter : snapshot_) {
    for_each_array(parameter, [&](auto*& array, std::size_t size) {
      std::memcpy(at, array, size);
      array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at);
      at += padded(size);
    });
  }
  return snapshot_;
}

void CheckpointWriter::begin(const CheckpointInfo& info, std::span<const ParameterState> parameters, std::launch launch,
                             bool copies) {
  finish();
  const bool alone = writes_alone(parameters);
  if (alone && world_.rank() != 0) return;
  const std::filesystem::path folder = alone ? run_dir_ : begin_together(info, parameters);
  parameters = copies ? copied(parameters) : kept(parameters);
  if (alone) {
    writing_ = std::async(launch,
                          [this, info, parameters] { return save_checkpoint(run_dir_, info, parameters, retention_); });
  } else {
    writing_part_ = std::async(launch, [this, info, parameters, folder] {
      return write_checkpoint_part(folder, info, world_.rank(), parameters, holds_);
    });
  }
}

void CheckpointWriter::save(const CheckpointInfo& info, std::span<const ParameterState> parameters) {
  begin(info, parameters, std::launch::async, true);
}

void CheckpointWriter::save_in_place(const CheckpointInfo& info, std::span<const ParameterState> parameters) {
  begin(info, parameters, std::launch::async, false);
}

void CheckpointWriter::save_now(const CheckpointInfo& info, std::span<const ParameterState> parameters) {
  begin(info, parameters, std::launch::deferred, false);
  finish();
}

std::optional<std::filesystem::path> CheckpointWriter::written() {
  const auto ready = [](const auto& future) {
    return future.valid() && future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  if (together_) {
    if (ready(writing_part_)) part_ = writing_part_.get();
    const auto done = world_.all_gather(part_ ? 1 : 0);
    if (std::all_of(done.begin(), done.end(), [](std::uint64_t one) { return one == 1; })) end_together();
  }
  if (ready(writing_)) completed_ = writing_.get();
  return std::exchange(completed_, std::nullopt);
}

void CheckpointWriter::finish() {
  if (together_) {
    if (writing_part_.valid()) part_ = writing_part_.get();
    end_together();
  }
  if (writing_.valid()) completed_ = writing_.get();
}

}  // namespace weft::train
