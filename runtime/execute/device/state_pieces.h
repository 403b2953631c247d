// The state's way to a device and back, through pinned pieces; back also beside a step that changes the state.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "runtime/execute/device/device.h"
#include "runtime/execute/device/device_plan.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {

/// Bytes of a rank's state, in both places.
struct StatePart {
  std::byte* host = nullptr;
  std::byte* device = nullptr;
  std::int64_t bytes = 0;
};

/// A block in parts of at most `most` bytes.
std::vector<StatePart> parts_of(const StatePart& block, std::int64_t most);

/// From pageable memory CUDA would copy through small pieces of its own, one after the other. Here one of two pieces is
/// copied on a stream of its own while the host empties or fills the other.
///
///   const std::uint64_t before = pieces.take(parts);       // returns at once; the first two parts are on their way
///   pieces.until_left(before + 3);                         // the device may change the first three
///   pieces.finish();                                       // the host has all parts
class StatePieces {
 public:
  explicit StatePieces(Device& device) : device_(device) {}

  /// To the device; returns when they are there.
  void bring(std::span<const StatePart> parts);
  /// From the device, after those that were taken before. Returns the number of parts taken until then. The work that
  /// wrote the parts must have ended.
  std::uint64_t take(std::span<const StatePart> parts);
  /// Blocks until so many of all parts taken so far have left the device.
  void until_left(std::uint64_t count);
  void finish();
  /// The stream of the copies; invalid before the first.
  DeviceStream stream() const { return stream_; }

 private:
  struct Piece {
    std::byte* pinned = nullptr;
    DeviceEvent copied;
    StatePart part;
  };
  Piece& piece(std::uint64_t number) { return pieces_[number % pieces_.size()]; }
  void make_room(std::span<const StatePart> parts);
  void begin_more();
  void empty_oldest();

  Device& device_;
  DeviceStream stream_;
  std::array<Piece, 2> pieces_;
  std::int64_t piece_bytes_ = 0;           // that are allocated for each
  std::deque<StatePart> waiting_;          // for a piece
  std::uint64_t begun_ = 0, emptied_ = 0;  // number of parts taken that have a piece, and that have left it
};

/// The parts of a rank's state that tasks of its plans change and checkpoints keep, parameters and optimizer state, in
/// the order in which the first plan that changes them does so; of at most `most` bytes. Sets DeviceStep::state_parts
/// of all steps. Call it after fuse_horizontally().
std::vector<StatePart> find_state_parts(std::span<const std::unique_ptr<DevicePlan>> plans, const PlanMemory& memory,
                                        std::int64_t most);

}  // namespace weft::execute
