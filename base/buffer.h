// Page-aligned bytes with one owner: the state and the scratch arena. The memory that this process takes, as the kernel
// counts it; and the machine's memory and name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace weft {

/// Ends the mapping of bytes to memory.
struct Unmap {
  std::size_t size = 0;
  void operator()(std::byte* data) const;
};
using MappedBytes = std::unique_ptr<std::byte, Unmap>;

/// Zeroed bytes, mapped from the operating system. A page takes memory only once it is accessed. Throws RuntimeFault,
/// which names the size, if the system can't provide the memory.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t bytes);

  std::byte* data() const { return bytes_.get(); }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.get_deleter().size); }

 private:
  MappedBytes bytes_;
};

/// Bytes of the resident set now; 0 if the kernel doesn't tell.
std::int64_t resident_bytes();
/// The most that it ever was.
std::int64_t peak_resident_bytes();
/// The machine's memory, whoever takes it.
double machine_memory_bytes();
/// The machine's name; "unknown" if the system doesn't tell.
std::string host_name();

}  // namespace weft
