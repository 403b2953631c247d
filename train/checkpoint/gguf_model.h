// What GGUF calls a model's sizes and tensors: its metadata read as a config.json, and written for a model of Weft.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/gguf_file.h"
#include "base/files/gguf_writer.h"
#include "ops/model_config.h"
#include "train/checkpoint/hf_config.h"

namespace weft::train {

/// The name in GGUF files of a tensor of Hugging Face's layout: "blk.3.attn_q.weight" for
/// "model.layers.3.self_attn.q_proj.weight"; nothing for a tensor that the architectures below don't have.
std::optional<std::string> gguf_tensor_name(std::string_view stored);

/// Whether a file's architecture keeps rows of Q and K in llama.cpp's order: neighbours are rotated together, where
/// Hugging Face rotates row i of a head with row i + half.
bool pairs_neighbours(std::string_view architecture);
/// The row, in that order, of a head's row in Hugging Face's.
std::int64_t neighbour_row(std::int64_t row, std::int64_t head_size);

/// The config.json of the model in a file. Architectures llama (Mistral too), qwen2, qwen3 and gpt2. Throws UserError
/// on another one, on a part of a split model, and on each setting of the architecture that Weft doesn't compute.
std::string gguf_config_json(const GgufFile& file);

/// The model of that config.json, as read_hf_config() reads it. The dtype is bf16 where all matrices are BF16.
HfConfig read_gguf_config(const GgufFile& file);

/// rope_freqs.weight, the factors by which llama3 scaling divides rotary frequencies; empty where the model doesn't
/// scale in this way.
std::vector<float> gguf_rope_factors(const ops::ModelConfig& model);

/// The architecture of a model. Throws UserError where GGUF's metadata can't say all that the model computes.
std::string gguf_architecture(const ops::ModelConfig& model);
/// Adds the architecture and its sizes.
void add_gguf_sizes(const ops::ModelConfig& model, GgufMetadata& metadata);

}  // namespace weft::train
