// Copies parts of tensors in files to the arrays of a rank.
#pragma once

#include "base/dtype.h"
#include "train/checkpoint/parameter_state.h"
#include "train/checkpoint/safetensors.h"

namespace weft::train {

/// The elements of a region, as a tensor of a file holds them: row-major, or, if `transposed`, all of its block
/// column by column (GPT-2's Conv1D matrices).
struct TensorSource {
  const SafetensorsFile* file = nullptr;
  const StoredTensorInfo* tensor = nullptr;
  Region region;
  bool transposed = false;
};

/// A tensor that holds all of `piece`, one of spec.stored. Throws UserError, naming file and tensor, on another shape
/// than stored_shape().
TensorSource whole_source(const SafetensorsFile& file, const StoredTensorInfo& tensor, const ops::ParameterSpec& spec,
                          const ops::StoredTensor& piece);

/// Copies the elements that the source and the piece have in common into the piece's array, converted to its `dtype`,
/// f32 or bf16 (rounded to nearest even). Reads no others from the file.
void copy(const TensorSource& source, const ParameterPiece& piece, DType dtype, void* array);

/// The same for the pieces of an array that belong to `stored`, a part of which is the source.
void copy(const TensorSource& source, const ops::StoredTensor& stored, std::span<const ParameterPiece> pieces,
          DType dtype, void* array);

}  // namespace weft::train
