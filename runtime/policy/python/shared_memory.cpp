#include "runtime/policy/python/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace weft::policy {

SharedMemory::SharedMemory(std::size_t bytes) : size_(std::max<std::size_t>(bytes, 1)) {
  descriptor_ = ::memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void* mapped = MAP_FAILED;
  if (descriptor_ >= 0 && ::ftruncate(descriptor_, static_cast<off_t>(size_)) == 0) {
    mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  }
  if (mapped == MAP_FAILED) {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw RuntimeFault(fmt::format("no shared memory of {} bytes for a policy: {}", size_, std::strerror(error)));
  }
  data_ = static_cast<std::byte*>(mapped);
  // A child that shrank the memory would end this process by SIGBUS.
  ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
}

SharedMemory::~SharedMemory() {
  unmap();
  ::close(descriptor_);
}

void SharedMemory::seal() {
  unmap();
  ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_WRITE);
}

void SharedMemory::unmap() noexcept {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
}

}  // namespace weft::policy
