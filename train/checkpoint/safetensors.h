// safetensors files, which most frameworks read; every value of a header is checked before use. Format:
// huggingface/safetensors, README.md and src/tensor.rs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"

namespace weft::train {

/// The fix where a file of tensors can't be read.
inline constexpr const char* kRepair = "copy or make the file again";

/// An element type of files; they may hold more types than Weft computes with, masks and the like.
struct StoredType {
  std::string_view name;   // "BF16", as in the header
  std::uint64_t size = 0;  // bytes of an element
  friend bool operator==(const StoredType&, const StoredType&) = default;
};
StoredType stored_type(DType dtype);

/// "[3, 4]"; a scalar is "[]".
std::string shape_text(std::span<const std::uint64_t> shape);

/// One tensor of a file: row-major, little-endian, at bytes [begin, end) of the data after the header.
struct StoredTensorInfo {
  std::string name;
  StoredType type;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;

  std::uint64_t elements() const { return (end - begin) / type.size; }
};

/// A file opened for reading: opening costs the header, a tensor its bytes. Reading one of a file that was truncated
/// meanwhile throws RuntimeFault, which names the file.
///
///   SafetensorsFile file("model.safetensors");
///   if (const StoredTensorInfo* info = file.find("wte.weight")) values = file.read(*info);
class SafetensorsFile {
 public:
  /// Throws UserError, naming file and tensor, unless the header is at most 100 MB of JSON without duplicate keys, each
  /// tensor has a known dtype and as many bytes as its shape takes, and the tensors cover the rest of the file without
  /// hole or overlap.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// Ordered by name.
  const std::vector<StoredTensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// nullptr if there is none.
  const StoredTensorInfo* find(std::string_view name) const;
  /// Bytes [first, first + out.size()) of the tensor, which has them.
  void read_bytes(const StoredTensorInfo& tensor, std::uint64_t first, std::span<std::byte> out) const;
  /// Elements [first, first + out.size()) as float, from F32, BF16, F16, I32 or I64 (the last two rounded where they
  /// exceed 24 bits). Throws UserError on another dtype and std::invalid_argument unless the tensor has them.
  void read(const StoredTensorInfo& tensor, std::uint64_t first, std::span<float> out) const;
  /// All of the elements.
  std::vector<float> read(const StoredTensorInfo& tensor) const;

 private:
  InputFile file_;
  std::uint64_t data_begin_ = 0;
  std::vector<StoredTensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// A tensor to be written. `bytes` is called once, when its turn comes: it returns the elements, either where they lie
/// already or after putting them into `scratch`, which all tensors share; so writing takes memory for one tensor only.
struct TensorToWrite {
  std::string name;
  StoredType type;
  std::vector<std::uint64_t> shape;
  std::function<std::span<const std::byte>(std::vector<std::byte>& scratch)> bytes;
};

/// Writes `tensors` durably (see DurableFile), the largest elements first, then by name, so that all are aligned, after
/// a header padded to a multiple of 8. Throws RuntimeFault if the disk does, and std::invalid_argument on two tensors
/// of one name or on a tensor whose bytes don't match its shape.
FileSummary write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors);

/// The size of the file that write_safetensors() would write, exactly; no `bytes` is called.
std::uint64_t safetensors_bytes(std::vector<TensorToWrite> tensors);

/// Throws UserError on integers, which would load as numbers, though quantized weights mean others.
void expect_floats(const SafetensorsFile& file, const StoredTensorInfo& tensor);

}  // namespace weft::train
