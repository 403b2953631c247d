// A parameter with its optimizer state as arrays of the host, and the way from Weft's matrices to stored tensors and
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "ops/models/model_config.h"
#include "train/safetensors.h"

namespace weft {

/// What a checkpoint keeps of one parameter: rows × cols elements each, row-major, as Weft holds them. `data` is of
/// `dtype` (f32 or bf16). `m` and `v` are AdamW's moments; `master` is the fp32 copy of a bf16 parameter, else nullptr.
struct ParameterState {
  const ParameterSpec* spec = nullptr;
  DType dtype = DType::f32;
  const void* data = nullptr;
  const float* m = nullptr;
  const float* v = nullptr;
  const float* master = nullptr;
};

/// The same arrays, to be filled.
struct MutableParameterState {
  const ParameterSpec* spec = nullptr;
  DType dtype = DType::f32;
  void* data = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  float* master = nullptr;
};

/// The shape of `piece`, one of spec.stored, in files: [rows, cols], or [cols, rows] when transposed; a vector's
/// [cols].
std::vector<std::uint64_t> stored_shape(const ParameterSpec& spec, const StoredTensor& piece);

/// The elements of `piece` in the stored layout, out of the parameter's array `data`; transposed ones lie in `scratch`.
std::span<const std::byte> pack(const ParameterSpec& spec, const StoredTensor& piece, DType dtype, const void* data,
                                std::vector<std::byte>& scratch);

/// Copies `tensor` of `file`, which holds `piece`, into the parameter's array `data`, converted to `dtype` (to bf16:
/// rounded to nearest even). Throws UserError, naming file and tensor, on another shape than stored_shape().
void unpack(const SafetensorsFile& file, const StoredTensorInfo& tensor, const ParameterSpec& spec,
            const StoredTensor& piece, DType dtype, void* data);

}  // namespace weft
