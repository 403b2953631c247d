// A parameter with its optimizer state as arrays of the host, and the conversion to stored tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "ops/model_config.h"
#include "ops/sharding.h"
#include "train/checkpoint/parameter_pieces.h"

namespace weft::train {

/// One rank's arrays of one parameter: rows × cols elements each, row-major, as Weft holds them, or what `shard` says:
/// `data` its elements [begin, end), the others [update_begin, update_end). `data` is of `dtype` (f32 or bf16). `m` and
/// `v` are AdamW's moments, which a frozen parameter lacks; `master` is the fp32 copy of a bf16 parameter and of one
/// that ZeRO-1 cuts, else nullptr.
struct ParameterState {
  const ops::ParameterSpec* spec = nullptr;
  DType dtype = DType::f32;
  const void* data = nullptr;
  const float* m = nullptr;
  const float* v = nullptr;
  const float* master = nullptr;
  const ops::ParameterShard* shard = nullptr;
};

/// The same arrays, to be filled.
struct MutableParameterState {
  const ops::ParameterSpec* spec = nullptr;
  DType dtype = DType::f32;
  void* data = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  float* master = nullptr;
  const ops::ParameterShard* shard = nullptr;
};

/// Elements of `data`, and of each of the other arrays.
template <class State>
std::int64_t kept_elements(const State& parameter) {
  if (parameter.shard != nullptr) return parameter.shard->end - parameter.shard->begin;
  return parameter.spec->rows * parameter.spec->cols;
}
template <class State>
std::int64_t updated_elements(const State& parameter) {
  if (parameter.shard != nullptr) return parameter.shard->update_end - parameter.shard->update_begin;
  return parameter.spec->rows * parameter.spec->cols;
}

/// The pieces of stored tensors in these arrays.
template <class State>
std::vector<ParameterPiece> kept_pieces(const State& parameter) {
  if (parameter.shard == nullptr) return pieces_of(*parameter.spec);
  return pieces_of(*parameter.shard, parameter.shard->begin, parameter.shard->end);
}
template <class State>
std::vector<ParameterPiece> updated_pieces(const State& parameter) {
  if (parameter.shard == nullptr) return pieces_of(*parameter.spec);
  return pieces_of(*parameter.shard, parameter.shard->update_begin, parameter.shard->update_end);
}

/// Sets the padding of a shard's arrays to zero.
void clear_padding(const MutableParameterState& parameter);

/// The shape of `piece`, one of spec.stored, in files: [rows, cols], or [cols, rows] when transposed; a vector's
/// [rows].
std::vector<std::uint64_t> stored_shape(const ops::ParameterSpec& spec, const ops::StoredTensor& piece);

/// The elements of `piece` in the stored layout, out of an array `data` that holds the whole parameter; transposed ones
/// lie in `scratch`.
std::span<const std::byte> pack(const ops::ParameterSpec& spec, const ops::StoredTensor& piece, DType dtype,
                                const void* data, std::vector<std::byte>& scratch);

}  // namespace weft::train
