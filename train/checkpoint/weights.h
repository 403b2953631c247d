// Weights in Hugging Face's layout: reads a safetensors file or folder, writes a folder that other programs load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/durable_file.h"
#include "ops/model_config.h"
#include "train/checkpoint/hf_config.h"
#include "train/checkpoint/parameter_state.h"
#include "train/checkpoint/safetensors.h"

namespace weft::train {

/// The files of weights at `path`, see load_weights(). Throws UserError.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& path);

/// The tensors that store parameters' parts; the files have to stay open.
using TensorSources = std::map<const ops::StoredTensor*, TensorSource>;

/// Fills `data` and `master` of a parameter from the sources of its parts.
void read_from(const TensorSources& sources, const ParameterState& parameter);

/// Reads `data`, and `master` where there is one, of parameters. `path`: a .safetensors file, or a folder with
/// model.safetensors or model.safetensors.index.json and its shards (a checkpoint of Weft is one of the former), or a
/// GGUF file (see open_gguf_weights()).
/// Accepts variants of Hugging Face's files: a "transformer." prefix in gpt2, a missing "model." in llama, attention
/// masks and rotary frequencies, an lm_head.weight equal to the embedding where `model` ties them, and experts apart or
/// stacked as transformers 5 has them in memory. Throws UserError
/// at once, naming the file and the first tensor that is missing, superfluous or of another shape. Of `parameters` only
/// the specs count, which must outlive the reader. `elsewhere`: parameters of the model that other ranks hold.
ParameterReader open_weights(const std::filesystem::path& path, const ops::ModelConfig& model,
                             std::span<const ParameterState> parameters,
                             std::span<const ops::ParameterSpec> elsewhere = {});
/// Fills each parameter.
void load_weights(const std::filesystem::path& path, const ops::ModelConfig& model,
                  std::span<const ParameterState> parameters, std::span<const ops::ParameterSpec> elsewhere = {});

/// The array of a whole parameter that is written next; valid until the next call. Null: `data` of its state.
using ArrayOf = std::function<const void*(const ParameterState& parameter)>;

/// The tensors of a file of weights. They refer to `parameters`, which must outlive them.
std::vector<TensorToWrite> weight_tensors(std::span<const ParameterState> parameters, const ArrayOf& array_of = {});

/// The tensors by file: in their order, as many in a file as it may hold, but at least one.
std::vector<std::vector<TensorToWrite>> weight_shards(std::span<const ParameterState> parameters,
                                                      std::uint64_t shard_bytes, const ArrayOf& array_of = {});

/// Writes config.json and model.safetensors into the existing `folder` and returns their summaries; all parameters must
/// have one dtype. Tensors of more than `shard_bytes` together are written as model-00001-of-0000N.safetensors … and
/// model.safetensors.index.json, as transformers does. Doesn't read m, v and master. `ends`: see hf_config_json().
/// Throws RuntimeFault if the disk does.
std::map<std::string, FileSummary> save_weights(const std::filesystem::path& folder, const ops::ModelConfig& model,
                                                std::span<const ParameterState> parameters,
                                                std::uint64_t shard_bytes = std::numeric_limits<std::uint64_t>::max(),
                                                const std::optional<TextEnds>& ends = {}, const ArrayOf& array_of = {});

}  // namespace weft::train
