// The parameters of a model's adapters, beside those that they change.
#pragma once

#include <string>
#include <vector>

#include "ops/model_config.h"

namespace weft::ops {

/// The modules whose rows a tensor holds that stores a part of `weight`; none: it can't have an adapter. GPT-2 stores
/// queries, keys and values together, which then have one adapter.
LoraModules modules_of(const ModelConfig& model, const ParameterSpec& weight, const StoredTensor& stored);

/// Throws UserError on adapters that the model can't have.
void validate_lora(const ModelConfig& model);

/// Freezes all parameters and adds those of the adapters. Of each matrix, tensors whose adapters have one rank and one
/// scale share A and B: A holds `rank` rows for each of them, B their rows of the matrix. A is followed by its B.
void add_adapters(const ModelConfig& model, std::vector<ParameterSpec>& list);

}  // namespace weft::ops
