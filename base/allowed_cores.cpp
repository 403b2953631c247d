#include "base/allowed_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/hash.h"

namespace weft {

AllowedCores allowed_cores(int rank) {
  // Containers and network namespaces of one kernel have host names of their own, and this text in common.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  AllowedCores allowed;
  Fingerprint machine, which;
  if (std::getline(file, boot)) {
    machine.add_bytes(boot.data(), boot.size());
  } else {
    machine.add(static_cast<std::uint64_t>(rank));
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    which.add_bytes(&cores, sizeof cores);
    allowed.cores = std::max(1, CPU_COUNT(&cores));
  } else {  // it has more cores than the set
    allowed.cores = std::max<std::int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN));
  }
  allowed.machine = machine.value();
  allowed.which = which.value();
  return allowed;
}

}  // namespace weft
