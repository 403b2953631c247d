// A model's weights in a GGUF file: read into the parameters of a rank, and written.
#pragma once

#include <filesystem>
#include <span>

#include "base/files/durable_file.h"
#include "base/files/gguf_file.h"
#include "base/files/gguf_writer.h"
#include "ops/model_config.h"
#include "train/checkpoint/parameter_state.h"
#include "train/checkpoint/weights.h"

namespace weft::train {

/// As open_weights(), for a GGUF file: of quantized blocks a rank reads those that hold its elements. Throws UserError
/// at once, naming the file and the first tensor that is missing, superfluous, of another shape or of a type that isn't
/// read.
ParameterReader open_gguf_weights(const std::filesystem::path& path, const ops::ModelConfig& model,
                                  std::span<const ParameterState> parameters,
                                  std::span<const ops::ParameterSpec> elsewhere = {});

/// The tensors of a file: matrices in `type`, which is F32, F16, BF16 or Q8_0; vectors, positions and rotary factors in
/// F32, and matrices whose rows aren't whole blocks in F16. `parameters` are a whole model without adapters, and must
/// outlive them. Their bytes throw UserError where a number that isn't finite has no block.
std::vector<GgufTensorToWrite> gguf_tensors(const ops::ModelConfig& model, std::span<const ParameterState> parameters,
                                            const GgufType& type, const ArrayOf& array_of = {});

/// Adds what a file says of itself and its model: general.* and the sizes.
void add_gguf_model(const ops::ModelConfig& model, const GgufType& type, GgufMetadata& metadata);

}  // namespace weft::train
