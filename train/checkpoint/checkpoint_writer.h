// Checkpoints written behind the steps that follow them, by one rank or by all that hold a part of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "runtime/comm/communicator.h"
#include "train/checkpoint/checkpoint.h"

namespace weft::train {

/// Bytes of the arrays of this rank that a checkpoint keeps, which is what a snapshot of them takes.
std::int64_t snapshot_bytes(std::span<const ParameterState> parameters);

/// A checkpoint takes as long as the disk needs, and the next step changes the parameters. So they are copied between
/// two steps, and a thread writes the copy while the steps go on. That costs snapshot_bytes() of memory on each rank
/// that writes, from the first save() on, and the steps as much time as the copy takes. One checkpoint is written at a
/// time: save() waits for the one before.
///
/// Where rank 0 holds everything, it writes alone. Else every rank writes its part, in a thread of its own, and rank 0
/// ends the checkpoint when all have told that theirs is on the disk: they ask each other once a step, in written(), as
/// long as one is outstanding. All functions but the constructor are collective over the world: every rank calls them
/// behind the same step.
///
///   CheckpointWriter writer(world, run_dir, {.keep_last = 3});
///   writer.save(info, parameters);                  // returns when the copy is made
///   if (auto path = writer.written()) …             // once a step: done, or failed?
///   writer.finish();                                // before the run ends
class CheckpointWriter {
 public:
  /// Rank 0 removes what a killed run left half-written in `run_dir`. `world` must outlive the writer.
  CheckpointWriter(comm::World& world, std::filesystem::path run_dir, const Retention& retention);

  /// What a checkpoint of these takes against what is free, where this rank sees the run folder. Nothing is needed of a
  /// rank that writes none.
  SpaceCheck space(const CheckpointInfo& info, std::span<const ParameterState> parameters);

  /// Copies what this rank keeps of `parameters` and begins to write it; specs and shards must outlive it. Throws
  /// what the writing of the one before threw, and RuntimeFault when there is no memory for the copy or no room on the
  /// disk.
  void save(const CheckpointInfo& info, std::span<const ParameterState> parameters);
  /// Writes `parameters` as they are, without a copy, and returns when this rank is done with it: for the end of a run.
  void save_now(const CheckpointInfo& info, std::span<const ParameterState> parameters);

  /// On rank 0: the checkpoint completed since the last call, if there is one. Doesn't wait. Throws what the writing of
  /// this rank's part threw.
  std::optional<std::filesystem::path> written();
  /// Waits for the one that is being written. Throws what the writing threw.
  void finish();

 private:
  bool writes_alone(std::span<const ParameterState> parameters) const;
  std::filesystem::path begin_together(const CheckpointInfo& info, std::span<const ParameterState> parameters);
  void end_together();
  void copy(std::span<const ParameterState> parameters);

  comm::World& world_;
  const std::filesystem::path run_dir_;
  const Retention retention_;
  Buffer memory_;
  std::vector<ParameterState> snapshot_;
  std::optional<std::filesystem::path> completed_;
  bool together_ = false;                  // a part is being written or told to rank 0
  std::optional<Manifest> part_;           // of this rank, when it is on the disk
  std::unique_ptr<DurableFolder> folder_;  // of rank 0
  // Last, so that they are destroyed first: that waits for the threads, which read the snapshot and fill the folder.
  std::future<Manifest> writing_part_;
  std::future<std::filesystem::path> writing_;
};

}  // namespace weft::train
