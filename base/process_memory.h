// The memory that this process takes, as the kernel counts it.
#pragma once

#include <cstdint>

namespace weft {

/// Bytes of the resident set now; 0 if the kernel doesn't tell.
std::int64_t resident_bytes();
/// The most that it ever was.
std::int64_t peak_resident_bytes();

}  // namespace weft
