// Layouts of blocks: ggml-org/ggml, ggml-common.h. The order of operations is that of gguf-py's quants.py.
#include "train/checkpoint/gguf_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/half.h"

namespace weft::train {
namespace {

/// One block, byte by byte.
class BlockBytes {
 public:
  explicit BlockBytes(const std::byte* bytes) : bytes_(bytes) {}

  int at(std::size_t index) const { return std::to_integer<int>(bytes_[index]); }
  int signed_at(std::size_t index) const { return static_cast<std::int8_t>(at(index)); }
  float half(std::size_t index) const {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes_ + index, sizeof bits);
    return half_to_float(bits);
  }

 private:
  const std::byte* bytes_;
};

void block_f32(const std::byte* bytes, float* out) {
  std::memcpy(out, bytes, sizeof *out);
}

void block_f16(const std::byte* bytes, float* out) {
  *out = BlockBytes(bytes).half(0);
}

void block_bf16(const std::byte* bytes, float* out) {
  bf16 value;
  std::memcpy(&value.bits, bytes, sizeof value.bits);
  *out = static_cast<float>(value);
}

void block_q8_0(const std::byte* bytes, float* out) {
  const BlockBytes block(bytes);
  const float scale = block.half(0);
  for (std::size_t i = 0; i < 32; ++i) out[i] = static_cast<float>(block.signed_at(2 + i)) * scale;
}

/// Two values of four bits a byte: the first half of the block is in the low bits.
void block_q4_0(const std::byte* bytes, float* out) {
  const BlockBytes block(bytes);
  const float scale = block.half(0);
  for (std::size_t i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((block.at(2 + i) & 15) - 8);
    out[16 + i] = scale * static_cast<float>((block.at(2 + i) >> 4) - 8);
  }
}

void block_q4_1(const std::byte* bytes, float* out) {
  const BlockBytes block(bytes);
  const float scale = block.half(0), least = block.half(2);
  for (std::size_t i = 0; i < 16; ++i) {
    const float low = scale * static_cast<float>(block.at(4 + i) & 15);
    const float high = scale * static_cast<float>(block.at(4 + i) >> 4);
    out[i] = low + least;
    out[16 + i] = high + least;
  }
}

/// Scale and minimum of the eight parts of a block of Q4_K or Q5_K: 6 bits each, in 12 bytes from `at` on.
struct PartScales {
  int scale, least;
};
PartScales part_scales(const BlockBytes& block, std::size_t at, std::size_t part) {
  if (part < 4) return {block.at(at + part) & 63, block.at(at + 4 + part) & 63};
  const int low = block.at(at + 4 + part);
  return {(low & 15) | ((block.at(at + part - 4) >> 2) & 48), (low >> 4) | ((block.at(at + part) >> 2) & 48)};
}

/// `fifth`: where the fifth bits of values are, 0: none; `low`: where their other bits are.
void block_k(const std::byte* bytes, std::size_t fifth, std::size_t low, float* out) {
  const BlockBytes block(bytes);
  const float scales = block.half(0), leasts = block.half(2);
  for (std::size_t part = 0; part < 8; ++part) {
    const PartScales found = part_scales(block, 4, part);
    const float scale = scales * static_cast<float>(found.scale), least = leasts * static_cast<float>(found.least);
    for (std::size_t i = 0; i < 32; ++i) {
      const int byte = block.at(low + part / 2 * 32 + i);
      int value = part % 2 == 0 ? byte & 15 : byte >> 4;
      if (fifth != 0) value |= (block.at(fifth + i) >> part & 1) << 4;
      const float product = scale * static_cast<float>(value);
      out[part * 32 + i] = product - least;
    }
  }
}

void block_q4_k(const std::byte* bytes, float* out) {
  block_k(bytes, 0, 16, out);
}

void block_q5_k(const std::byte* bytes, float* out) {
  block_k(bytes, 16, 48, out);
}

/// Each half of the block: 64 bytes of low bits, 32 bytes of upper bits, eight scales of 16 values.
void block_q6_k(const std::byte* bytes, float* out) {
  constexpr std::size_t kUpper = 128, kScales = 192, kScale = 208;
  const BlockBytes block(bytes);
  const float scales = block.half(kScale);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128, quarter = i / 32 % 4, lane = i % 32;
    const int low = block.at(half * 64 + quarter % 2 * 32 + lane) >> (quarter / 2 * 4) & 15;
    const int upper = block.at(kUpper + half * 32 + lane) >> (quarter * 2) & 3;
    const float scale = scales * static_cast<float>(block.signed_at(kScales + i / 16));
    out[i] = scale * static_cast<float>((low | upper << 4) - 32);
  }
}

struct BlockReader {
  std::string_view type;
  void (*read)(const std::byte* bytes, float* out);
};
constexpr std::array kBlockReaders = {
    BlockReader{"F32", block_f32},   BlockReader{"F16", block_f16},   BlockReader{"BF16", block_bf16},
    BlockReader{"Q8_0", block_q8_0}, BlockReader{"Q4_0", block_q4_0}, BlockReader{"Q4_1", block_q4_1},
    BlockReader{"Q4_K", block_q4_k}, BlockReader{"Q5_K", block_q5_k}, BlockReader{"Q6_K", block_q6_k},
};

/// Rounds to the nearest integer, halves away from zero, from the fraction in fp32: as gguf-py's np_roundf.
std::int8_t rounded_byte(float value) {
  if (!std::isfinite(value)) return 0;
  const float magnitude = std::fabs(value), whole = std::floor(magnitude);
  const float nearest = whole + std::floor(2 * (magnitude - whole));
  return static_cast<std::int8_t>(std::clamp(value < 0 ? -nearest : nearest, -128.0F, 127.0F));
}

void quantize_q8_0(const float* values, std::byte* block) {
  float most = 0;
  for (std::size_t i = 0; i < 32; ++i) most = std::max(most, std::fabs(values[i]));
  const float scale = most / 127, inverse = scale == 0 ? 0 : 1 / scale;
  const std::uint16_t half = float_to_half(scale);
  std::memcpy(block, &half, sizeof half);
  for (std::size_t i = 0; i < 32; ++i) block[2 + i] = static_cast<std::byte>(rounded_byte(values[i] * inverse));
}

}  // namespace

bool is_readable(const GgufType& type) {
  return std::ranges::find(kBlockReaders, type.name, &BlockReader::type) != kBlockReaders.end();
}

std::string readable_gguf_types() {
  std::vector<std::string> names;
  for (const BlockReader& reader : kBlockReaders) names.emplace_back(reader.type);
  return join(names);
}

void dequantize(const GgufType& type, std::span<const std::byte> blocks, std::span<float> out) {
  const auto reader = std::ranges::find(kBlockReaders, type.name, &BlockReader::type);
  if (reader == kBlockReaders.end() || out.size() % type.block != 0 ||
      blocks.size() != out.size() / type.block * type.bytes) {
    throw std::invalid_argument("dequantize: whole blocks of a readable type");
  }
  for (std::size_t i = 0; i * type.block < out.size(); ++i) {
    reader->read(blocks.data() + i * type.bytes, out.data() + i * type.block);
  }
}

void quantize(const GgufType& type, std::span<const float> values, std::span<std::byte> blocks) {
  if (values.size() % type.block != 0 || blocks.size() != values.size() / type.block * type.bytes) {
    throw std::invalid_argument("quantize: whole blocks");
  }
  if (type.name == "F32") {
    std::memcpy(blocks.data(), values.data(), blocks.size());
  } else if (type.name == "F16" || type.name == "BF16") {
    const bool half = type.name == "F16";
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t bits = half ? float_to_half(values[i]) : bf16(values[i]).bits;
      std::memcpy(blocks.data() + i * sizeof bits, &bits, sizeof bits);
    }
  } else if (type.name == "Q8_0") {
    for (std::size_t i = 0; i * 32 < values.size(); ++i) {
      quantize_q8_0(values.data() + i * 32, blocks.data() + i * type.bytes);
    }
  } else {
    throw std::invalid_argument("quantize: F32, F16, BF16 or Q8_0");
  }
}

void read_elements(const GgufFile& file, const GgufTensor& tensor, std::uint64_t first, std::span<float> out) {
  const GgufType& type = tensor.type;
  if (!is_readable(type)) {
    throw UserError(fmt::format("{}: tensor '{}' has the type {}", in_quotes(file.path()), tensor.name, type.name),
                    readable_gguf_types(), "give a file of the model with other types, such as Q8_0 or Q4_K_M");
  }
  if (first > tensor.elements() || out.size() > tensor.elements() - first) {
    throw std::invalid_argument("read_elements: elements that the tensor has");
  }
  if (type.name == "F32") {
    return file.read_bytes(tensor, first * sizeof(float), std::as_writable_bytes(out));
  }
  constexpr std::uint64_t kElements = 4096;  // a multiple of all blocks
  std::array<std::byte, kElements * sizeof(float)> bytes;
  std::array<float, kElements> values;
  while (!out.empty()) {
    const std::uint64_t skipped = first % type.block;
    const std::uint64_t wanted = std::min<std::uint64_t>(out.size(), kElements - skipped);
    const std::uint64_t blocks = (skipped + wanted + type.block - 1) / type.block;
    const auto read = std::span(bytes).first(blocks * type.bytes);
    file.read_bytes(tensor, first / type.block * type.bytes, read);
    const auto made = std::span(values).first(blocks * type.block);
    dequantize(type, read, made);
    std::ranges::copy(made.subspan(skipped, wanted), out.begin());
    first += wanted;
    out = out.subspan(wanted);
  }
}

}  // namespace weft::train
