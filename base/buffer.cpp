#include "base/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

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
  bytes_ = {static_cast<std::byte*>(mapped), Unmap(bytes)};
}

void Buffer::Unmap::operator()(std::byte* data) const {
  munmap(data, static_cast<std::size_t>(size));
}

}  // namespace weft
