// Page-aligned bytes with one owner: the state and the scratch arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft {

/// Zeroed bytes, mapped from the operating system. A page takes memory only once it is accessed. Throws RuntimeFault,
/// which names the size, if the system can't provide the memory.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t bytes);

  std::byte* data() const { return bytes_.get(); }
  std::int64_t size() const { return bytes_.get_deleter().size; }

 private:
  struct Unmap {
    Unmap() : size(0) {}
    explicit Unmap(std::int64_t bytes) : size(bytes) {}
    std::int64_t size;
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Unmap> bytes_;
};

}  // namespace weft
