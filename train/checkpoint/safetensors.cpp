// Header parsing with overflow checks, conversions to float, and the writer.
#include "train/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "base/files/document.h"
#include "base/half.h"
#include "base/text/json_object.h"

namespace weft::train {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr const char* kMetadataKey = "__metadata__";

constexpr StoredType kF32{"F32", 4}, kBf16{"BF16", 2}, kF16{"F16", 2}, kI32{"I32", 4}, kI64{"I64", 8};
/// Bytes that a tensor of this shape takes, or nothing if that exceeds 64 bits.
std::optional<std::uint64_t> byte_count(std::span<const std::uint64_t> shape, StoredType type) {
  std::uint64_t count = type.size;
  for (const std::uint64_t dimension : shape) {
    if (__builtin_mul_overflow(count, dimension, &count)) return std::nullopt;
  }
  return count;
}

std::vector<std::uint64_t> counts_of(const DocumentValue& list) {
  std::vector<std::uint64_t> counts;
  for (const DocumentValue& item : list.items()) counts.push_back(item.count());
  return counts;
}

StoredType type_of(const DocumentValue& dtype) {
  // The first 6 have elements of one byte, the next 4 of two, the next 3 of four, and the rest of eight.
  static const std::vector<std::string> known = {"BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0",
                                                 "I16",  "U16", "F16", "BF16",    "I32",     "U32",
                                                 "F32",  "C64", "F64", "I64",     "U64"};
  const auto at = std::ranges::find(known, dtype.name_of(known));
  const auto number = at - known.begin();
  return {*at, number < 6 ? 1U : number < 10 ? 2U : number < 13 ? 4U : 8U};
}

StoredTensorInfo parse_tensor(const std::string& name, const DocumentValue& entry) {
  StoredTensorInfo info;
  info.name = name;
  info.type = type_of(entry["dtype"]);
  info.shape = counts_of(entry["shape"]);
  const auto offsets = counts_of(entry["data_offsets"]);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) entry["data_offsets"].refuse("[begin, end] with begin ≤ end");
  info.begin = offsets[0];
  info.end = offsets[1];
  const auto bytes = byte_count(info.shape, info.type);
  if (!bytes || *bytes != info.end - info.begin) {
    entry.refuse(fmt::format("has {} bytes", info.end - info.begin),
                 fmt::format("{} for {} {}", bytes ? std::to_string(*bytes) + " bytes" : "more than 2^64 bytes",
                             info.type.name, shape_text(info.shape)));
  }
  return info;
}

void check_cover(const std::vector<StoredTensorInfo>& tensors, std::uint64_t size, const std::string& name) {
  std::vector<const StoredTensorInfo*> order;
  for (const StoredTensorInfo& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const StoredTensorInfo* a, const StoredTensorInfo* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  std::uint64_t covered = 0;
  for (const StoredTensorInfo* tensor : order) {
    if (tensor->begin != covered) {
      throw UserError(fmt::format("{}: tensor '{}' begins at byte {}", name, tensor->name, tensor->begin),
                      fmt::format("{}, where the one before it ends: no {}", covered,
                                  tensor->begin > covered ? "holes" : "overlap"),
                      kRepair);
    }
    covered = tensor->end;
  }
  if (covered != size) {
    throw UserError(fmt::format("{} has {} bytes of tensors", name, size),
                    fmt::format("{}, where its last tensor ends", covered), kRepair);
  }
}

/// A file that is about to be written: its header, and the bytes of each tensor.
struct Layout {
  std::string header;
  std::vector<std::uint64_t> sizes;
};

/// Sorts `tensors` in the order of the file.
Layout lay_out(std::vector<TensorToWrite>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return a.type.size != b.type.size ? a.type.size > b.type.size : a.name < b.name;
  });
  Layout layout;
  JsonObject json;
  json.add(kMetadataKey, JsonObject().add("format", "pt"));  // as transformers wants
  std::set<std::string_view> names = {kMetadataKey};
  std::uint64_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    const auto size = byte_count(tensor.shape, tensor.type);
    if (!size || !names.insert(tensor.name).second) {
      throw std::invalid_argument("write_safetensors: tensor " + tensor.name);
    }
    layout.sizes.push_back(*size);
    json.add(tensor.name, JsonObject()
                              .add("dtype", tensor.type.name)
                              .add("shape", tensor.shape)
                              .add("data_offsets", JsonArray{end, end + *size}));
    end += *size;
  }
  layout.header = json.text();
  layout.header.resize((layout.header.size() + 7) / 8 * 8, ' ');
  return layout;
}

}  // namespace

StoredType stored_type(DType dtype) {
  constexpr std::array kOfDType = {kF32, kBf16, kI32, kI64};
  return kOfDType.at(static_cast<std::size_t>(dtype));
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::string name = in_quotes(path);
  std::uint64_t header_size = 0;
  if (file_.size() < sizeof header_size) {
    throw UserError(fmt::format("{} has {} bytes", name, file_.size()), "a safetensors file: 8 bytes or more", kRepair);
  }
  file_.read(0, std::as_writable_bytes(std::span(&header_size, 1)));
  const std::uint64_t behind = file_.size() - sizeof header_size;
  if (header_size > kLargestHeader || header_size > behind) {
    throw UserError(
        fmt::format("{} claims a header of {} bytes", name, header_size),
        fmt::format("at most {}: is it a safetensors file, and complete?", std::min(behind, kLargestHeader)), kRepair);
  }
  std::string header(header_size, '\0');
  file_.read(sizeof header_size, std::as_writable_bytes(std::span(header)));
  if (!header.starts_with('{')) throw UserError(name + " has no JSON header", "a safetensors file", kRepair);
  const Document document = read_json(header, name, {.fix = kRepair});
  data_begin_ = sizeof header_size + header_size;

  for (const auto& [key, entry] : document.root().members()) {
    if (key != kMetadataKey) {
      tensors_.push_back(parse_tensor(key, entry));
      continue;
    }
    for (const auto& [word, value] : entry.members()) metadata_[word] = value.text();
  }
  check_cover(tensors_, behind - header_size, name);
}

const StoredTensorInfo* SafetensorsFile::find(std::string_view name) const {
  // The members of a document are sorted by key, so tensors_ is too.
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const StoredTensorInfo& t, std::string_view n) { return t.name < n; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

void SafetensorsFile::read_bytes(const StoredTensorInfo& tensor, std::uint64_t first, std::span<std::byte> out) const {
  file_.read(data_begin_ + tensor.begin + first, out);
}

std::vector<float> SafetensorsFile::read(const StoredTensorInfo& tensor) const {
  std::vector<float> values(tensor.elements());
  read(tensor, 0, values);
  return values;
}

void SafetensorsFile::read(const StoredTensorInfo& tensor, std::uint64_t first, std::span<float> out) const {
  if (first > tensor.elements() || out.size() > tensor.elements() - first) {
    throw std::invalid_argument("SafetensorsFile::read: elements that the tensor has");
  }
  const StoredType type = tensor.type;
  if (type == kF32) return read_bytes(tensor, first * type.size, std::as_writable_bytes(out));
  const auto as_float = [](auto value) { return static_cast<float>(value); };
  const auto convert = [&](auto like, auto to_float) {
    std::array<decltype(like), 4096> part;
    while (!out.empty()) {
      const auto read = std::span(part).first(std::min(part.size(), out.size()));
      read_bytes(tensor, first * type.size, std::as_writable_bytes(read));
      std::ranges::transform(read, out.begin(), to_float);
      first += read.size();
      out = out.subspan(read.size());
    }
  };
  if (type == kBf16) return convert(bf16(), as_float);
  if (type == kF16) return convert(std::uint16_t(), half_to_float);
  if (type == kI32) return convert(std::int32_t(), as_float);
  if (type == kI64) return convert(std::int64_t(), as_float);
  throw UserError(fmt::format("{}: tensor '{}' has dtype {}", in_quotes(path()), tensor.name, type.name),
                  "F32, BF16, F16, I32 or I64", "convert the file to one of these");
}

FileSummary write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors) {
  const Layout layout = lay_out(tensors);
  const std::uint64_t header_size = layout.header.size();
  DurableFile file(path);
  file.write(std::as_bytes(std::span(&header_size, 1)));
  file.write(std::as_bytes(std::span(layout.header)));
  std::vector<std::byte> scratch;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto bytes = tensors[i].bytes(scratch);
    if (bytes.size() != layout.sizes[i]) {
      throw std::invalid_argument("write_safetensors: the size of " + tensors[i].name);
    }
    file.write(bytes);
  }
  return file.commit();
}

std::uint64_t safetensors_bytes(std::vector<TensorToWrite> tensors) {
  const Layout layout = lay_out(tensors);
  return std::accumulate(layout.sizes.begin(), layout.sizes.end(),
                         std::uint64_t{sizeof(std::uint64_t) + layout.header.size()});
}

void expect_floats(const SafetensorsFile& file, const StoredTensorInfo& tensor) {
  constexpr std::array<std::string_view, 3> kFloats = {"F32", "BF16", "F16"};
  if (std::ranges::find(kFloats, tensor.type.name) != kFloats.end()) return;
  throw UserError(fmt::format("{}: tensor '{}' has dtype {}", in_quotes(file.path()), tensor.name, tensor.type.name),
                  "weights in F32, BF16 or F16",
                  "quantized weights aren't read: give the model as it was before it was quantized");
}

}  // namespace weft::train
