// GGUF files, in which llama.cpp and Ollama keep models: typed metadata by key, and tensors of quantized blocks. Every
// number of a header is checked before use. Format: ggml-org/ggml, docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/files/input_file.h"

namespace weft {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr std::uint64_t kGgufAlignment = 32;  // of files that don't name another one
inline constexpr const char* kGgufRepair = "copy or make the file again";

/// An element type of tensors: `block` elements in a row take `bytes` together.
struct GgufType {
  std::uint32_t number = 0;
  std::string_view name;  // "Q4_K"
  std::uint64_t block = 1, bytes = 0;
  friend bool operator==(const GgufType&, const GgufType&) = default;
};

/// All types of the format, also those whose values Weft doesn't compute.
std::span<const GgufType> gguf_types();
/// The type of this name, which must exist.
const GgufType& gguf_type(std::string_view name);

/// Integers and numbers of all widths are read as the widest.
using GgufValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  GgufType type;
  std::vector<std::uint64_t> shape;  // outermost first, as other libraries tell it; rows are whole blocks
  std::uint64_t begin = 0, end = 0;  // bytes of the file

  std::uint64_t elements() const { return (end - begin) / type.bytes * type.block; }
};

/// A file opened for reading: opening costs the header, a tensor its bytes.
///
///   GgufFile file("model.gguf");
///   const std::int64_t layers = file.integer("llama.block_count", 1, 1000);
class GgufFile {
 public:
  /// Throws UserError, naming file and key or tensor, unless the file is of version 2 or 3 and little-endian, no key or
  /// tensor comes twice, each value lies within the file, and each tensor has a known type, is aligned and overlaps no
  /// other.
  explicit GgufFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  /// In the order of the file.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// nullptr if there is none.
  const GgufTensor* find(std::string_view tensor) const;
  /// Bytes [first, first + out.size()) of the tensor, which has them.
  void read_bytes(const GgufTensor& tensor, std::uint64_t first, std::span<std::byte> out) const;

  bool has(std::string_view key) const { return metadata_.contains(key); }
  /// Values of the metadata. Throw UserError, naming file and key, if there is none or it is of another kind.
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most) const;
  double number(std::string_view key) const;
  bool flag(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  const std::vector<std::string>& texts(std::string_view key) const;
  const std::vector<std::int64_t>& integers(std::string_view key) const;
  const std::vector<double>& numbers(std::string_view key) const;
  /// "'model.gguf': llama.block_count is 0; expected …".
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

 private:
  template <class Value>
  const Value& of_kind(std::string_view key, std::string_view kind) const;

  InputFile file_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, std::size_t> by_name_;
};

/// Whether a path is a regular file that begins as GGUF files do.
bool is_gguf(const std::filesystem::path& path);

}  // namespace weft
