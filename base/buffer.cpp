#include "base/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace weft {

Buffer::Buffer(std::int64_t bytes) {
  if (bytes == 0) return;
  void* mapped = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw RuntimeFault(fmt::format("no memory for {} bytes: {}", bytes, std::strerror(errno)));
  }
  // Large pages avoid most page faults of the first step and TLB misses of every step. Nothing is lost if the kernel
  // refuses.
  madvise(mapped, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  bytes_ = {static_cast<std::byte*>(mapped), {static_cast<std::size_t>(bytes)}};
}

void Unmap::operator()(std::byte* data) const {
  munmap(data, size);
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;  // pages
  return file >> size >> resident ? resident * ::sysconf(_SC_PAGESIZE) : 0;
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

double machine_memory_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace weft
