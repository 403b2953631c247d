#include "runtime/execute/device/access_log.h"

#include <algorithm>

namespace weft::execute {
namespace {

constexpr std::uintptr_t kPage = 4096;  // accesses are kept by the pages that they touch

std::uintptr_t page_of(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) / kPage;
}

// Of windows with equal strides: the columns of `b` in the rows of `a`.
bool columns_meet(const ByteWindow& a, const ByteWindow& b) {
  const std::int64_t apart = b.begin - a.begin;
  const std::int64_t column = ((apart % a.stride) + a.stride) % a.stride;
  return column < a.row_bytes || column + b.row_bytes > a.stride;
}

bool covers(const ByteWindow& outer, const ByteWindow& inner) {
  if (outer.begin == inner.begin && outer.rows == inner.rows && outer.row_bytes == inner.row_bytes &&
      outer.stride == inner.stride) {
    return true;
  }
  const bool contiguous = outer.rows <= 1 || outer.stride == outer.row_bytes;
  return contiguous && outer.begin <= inner.begin && inner.end() <= outer.end();
}

}  // namespace

std::vector<Touch> touches_of(const graph::Task& task, std::span<const cpu::Matrix> arguments) {
  std::vector<Touch> touches;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const cpu::Matrix& m = arguments[i];
    const auto element = static_cast<std::int64_t>(size_of(m.dtype));
    const ByteWindow window{static_cast<const std::byte*>(m.data), m.rows, m.cols * element, m.row_stride * element};
    touches.push_back({window, task.accesses[i].mode != graph::AccessMode::read});
  }
  return touches;
}

bool overlap(const ByteWindow& a, const ByteWindow& b) {
  if (a.begin >= b.end() || b.begin >= a.end()) return false;
  if (a.rows > 1 && b.rows > 1 && a.stride == b.stride && a.stride > 0) return columns_meet(a, b);
  return true;
}

std::optional<std::string> AccessLog::add(const ByteWindow& window, bool writes, const Who& who,
                                          const VectorClock& clock) {
  if (window.rows == 0 || window.row_bytes == 0) return std::nullopt;
  std::optional<std::string> conflict;
  for (std::uintptr_t page = page_of(window.begin); page <= page_of(window.end() - 1); ++page) {
    std::vector<Record>& records = pages_[page];
    std::erase_if(records, [&](const Record& record) {
      const bool ordered = record.who.stream < clock.size() && clock[record.who.stream] >= record.who.tick;
      if ((writes || record.writes) && !ordered && overlap(record.window, window)) conflict = record.who.name;
      // A write replaces all earlier accesses that it covers; a read replaces earlier reads of its own stream.
      const bool replaced = writes || (!record.writes && record.who.stream == who.stream);
      return ordered && replaced && covers(window, record.window);
    });
    records.push_back({window, writes, who});
  }
  return conflict;
}

}  // namespace weft::execute
