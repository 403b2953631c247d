// Memory that this process and a child map, without a name in any folder.
#pragma once

#include <cstddef>
#include <span>

namespace weft::policy {

/// Owns the mapping and its descriptor, which a child inherits.
class SharedMemory {
 public:
  /// Zeros. Throws RuntimeFault if the system has no memory for it.
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int descriptor() const { return descriptor_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }
  /// Ends this process's mapping; from now on nobody can write to the memory.
  void seal();

 private:
  void unmap() noexcept;

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft::policy
