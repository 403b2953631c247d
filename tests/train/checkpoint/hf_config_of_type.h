// Configs of small models of any type, for tests of their readers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "train/checkpoint/hf_config.h"

namespace weft::testing {

/// Four layers, a context of 64, and the given keys.
inline nlohmann::json config_of_type(const std::string& type, const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json config = {{"model_type", type},       {"vocab_size", 97},       {"hidden_size", 48},
                           {"intermediate_size", 60},  {"num_hidden_layers", 4}, {"num_attention_heads", 4},
                           {"num_key_value_heads", 2}, {"head_dim", 12},         {"max_position_embeddings", 64}};
  config.update(more);
  return config;
}

inline ops::ModelConfig model_of(const nlohmann::json& config) {
  return train::read_hf_config(config.dump(), "config.json").model;
}

}  // namespace weft::testing
