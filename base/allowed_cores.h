// The cores that the system lets this process run on: a launcher, a container or taskset may leave it few.
#pragma once

#include <cstdint>

namespace weft {

/// A rank's cores: the machine that runs it, as one number, and the cores that the system allows it, as another.
struct AllowedCores {
  std::uint64_t machine = 0, which = 0;
  std::int64_t cores = 1;
};

/// Of this process. Without /proc, a machine of its own.
AllowedCores allowed_cores(int rank);

}  // namespace weft
