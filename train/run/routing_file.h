// Files of routing: the experts that each token took in each layer, step by step, for another run to take the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "train/config/config.h"

namespace weft::train {

/// What the choices of a run are about: its model, the sequences that it reads, and where both begin.
struct RoutingInfo {
  std::string model;                 // "mixtral of 4 layers, hidden 256, vocabulary 257"
  std::vector<std::int64_t> layers;  // that have experts
  std::int64_t experts = 0, choices = 0;
  std::uint64_t data = 0;  // the digest of the tokens
  std::string packing;
  std::uint64_t seed = 0;
  std::int64_t sequences = 0, seq_len = 0;  // of a step
  std::int64_t first_step = 0;
  std::uint64_t first_sequence = 0;  // of that step

  /// Numbers of a step: [layers, sequences, seq_len, choices].
  std::size_t size() const {
    return layers.size() * static_cast<std::size_t>(sequences * seq_len) * static_cast<std::size_t>(choices);
  }
};

/// Of a resolved configuration that begins with `first_step`, which reads the sequence `first_sequence` first.
RoutingInfo routing_info(const RunConfig& config, std::uint64_t data, std::int64_t first_step,
                         std::uint64_t first_sequence);

/// The experts of a step's tokens, ascending for each token, in the order of RoutingInfo::size().
using Choices = std::vector<std::uint16_t>;

/// A file that is read. Throws UserError if it isn't one.
class RoutingFile {
 public:
  explicit RoutingFile(std::filesystem::path path);

  const RoutingInfo& info() const { return info_; }
  /// The steps before it, from info().first_step on, are in the file as a whole.
  std::int64_t end_step() const;
  /// Throws UserError unless the file is about the same model, data and sequences as `run`.
  void expect_fits(const RoutingInfo& run) const;
  /// Throws UserError unless the file also has the run's steps, from its first up to `end`.
  void expect_steps(const RoutingInfo& run, std::int64_t end) const;
  /// The choices of one of its steps. Throws RuntimeFault if they can't be a choice.
  Choices read(std::int64_t step) const;
  /// Bytes up to a step.
  std::uint64_t bytes_before(std::int64_t step) const;

 private:
  InputFile file_;
  RoutingInfo info_;
  std::uint64_t begin_ = 0;  // of the first step's choices
};

/// Throws UserError unless recording_file() can write the path: a run that goes on keeps what its file has of earlier
/// steps, which has to be about the same.
void expect_recordable(const std::filesystem::path& path, const RoutingInfo& run);

/// The file of a run that records. A new run's replaces what the path holds; a run that goes on continues its file, or
/// begins one if there is none. Throws RuntimeFault if it can't be written.
class RoutingRecorder {
 public:
  RoutingRecorder(const std::filesystem::path& path, const RoutingInfo& run);
  void append(const Choices& choices);

 private:
  AppendedFile file_;
};

}  // namespace weft::train
