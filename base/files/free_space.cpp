#include "base/files/free_space.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files/mapped_file.h"
#include "base/units.h"

namespace weft {
namespace {

constexpr std::uint64_t kBlocksOfFolder = 2;

std::filesystem::path nearest_existing(std::filesystem::path folder) {
  folder = std::filesystem::absolute(folder);
  std::error_code ignored;
  while (folder.has_relative_path() && !std::filesystem::exists(folder, ignored)) folder = folder.parent_path();
  return folder;
}

}  // namespace

std::string SpaceCheck::text() const {
  return fmt::format("needs {} bytes ({}), but {} has {} bytes ({}) free", needed, human_bytes(needed),
                     in_quotes(where), free, human_bytes(free));
}

SpaceCheck check_space(const std::filesystem::path& folder, std::span<const std::uint64_t> file_sizes) {
  SpaceCheck check{nearest_existing(folder), 0, 0};
  struct statvfs status {};
  if (::statvfs(check.where.c_str(), &status) != 0) {
    throw RuntimeFault(
        fmt::format("the free space of {} is unknown: {}", in_quotes(check.where), std::strerror(errno)));
  }
  const std::uint64_t block = status.f_frsize;
  check.free = status.f_bavail * block;
  check.needed = kBlocksOfFolder * block;
  for (const std::uint64_t size : file_sizes) check.needed += (size + block - 1) / block * block;
  return check;
}

}  // namespace weft
