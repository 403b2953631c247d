// Writes GGUF files (version 3, little-endian), which gguf_file.h reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/durable_file.h"
#include "base/files/gguf_file.h"

namespace weft {

/// The metadata of a file, in the order in which it is added; a key must come once. Each kind of value has the width
/// that llama.cpp gives it.
///
///   GgufMetadata metadata;
///   metadata.text("general.architecture", "llama").integer("llama.block_count", 4);
class GgufMetadata {
 public:
  GgufMetadata& integer(std::string_view key, std::uint32_t value);
  GgufMetadata& number(std::string_view key, float value);
  GgufMetadata& flag(std::string_view key, bool value);
  GgufMetadata& text(std::string_view key, std::string_view value);
  GgufMetadata& texts(std::string_view key, std::span<const std::string> values);
  GgufMetadata& integers(std::string_view key, std::span<const std::int32_t> values);
  GgufMetadata& numbers(std::string_view key, std::span<const float> values);

  std::uint64_t entries() const { return entries_; }
  /// As files have them.
  std::string_view bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, std::uint32_t kind);
  void begin_list(std::string_view key, std::uint32_t kind, std::size_t count);

  std::uint64_t entries_ = 0;
  std::string bytes_;
};

/// A tensor to be written. `bytes` is called once, when its turn comes, and may put them into `scratch`, which all
/// tensors share.
struct GgufTensorToWrite {
  std::string name;
  GgufType type;
  std::vector<std::uint64_t> shape;  // outermost first
  std::function<std::span<const std::byte>(std::vector<std::byte>& scratch)> bytes;

  std::uint64_t size() const;
};

/// Writes the file durably (see DurableFile), tensors in their order. Throws RuntimeFault if the disk does, and
/// std::invalid_argument on a tensor whose rows aren't whole blocks or whose bytes don't match its shape.
FileSummary write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                       std::span<const GgufTensorToWrite> tensors);

/// The size of the file that write_gguf() would write.
std::uint64_t gguf_bytes(const GgufMetadata& metadata, std::span<const GgufTensorToWrite> tensors);

}  // namespace weft
