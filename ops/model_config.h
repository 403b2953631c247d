// The sizes of a transformer, and the list of its parameters with their layouts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/operations/embedding.h"
#include "ops/family.h"
#include "ops/layer_set.h"
#include "ops/lora_config.h"

namespace weft::ops {

/// How rotary frequencies follow from the base when rope_scaling_factor isn't 1. A pair of elements turns t times
/// within the original context.
///   llama3: t below low_freq_factor: divided by the factor; t above high_freq_factor: kept; a blend between them
///   linear: all are divided by the factor
///   yarn: as llama3 with bounds in elements instead of turns, and queries and keys are scaled (attention factor)
using graph::RopeKind;

/// A family's parts are in its row (ops/family.h). Every family has these sizes; the members from `rope_scaling` on are
/// of the families whose rows name their keys, except for `lora`. What Mistral, Ministral, Qwen2 and Qwen3 add to llama
/// is among them.
struct ModelConfig {
  std::string name = "custom";
  Family family = Family::gpt2;
  std::int64_t layers = 4, hidden = 256, heads = 8, kv_heads = 8, ffn = 1024, vocab = 257;
  std::int64_t context = 256;  // the longest sequence that has positions
  bool tied = true;            // the LM head is the token embedding
  float norm_eps = 1e-5F;
  float init_std = 0.02F;
  // RoPE; scaling_factor 1: frequencies aren't scaled
  float rope_theta = 10000.0F, rope_scaling_factor = 1.0F, rope_low_freq_factor = 1.0F, rope_high_freq_factor = 4.0F,
        rope_original_context = 8192.0F;
  RopeKind rope_scaling = RopeKind::llama3;
  float rope_attention_factor = 0.0F;                         // yarn; 0: 0.1·ln(scaling_factor) + 1
  bool rope_truncate = true;                                  // yarn: its bounds are whole elements
  std::int64_t head_size = 0;                                 // columns of a head; 0: hidden / heads
  bool qkv_bias = false, out_bias = false, mlp_bias = false;  // biases of linear layers
  bool qk_norm = false;                                       // llama: RMSNorm of each head's query and key
  std::int64_t window = 0;        // a query sees its own position and the window − 1 before it; 0: all before it
  std::int64_t window_from = 0;   // the first layer with the window
  LayerSet full_layers;           // from there on without the window
  LayerSet unrotated_layers;      // without positions
  float rope_local_theta = 0.0F;  // rotary base of layers with the window, unscaled; 0: as in all others
  float attention_scale = 0.0F;   // factor of attention's scores; 0: 1/√head_dim
  float embedding_factor = 1.0F, residual_factor = 1.0F;  // of embeddings, and of what a branch adds
  float logits_divisor = 1.0F;
  // Experts, of which a router chooses some for each token, in place of an MLP.
  std::int64_t experts = 0, experts_per_token = 2;
  std::int64_t expert_ffn = 0;    // width of an expert; 0: ffn, the width of an MLP
  bool normalise_experts = true;  // the weights of a token's experts add up to 1
  LayerSet dense_layers;          // with an MLP in a model with experts
  LoraConfig lora;

  std::int64_t head_dim() const { return head_size > 0 ? head_size : hidden / heads; }
  /// Columns of all heads' queries, and of all keys.
  std::int64_t query_cols() const { return heads * head_dim(); }
  std::int64_t key_cols() const { return kv_heads * head_dim(); }
  /// The window of a layer; 0: none.
  std::int64_t window_of(std::int64_t layer) const {
    return layer >= window_from && !full_layers.contains(layer) ? window : 0;
  }
  bool has_experts(std::int64_t layer) const { return experts > 0 && !dense_layers.contains(layer); }
  /// The layers with experts.
  std::vector<std::int64_t> expert_layers() const;
  std::int64_t expert_cols() const { return expert_ffn > 0 ? expert_ffn : ffn; }
  const FamilyParts& parts() const { return parts_of(family); }
  bool has_qkv_bias() const { return parts().centered() || qkv_bias; }
  bool has_out_bias() const { return parts().centered() || out_bias; }
  bool has_mlp_bias() const { return parts().centered() || mlp_bias; }
  QueryKeyNorm query_key_norm() const { return qk_norm ? QueryKeyNorm::heads : parts().query_key_norm; }
  bool rotates(std::int64_t layer) const { return !parts().learned_positions && !unrotated_layers.contains(layer); }
  /// The factor of embeddings.
  float embedding_scale() const;
  /// The factor of rotated queries and keys.
  float rotary_factor() const;
  /// Number of stored parameters without adapters; a tied head counts once.
  std::int64_t parameters() const;
  /// Those that a token computes with: of experts the ones that it takes.
  std::int64_t active_parameters() const;
  /// Number of the adapters' parameters.
  std::int64_t adapter_parameters() const;
};

/// A member that only some families have: those whose rows name the key, which stands below "model.".
struct Addition {
  std::string_view key;
  std::variant<bool ModelConfig::*, std::int64_t ModelConfig::*, float ModelConfig::*, RopeKind ModelConfig::*,
               LayerSet ModelConfig::*>
      member;

  bool used(const ModelConfig& model) const;
  /// Makes it the default.
  void drop(ModelConfig& model) const;
};

/// In the order in which files list them.
std::span<const Addition> additions();

/// The names that --model accepts: tiny, small, llama-tiny (bytes), gpt2-124m, llama-1b, …
std::vector<std::string> model_names();

/// Throws UserError that names the nearest model.
ModelConfig model_by_name(std::string_view name);

/// Throws UserError on sizes that can't be a model: heads that don't divide the hidden size, nonpositive sizes, odd
/// head sizes with RoPE, numbers out of range.
void validate(const ModelConfig& model);

/// A tensor of the Hugging Face layout that stores a parameter's rows [row_begin, row_begin + rows), or these elements
/// of a vector. `transposed`: stored [cols, rows] (GPT-2's Conv1D matrices).
struct StoredTensor {
  std::string name;
  std::int64_t row_begin = 0, rows = 0;
  bool transposed = false;
};

enum class Init : std::uint8_t { normal, zeros, ones, uniform };

enum class AdapterSide : std::uint8_t { a, b };

/// The matrix that an adapter changes, and how: by scale · B·A.
struct AdapterPart {
  std::string weight;  // its name: "L3.attn.qkv.weight"
  AdapterSide side = AdapterSide::a;
  std::int64_t rank = 0;
  float scale = 0.0F;
  std::vector<std::int64_t>
      rows;  // for each tensor that stores the adapter, the first row of the matrix that it changes
};

/// A parameter in Weft's layout: a matrix [out, in] or a vector [cols] (rows = 1, matrix = false).
struct ParameterSpec {
  std::string name;  // "L3.attn.qkv.weight": the state tensor's name
  std::int64_t rows = 1, cols = 0;
  bool matrix = false;  // ≥ 2 dimensions: weight decay applies
  Init init = Init::zeros;
  float std = 0.0F;        // of a normal initial value; of a uniform one its bound: in [-std, std)
  std::uint32_t site = 0;  // Philox site of its initial values: its index in the list of parameters
  std::vector<StoredTensor> stored;
  bool frozen = false;  // never updated: it has no gradient and no optimizer state
  std::optional<AdapterPart> adapter = {};
};

/// The share of tokens that a matrix multiplies: of an expert's, those whose router chose it, on average.
double share_of_tokens(const ModelConfig& model, const ParameterSpec& spec);

/// How the names of an adapter's matrices end in files. In Weft they have the name of the layer's with another ending:
/// "L3.attn.qkv.weight", "L3.attn.qkv.lora_A.weight", and "lora_A2" of the matrix's second adapter.
inline constexpr const char* kLoraA = ".lora_A.weight";
inline constexpr const char* kLoraB = ".lora_B.weight";

/// Whether a parameter is a matrix of an adapter.
bool is_adapter(const ParameterSpec& spec);

/// The name of the matrix whose adapter has this one: "L3.attn.qkv.weight".
const std::string& adapted_weight(const ParameterSpec& adapter);

/// The parameters in the order of the forward pass. Packed ones (QKV; gate and up) name the tensors that store them, as
/// the family's row has them. Experts are stacked: "L3.mlp.experts.up.weight" [experts·2·ffn, hidden] has each expert's
/// gate and up in turn, "L3.mlp.experts.down.weight" [experts·hidden, ffn] their matrices down, and
/// "L3.mlp.router.weight" is [experts, hidden]. Adapters follow after all others, which are frozen then. Each tensor
/// that stores rows of an adapted matrix has an adapter of its own, as PEFT has it (see add_adapters()).
std::vector<ParameterSpec> model_parameters(const ModelConfig& model);

}  // namespace weft::ops
