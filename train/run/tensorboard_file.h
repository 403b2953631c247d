// Event files of TensorBoard: records of TensorFlow (length, checksum, bytes, checksum), each a protobuf `Event`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/files/durable_file.h"
#include "train/run/metrics.h"

namespace weft::train {

/// The beginning of the names of event files, by which TensorBoard finds them.
inline constexpr std::string_view kEventFileStart = "events.out.tfevents.";

/// A record of tensorflow/core/lib/io/record_writer.h: u64 length, u32 masked CRC-32C of these 8 bytes, the bytes, u32
/// masked CRC-32C of the bytes; all little-endian.
std::string tfrecord(std::string_view bytes);

/// The metrics of a run as scalars: train/loss, val/loss, train/lr, speed/tokens_per_s, … over the number of the step.
/// A metric that a step lacks has no point.
///
///   TensorBoardFile file(run_dir / "tensorboard", 0);
///   file.write(metrics);   // shown by: tensorboard --logdir run_dir
class TensorBoardFile {
 public:
  /// Starts an event file in `folder`, which is made. A run that goes on gets a file of its own, that tells TensorBoard
  /// to forget points of `first_step` and later from the files before. Throws RuntimeFault if it can't be written.
  TensorBoardFile(const std::filesystem::path& folder, std::int64_t first_step);

  /// Throws RuntimeFault if the disk does.
  void write(const StepMetrics& metrics);

 private:
  AppendedFile file_;
};

}  // namespace weft::train
