// A range of ids of a text.
#pragma once

#include <cstdint>

namespace weft::text {

/// [begin, end).
struct IdRange {
  std::uint64_t begin = 0, end = 0;

  friend bool operator==(const IdRange&, const IdRange&) = default;
};

}  // namespace weft::text
