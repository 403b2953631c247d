#include "base/files/gguf_writer.h"

#include <stdexcept>

namespace weft {
namespace {

constexpr std::uint32_t kVersion = 3;
// The kinds of values, by their number in files.
constexpr std::uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

template <class Number>
void put(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<std::uint64_t>(text.size()));
  bytes.append(text);
}

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
}

/// All that stands before the data of tensors.
std::string header_of(const GgufMetadata& metadata, std::span<const GgufTensorToWrite> tensors) {
  std::string header(kGgufMagic);
  put(header, kVersion);
  put(header, static_cast<std::uint64_t>(tensors.size()));
  put(header, metadata.entries());
  header.append(metadata.bytes());
  std::uint64_t offset = 0;
  for (const GgufTensorToWrite& tensor : tensors) {
    put_text(header, tensor.name);
    put(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) put(header, *size);
    put(header, tensor.type.number);
    put(header, offset);
    offset += padded(tensor.size());
  }
  header.resize(padded(header.size()), '\0');
  return header;
}

}  // namespace

void GgufMetadata::begin(std::string_view key, std::uint32_t kind) {
  put_text(bytes_, key);
  put(bytes_, kind);
  ++entries_;
}

void GgufMetadata::begin_list(std::string_view key, std::uint32_t kind, std::size_t count) {
  begin(key, kArray);
  put(bytes_, kind);
  put(bytes_, static_cast<std::uint64_t>(count));
}

GgufMetadata& GgufMetadata::integer(std::string_view key, std::uint32_t value) {
  begin(key, kUint32);
  put(bytes_, value);
  return *this;
}

GgufMetadata& GgufMetadata::number(std::string_view key, float value) {
  begin(key, kFloat32);
  put(bytes_, value);
  return *this;
}

GgufMetadata& GgufMetadata::flag(std::string_view key, bool value) {
  begin(key, kBool);
  put(bytes_, static_cast<std::uint8_t>(value ? 1 : 0));
  return *this;
}

GgufMetadata& GgufMetadata::text(std::string_view key, std::string_view value) {
  begin(key, kString);
  put_text(bytes_, value);
  return *this;
}

GgufMetadata& GgufMetadata::texts(std::string_view key, std::span<const std::string> values) {
  begin_list(key, kString, values.size());
  for (const std::string& value : values) put_text(bytes_, value);
  return *this;
}

GgufMetadata& GgufMetadata::integers(std::string_view key, std::span<const std::int32_t> values) {
  begin_list(key, kInt32, values.size());
  for (const std::int32_t value : values) put(bytes_, value);
  return *this;
}

GgufMetadata& GgufMetadata::numbers(std::string_view key, std::span<const float> values) {
  begin_list(key, kFloat32, values.size());
  for (const float value : values) put(bytes_, value);
  return *this;
}

std::uint64_t GgufTensorToWrite::size() const {
  std::uint64_t elements = 1;
  for (const std::uint64_t count : shape) elements *= count;
  if (shape.empty() || shape.back() % type.block != 0) throw std::invalid_argument("write_gguf: the shape of " + name);
  return elements / type.block * type.bytes;
}

FileSummary write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                       std::span<const GgufTensorToWrite> tensors) {
  const std::string header = header_of(metadata, tensors);
  DurableFile file(path);
  file.write(std::as_bytes(std::span(header)));
  std::vector<std::byte> scratch;
  for (const GgufTensorToWrite& tensor : tensors) {
    const std::uint64_t size = tensor.size();
    const auto bytes = tensor.bytes(scratch);
    if (bytes.size() != size) throw std::invalid_argument("write_gguf: the size of " + tensor.name);
    file.write(bytes);
    file.write(std::vector<std::byte>(padded(size) - size));
  }
  return file.commit();
}

std::uint64_t gguf_bytes(const GgufMetadata& metadata, std::span<const GgufTensorToWrite> tensors) {
  std::uint64_t bytes = header_of(metadata, tensors).size();
  for (const GgufTensorToWrite& tensor : tensors) bytes += padded(tensor.size());
  return bytes;
}

}  // namespace weft
