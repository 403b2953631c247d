// Finds bytes that two pieces of work touch without an order between them: the race detector of the fake device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernels/cpu/matrix.h"

namespace weft::execute {

/// rows × row_bytes bytes, rows `stride` bytes apart.
struct ByteWindow {
  const std::byte* begin = nullptr;
  std::int64_t rows = 1, row_bytes = 0, stride = 0;

  const std::byte* end() const { return rows == 0 ? begin : begin + (rows - 1) * stride + row_bytes; }
};

/// Bytes that a piece of work reads or writes.
struct Touch {
  ByteWindow window;
  bool writes = false;
};

/// The bytes that a task touches, given the addresses of its arguments.
std::vector<Touch> touches_of(const graph::Task& task, std::span<const cpu::Matrix> arguments);

/// Exact for windows of equal stride and for contiguous ones, else conservative.
bool overlap(const ByteWindow& a, const ByteWindow& b);

/// By stream, the number of its ticks that precede a moment. Tick t of stream s precedes every moment whose clock has
/// at least t at s.
using VectorClock = std::vector<std::uint64_t>;

/// The accesses so far, without those that later accesses replace.
///
///   log.add(window, true, {0, 7, "L0.qkv"}, clock);    // nullopt: ordered after all accesses that it overlaps
///   log.add(window, false, {1, 3, "L0.attn"}, other);  // "L0.qkv": a read without a wait for the write
class AccessLog {
 public:
  struct Who {
    std::size_t stream = 0;
    std::uint64_t tick = 0;  // on its stream
    std::string name;
  };

  /// The name of an earlier access that conflicts with this one (they overlap, one of them writes) and isn't ordered
  /// before it by `clock`; nothing if there is none.
  std::optional<std::string> add(const ByteWindow& window, bool writes, const Who& who, const VectorClock& clock);

 private:
  struct Record {
    ByteWindow window;
    bool writes = false;
    Who who;
  };
  std::map<std::uintptr_t, std::vector<Record>> pages_;
};

}  // namespace weft::execute
