#include "train/checkpoint/read_share.h"

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/hash.h"

namespace weft::train {

std::uint64_t file_identity(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  // Device numbers are only valid on one machine.
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return Fingerprint().add(boot).add(status.st_dev).add(status.st_ino).value();
}

ReadShare share_reading(comm::World& world, const std::filesystem::path& path) {
  const std::vector<std::uint64_t> all = world.all_gather(file_identity(path));
  const std::uint64_t own = all[static_cast<std::size_t>(world.rank())];
  ReadShare share{0, 0};
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != own) continue;
    if (static_cast<int>(rank) < world.rank()) ++share.rank;
    ++share.ranks;
  }
  return share;
}

}  // namespace weft::train
