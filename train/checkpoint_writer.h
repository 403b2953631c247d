// Checkpoints written behind the steps that follow them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "runtime/buffer.h"
#include "train/checkpoint.h"

namespace weft {

/// Bytes of the arrays that a checkpoint keeps, which is what a snapshot of them takes.
std::int64_t snapshot_bytes(std::span<const ParameterState> parameters);

/// A checkpoint takes as long as the disk needs, and the next step changes the parameters. So they are copied between
/// two steps, and a thread writes the copy while the steps go on. That costs snapshot_bytes() of memory on the rank
/// that writes, from the first save() on, and the steps as much time as the copy takes. One checkpoint is written at a
/// time: save() waits for the one before.
///
///   CheckpointWriter writer(run_dir, {.keep_last = 3});
///   writer.save(info, parameters);                  // returns when the copy is made
///   if (auto path = writer.written()) …             // once a step: done, or failed?
///   writer.finish();                                // before the run ends
class CheckpointWriter {
 public:
  /// Removes what a killed run left half-written in `run_dir`.
  CheckpointWriter(std::filesystem::path run_dir, const Retention& retention);

  /// Copies `parameters` and begins to write them; the specs must outlive the writing. Throws what the writing of the
  /// one before threw, and RuntimeFault when there is no memory for the copy.
  void save(const CheckpointInfo& info, std::span<const ParameterState> parameters);
  /// Writes `parameters` as they are, without a copy, and returns when that is done: for the end of a run.
  void save_now(const CheckpointInfo& info, std::span<const ParameterState> parameters);

  /// The checkpoint completed since the last call, if there is one. Doesn't wait. Throws what the writing threw.
  std::optional<std::filesystem::path> written();
  /// Waits for the one that is being written. Throws what the writing threw.
  void finish();

 private:
  void copy(std::span<const ParameterState> parameters);

  const std::filesystem::path run_dir_;
  const Retention retention_;
  Buffer memory_;
  std::vector<ParameterState> snapshot_;
  std::optional<std::filesystem::path> completed_;
  // Last, so that it is destroyed first: that waits for the thread, which reads the snapshot.
  std::future<std::filesystem::path> writing_;
};

}  // namespace weft
