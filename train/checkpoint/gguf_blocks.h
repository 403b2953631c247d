// The values of GGUF's blocks, to the bit as the package `gguf` computes them: products and differences in fp32, one
// after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/files/gguf_file.h"

namespace weft::train {

/// Whether dequantize() knows the values of a type.
bool is_readable(const GgufType& type);
/// "F32, F16, …", for messages.
std::string readable_gguf_types();

/// Whole blocks; `out` has as many elements as they hold. The type must be readable.
void dequantize(const GgufType& type, std::span<const std::byte> blocks, std::span<float> out);

/// F32, F16, BF16 or Q8_0, the types that Weft writes; std::invalid_argument for others. `blocks` has the bytes of
/// whole blocks.
void quantize(const GgufType& type, std::span<const float> values, std::span<std::byte> blocks);

/// Elements [first, first + out.size()) of a tensor, which has them, from the blocks that hold them. Throws UserError,
/// naming file and tensor, if its type isn't readable.
void read_elements(const GgufFile& file, const GgufTensor& tensor, std::uint64_t first, std::span<float> out);

}  // namespace weft::train
