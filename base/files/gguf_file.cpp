// Reads the header piece by piece: counts and lengths come from the file, so that memory is taken for bytes that are
// there alone.
#include "base/files/gguf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/overloaded.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian");

constexpr std::uint64_t kLargestGgufHeader = std::uint64_t{1} << 30;
constexpr std::uint64_t kLargestAlignment = std::uint64_t{1} << 20;
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::string_view kGgufExpected = "a GGUF file of version 2 or 3, little-endian";

constexpr std::array kGgufTypes = {
    GgufType{0, "F32", 1, 4},         GgufType{1, "F16", 1, 2},         GgufType{2, "Q4_0", 32, 18},
    GgufType{3, "Q4_1", 32, 20},      GgufType{6, "Q5_0", 32, 22},      GgufType{7, "Q5_1", 32, 24},
    GgufType{8, "Q8_0", 32, 34},      GgufType{9, "Q8_1", 32, 40},      GgufType{10, "Q2_K", 256, 84},
    GgufType{11, "Q3_K", 256, 110},   GgufType{12, "Q4_K", 256, 144},   GgufType{13, "Q5_K", 256, 176},
    GgufType{14, "Q6_K", 256, 210},   GgufType{15, "Q8_K", 256, 292},   GgufType{16, "IQ2_XXS", 256, 66},
    GgufType{17, "IQ2_XS", 256, 74},  GgufType{18, "IQ3_XXS", 256, 98}, GgufType{19, "IQ1_S", 256, 50},
    GgufType{20, "IQ4_NL", 32, 18},   GgufType{21, "IQ3_S", 256, 110},  GgufType{22, "IQ2_S", 256, 82},
    GgufType{23, "IQ4_XS", 256, 136}, GgufType{24, "I8", 1, 1},         GgufType{25, "I16", 1, 2},
    GgufType{26, "I32", 1, 4},        GgufType{27, "I64", 1, 8},        GgufType{28, "F64", 1, 8},
    GgufType{29, "IQ1_M", 256, 56},   GgufType{30, "BF16", 1, 2},       GgufType{34, "TQ1_0", 256, 54},
    GgufType{35, "TQ2_0", 256, 66},   GgufType{39, "MXFP4", 32, 17},    GgufType{40, "NVFP4", 64, 36},
    GgufType{41, "Q1_0", 128, 18},
};

/// The kinds of values, by their number in files.
enum class ValueKind : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, list, u64, i64, f64 };
constexpr std::uint32_t kValueKinds = 13;

/// Bytes that a value of a kind takes at least.
constexpr std::uint64_t least_bytes(ValueKind kind) {
  constexpr std::array<std::uint64_t, kValueKinds> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return kBytes.at(static_cast<std::size_t>(kind));
}

class HeaderReader {
 public:
  explicit HeaderReader(const InputFile& file)
      : file_(file), name_(in_quotes(file.path())), size_(std::min(file.size(), kLargestGgufHeader)) {}

  const std::string& name() const { return name_; }
  std::uint64_t at() const { return at_; }

  template <class Number>
  Number take() {
    Number value;
    take_bytes(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  std::string text(std::string_view what) {
    const auto length = take<std::uint64_t>();
    expect_room(length, 1, what);
    std::string text(length, '\0');
    take_bytes(std::as_writable_bytes(std::span(text)));
    return text;
  }

  ValueKind kind(std::string_view key) {
    const auto number = take<std::uint32_t>();
    if (number >= kValueKinds) refuse(fmt::format("{} is of the kind {}", key, number), "kinds 0 to 12 of values");
    return static_cast<ValueKind>(number);
  }

  /// A count of things that take `bytes` each at least.
  std::uint64_t count(std::uint64_t bytes, std::string_view what) {
    const auto found = take<std::uint64_t>();
    expect_room(found, bytes, what);
    return found;
  }

  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw UserError(fmt::format("{}: {}", name_, found), expected, kGgufRepair);
  }

 private:
  void expect_room(std::uint64_t count, std::uint64_t bytes, std::string_view what) const {
    if (count <= (size_ - at_) / bytes) return;
    refuse(fmt::format("{} claims {} at byte {}", what, count, at_),
           fmt::format("at most {}, which fit the file: is it complete?", (size_ - at_) / bytes));
  }

  void take_bytes(std::span<std::byte> out) {
    if (out.size() > size_ - at_) {
      refuse(fmt::format("its header breaks off at byte {}", size_), "the whole file, with a header of at most 1 GiB");
    }
    while (!out.empty()) {
      if (at_ < window_begin_ || at_ >= window_begin_ + window_.size()) fill();
      const std::uint64_t from = at_ - window_begin_;
      const std::size_t part = std::min<std::size_t>(out.size(), window_.size() - from);
      std::memcpy(out.data(), window_.data() + from, part);
      at_ += part;
      out = out.subspan(part);
    }
  }

  void fill() {
    constexpr std::uint64_t kWindow = std::uint64_t{1} << 16;
    window_.resize(std::min(kWindow, size_ - at_));
    window_begin_ = at_;
    file_.read(at_, window_);
  }

  const InputFile& file_;
  const std::string name_;
  const std::uint64_t size_;
  std::uint64_t at_ = 0, window_begin_ = 0;
  std::vector<std::byte> window_;
};

std::int64_t integer_of(HeaderReader& reader, ValueKind kind, std::string_view key) {
  switch (kind) {
    case ValueKind::u8:
    case ValueKind::boolean:
      return reader.take<std::uint8_t>();
    case ValueKind::i8:
      return reader.take<std::int8_t>();
    case ValueKind::u16:
      return reader.take<std::uint16_t>();
    case ValueKind::i16:
      return reader.take<std::int16_t>();
    case ValueKind::u32:
      return reader.take<std::uint32_t>();
    case ValueKind::i32:
      return reader.take<std::int32_t>();
    case ValueKind::i64:
      return reader.take<std::int64_t>();
    default:
      break;
  }
  const auto value = reader.take<std::uint64_t>();
  if (std::bit_width(value) > 63) reader.refuse(fmt::format("{} is {}", key, value), "integers below 2^63");
  return static_cast<std::int64_t>(value);
}

template <class Value, class Take>
std::vector<Value> list_of(std::uint64_t count, Take take) {
  std::vector<Value> values;
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(take());
  return values;
}

GgufValue list_value(HeaderReader& reader, std::string_view key) {
  const ValueKind kind = reader.kind(key);
  const std::uint64_t count = reader.count(least_bytes(kind), key);
  switch (kind) {
    case ValueKind::text:
      return list_of<std::string>(count, [&] { return reader.text(key); });
    case ValueKind::f32:
      return list_of<double>(count, [&] { return static_cast<double>(reader.take<float>()); });
    case ValueKind::f64:
      return list_of<double>(count, [&] { return reader.take<double>(); });
    case ValueKind::list:
      reader.refuse(fmt::format("{} is a list of lists", key), "lists of texts, numbers or flags");
    default:
      return list_of<std::int64_t>(count, [&] { return integer_of(reader, kind, key); });
  }
}

GgufValue value_of(HeaderReader& reader, std::string_view key) {
  const ValueKind kind = reader.kind(key);
  switch (kind) {
    case ValueKind::boolean:
      return reader.take<std::uint8_t>() != 0;
    case ValueKind::f32:
      return static_cast<double>(reader.take<float>());
    case ValueKind::f64:
      return reader.take<double>();
    case ValueKind::text:
      return reader.text(key);
    case ValueKind::list:
      return list_value(reader, key);
    default:
      return integer_of(reader, kind, key);
  }
}

void expect_version(HeaderReader& reader) {
  std::array<char, 4> magic = {};
  for (char& letter : magic) letter = reader.take<char>();
  if (std::string_view(magic.data(), magic.size()) != kGgufMagic) {
    reader.refuse("its first bytes aren't GGUF", kGgufExpected);
  }
  const auto version = reader.take<std::uint32_t>();
  if (version == 2 || version == 3) return;
  const bool swapped = (version & 0xFFFFU) == 0;
  reader.refuse(swapped ? "its numbers are big-endian" : fmt::format("its version is {}", version), kGgufExpected);
}

/// A tensor whose bytes are counted from the begin of the data.
GgufTensor tensor_of(HeaderReader& reader) {
  GgufTensor tensor;
  tensor.name = reader.text("a tensor's name");
  const auto refuse = [&](const std::string& found, std::string_view expected) {
    reader.refuse(fmt::format("tensor '{}' {}", tensor.name, found), expected);
  };
  const auto dimensions = reader.take<std::uint32_t>();
  if (dimensions < 1 || dimensions > kMostDimensions) refuse(fmt::format("has {} dimensions", dimensions), "1 to 4");
  for (std::uint32_t i = 0; i < dimensions; ++i) tensor.shape.push_back(reader.take<std::uint64_t>());
  std::ranges::reverse(tensor.shape);
  const auto number = reader.take<std::uint32_t>();
  const auto type = std::ranges::find(kGgufTypes, number, &GgufType::number);
  if (type == kGgufTypes.end()) refuse(fmt::format("has the type {}", number), "a type that the format names");
  tensor.type = *type;
  if (tensor.shape.back() % type->block != 0) {
    refuse(fmt::format("has rows of {} elements", tensor.shape.back()),
           fmt::format("rows of whole blocks: {} elements of {}", type->block, type->name));
  }
  std::uint64_t bytes = type->bytes;
  bool fits = true;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const std::uint64_t size = i + 1 == tensor.shape.size() ? tensor.shape[i] / type->block : tensor.shape[i];
    fits = fits && !__builtin_mul_overflow(bytes, size, &bytes);
  }
  tensor.begin = reader.take<std::uint64_t>();
  if (!fits || __builtin_add_overflow(tensor.begin, bytes, &tensor.end)) {
    refuse("has more than 2^64 bytes", "a tensor that fits the file");
  }
  return tensor;
}

/// Refuses tensors that aren't aligned, reach beyond the file or overlap.
void expect_places(const HeaderReader& reader, const std::vector<GgufTensor>& tensors, std::uint64_t alignment,
                   std::uint64_t bytes) {
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, [](const GgufTensor* a, const GgufTensor* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  std::uint64_t covered = 0;
  for (const GgufTensor* tensor : order) {
    const auto refuse = [&](const std::string& found, const std::string& expected) {
      reader.refuse(fmt::format("tensor '{}' {}", tensor->name, found), expected);
    };
    if (tensor->begin % alignment != 0) {
      refuse(fmt::format("begins at byte {} of the data", tensor->begin), fmt::format("multiples of {}", alignment));
    }
    if (tensor->end > bytes) {
      refuse(fmt::format("ends at byte {} of the data", tensor->end),
             fmt::format("at most {}, which the file has: is it complete?", bytes));
    }
    if (tensor->begin < covered) {
      refuse(fmt::format("begins at byte {} of the data", tensor->begin),
             fmt::format("at least {}, where the one before it ends: no overlap", covered));
    }
    covered = tensor->end;
  }
}

std::string shown_value(const GgufValue& value) {
  const auto list = [](const auto& items) { return fmt::format("a list of {}", items.size()); };
  return std::visit(
      Overloaded{[](bool flag) { return std::string(flag ? "true" : "false"); },
                 [](std::int64_t number) { return std::to_string(number); },
                 [](double number) { return fmt::format("{}", number); }, [](const std::string& text) { return text; },
                 [&](const std::vector<std::int64_t>& items) { return list(items); },
                 [&](const std::vector<double>& items) { return list(items); },
                 [&](const std::vector<std::string>& items) { return list(items); }},
      value);
}

}  // namespace

std::span<const GgufType> gguf_types() {
  return kGgufTypes;
}

const GgufType& gguf_type(std::string_view name) {
  const auto found = std::ranges::find(kGgufTypes, name, &GgufType::name);
  if (found == kGgufTypes.end()) throw std::invalid_argument("gguf_type: " + std::string(name));
  return *found;
}

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path) {
  constexpr std::uint64_t kLeastTensor = 8 + 4 + 8 + 4 + 8, kLeastEntry = 8 + 4 + 1;
  HeaderReader reader(file_);
  expect_version(reader);
  const std::uint64_t tensors = reader.count(kLeastTensor, "the number of tensors");
  const std::uint64_t entries = reader.count(kLeastEntry, "the number of keys");
  for (std::uint64_t i = 0; i < entries; ++i) {
    std::string key = reader.text("a key");
    GgufValue value = value_of(reader, key);
    if (metadata_.contains(key)) reader.refuse(fmt::format("{} comes twice", key), "each key once");
    metadata_.emplace(std::move(key), std::move(value));
  }
  for (std::uint64_t i = 0; i < tensors; ++i) tensors_.push_back(tensor_of(reader));
  std::uint64_t alignment = kGgufAlignment;
  if (has("general.alignment")) {
    alignment = static_cast<std::uint64_t>(integer("general.alignment", 1, kLargestAlignment));
    if (!std::has_single_bit(alignment)) refuse("general.alignment", "a power of two");
  }
  const std::uint64_t data = (reader.at() + alignment - 1) / alignment * alignment;
  expect_places(reader, tensors_, alignment, file_.size() > data ? file_.size() - data : 0);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].begin += data;
    tensors_[i].end += data;
    if (!by_name_.emplace(tensors_[i].name, i).second) {
      reader.refuse(fmt::format("tensor '{}' comes twice", tensors_[i].name), "each tensor once");
    }
  }
}

const GgufTensor* GgufFile::find(std::string_view tensor) const {
  const auto found = by_name_.find(tensor);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

void GgufFile::read_bytes(const GgufTensor& tensor, std::uint64_t first, std::span<std::byte> out) const {
  file_.read(tensor.begin + first, out);
}

void GgufFile::refuse(std::string_view key, std::string_view expected) const {
  const auto found = metadata_.find(key);
  throw UserError(fmt::format("{}: {}", in_quotes(path()),
                              found == metadata_.end() ? fmt::format("has no {}", key)
                                                       : fmt::format("{} is {}", key, shown_value(found->second))),
                  expected, "convert the model again, with llama.cpp's convert_hf_to_gguf.py for example");
}

template <class Value>
const Value& GgufFile::of_kind(std::string_view key, std::string_view kind) const {
  const auto found = metadata_.find(key);
  const Value* value = found == metadata_.end() ? nullptr : std::get_if<Value>(&found->second);
  if (value == nullptr) refuse(key, kind);
  return *value;
}

std::int64_t GgufFile::integer(std::string_view key, std::int64_t least, std::int64_t most) const {
  const std::string expected = fmt::format("an integer from {} to {}", least, most);
  const auto value = of_kind<std::int64_t>(key, expected);
  if (value < least || value > most) refuse(key, expected);
  return value;
}

double GgufFile::number(std::string_view key) const {
  return of_kind<double>(key, "a number");
}

bool GgufFile::flag(std::string_view key) const {
  return of_kind<bool>(key, "true or false");
}

const std::string& GgufFile::text(std::string_view key) const {
  return of_kind<std::string>(key, "a text");
}

const std::vector<std::string>& GgufFile::texts(std::string_view key) const {
  return of_kind<std::vector<std::string>>(key, "a list of texts");
}

const std::vector<std::int64_t>& GgufFile::integers(std::string_view key) const {
  return of_kind<std::vector<std::int64_t>>(key, "a list of integers");
}

const std::vector<double>& GgufFile::numbers(std::string_view key) const {
  return of_kind<std::vector<double>>(key, "a list of numbers");
}

bool is_gguf(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  try {
    const InputFile file(path);
    std::array<char, kGgufMagic.size()> magic = {};
    if (file.size() < magic.size()) return false;
    file.read(0, std::as_writable_bytes(std::span(magic)));
    return std::string_view(magic.data(), magic.size()) == kGgufMagic;
  } catch (const std::runtime_error&) {
    return false;  // a file that can't be read is refused where it is opened
  }
}

}  // namespace weft
