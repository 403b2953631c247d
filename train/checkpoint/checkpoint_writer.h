// Writes checkpoints during the following steps, by one rank or by all ranks that hold a part of the model.
#pragma once

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
#include "train/checkpoint/checkpoint_part.h"

namespace weft::train {

/// Bytes of this rank's arrays that a checkpoint keeps and steps change, and so the size of their snapshot. Frozen
/// parameters are written from where they are.
std::int64_t snapshot_bytes(std::span<const ParameterState> parameters);

/// Writing to disk is slow, and the next step changes the parameters. So they are copied between two steps, and a
/// thread writes the copy during the next steps. This costs snapshot_bytes() of memory on each rank that writes, from
/// the first save() on, and the time of the copy. One checkpoint is written at a time: save() waits for the previous
/// one.
///
/// If rank 0 holds the whole state, it writes alone. Else every rank writes its part in a thread, and rank 0 completes
/// the checkpoint after all parts are on the disk; ranks exchange this once a step, in written(), while a checkpoint is
/// outstanding. All functions but the constructor are collective over the world: every rank calls them after the same
/// step.
///
///   CheckpointWriter writer(world, run_dir, {.keep_last = 3});
///   writer.save(info, parameters);                  // returns when the copy is made
///   if (auto path = writer.written()) …             // once a step: done, or failed?
///   writer.finish();                                // before the run ends
class CheckpointWriter {
 public:
  /// Rank 0 removes half-written checkpoints of a killed run from `run_dir`. `world` must outlive the writer.
  CheckpointWriter(comm::World& world, std::filesystem::path run_dir, const Retention& retention,
                   RankHolds holds = RankHolds::every_parameter);

  /// The bytes that this rank's part of a checkpoint takes, and the free bytes where it sees the run folder. A rank
  /// that writes nothing needs nothing.
  SpaceCheck space(const CheckpointInfo& info, std::span<const ParameterState> parameters);

  /// Copies this rank's part of `parameters` and begins to write it; specs, shards and the arrays of frozen parameters
  /// must outlive it, and those arrays stay unwritten until finish(). Throws the error
  /// of the previous checkpoint's writing, and RuntimeFault if memory for the copy or room on the disk is missing.
  void save(const CheckpointInfo& info, std::span<const ParameterState> parameters);
  /// The same without a copy of the arrays, which nobody may write until finish().
  void save_in_place(const CheckpointInfo& info, std::span<const ParameterState> parameters);
  /// Writes `parameters` as they are, without a copy, and returns when this rank is done with it: for the end of a run.
  void save_now(const CheckpointInfo& info, std::span<const ParameterState> parameters);

  /// On rank 0: the checkpoint completed since the last call, if there is one. Doesn't wait. Throws the error of this
  /// rank's writing.
  std::optional<std::filesystem::path> written();
  /// Waits for the checkpoint that is being written. Throws its error.
  void finish();

 private:
  bool writes_alone(std::span<const ParameterState> parameters) const;
  std::filesystem::path begin_together(const CheckpointInfo& info, std::span<const ParameterState> parameters);
  void end_together();
  /// For the thread that writes: with the arrays themselves, or with a copy.
  std::span<const ParameterState> kept(std::span<const ParameterState> parameters);
  std::span<const ParameterState> copied(std::span<const ParameterState> parameters);
  /// Asynchronous: writes in a thread. Deferred: in finish().
  void begin(const CheckpointInfo& info, std::span<const ParameterState> parameters, std::launch launch, bool copies);

  comm::World& world_;
  const std::filesystem::path run_dir_;
  const Retention retention_;
  const RankHolds holds_;
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
