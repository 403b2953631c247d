// The sizes of a transformer, and the list of its parameters with their layouts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::ops {

enum class Family : std::uint8_t { gpt2, llama };

std::string_view to_string(Family family);

/// gpt2: learned positions, LayerNorm, GELU-tanh, biases, tied head.
/// llama: RoPE (half split), RMSNorm, SwiGLU, grouped-query attention, no biases, tied or untied head.
struct ModelConfig {
  std::string name = "custom";
  Family family = Family::gpt2;
  std::int64_t layers = 4, hidden = 256, heads = 8, kv_heads = 8, ffn = 1024, vocab = 257;
  std::int64_t context = 256;  // the longest sequence that has positions
  bool tied = true;            // the LM head is the token embedding
  float norm_eps = 1e-5F;
  float init_std = 0.02F;
  // RoPE; scaling_factor 1: no llama3 scaling
  float rope_theta = 10000.0F, rope_scaling_factor = 1.0F, rope_low_freq_factor = 1.0F, rope_high_freq_factor = 4.0F,
        rope_original_context = 8192.0F;

  std::int64_t head_dim() const { return hidden / heads; }
  /// Number of stored parameters; a tied head counts once.
  std::int64_t parameters() const;
  /// Floating-point operations of one training token (forward and backward): 6N + 6·layers·hidden·seq_len, where N
  /// includes positions and attention counts its causal half (llm.c's formula).
  double train_flops_per_token(std::int64_t seq_len) const;
};

/// The names that --model accepts: tiny, small, llama-tiny (bytes), gpt2-124m, llama-1b, …
std::vector<std::string> model_names();

/// Throws UserError that names the nearest model.
ModelConfig model_by_name(std::string_view name);

/// Throws UserError on sizes that can't be a model: heads that don't divide the hidden size, nonpositive sizes, odd
/// head sizes with RoPE, numbers out of range.
void validate(const ModelConfig& model);

/// A tensor of the Hugging Face layout that stores a parameter's rows [row_begin, row_begin + rows). `transposed`:
/// stored [cols, rows] (GPT-2's Conv1D matrices).
struct StoredTensor {
  std::string name;
  std::int64_t row_begin = 0, rows = 0;
  bool transposed = false;
};

enum class Init : std::uint8_t { normal, zeros, ones };

/// A parameter in Weft's layout: a matrix [out, in] or a vector [cols] (rows = 1, matrix = false).
struct ParameterSpec {
  std::string name;  // "L3.attn.qkv.weight": the state tensor's name
  std::int64_t rows = 1, cols = 0;
  bool matrix = false;  // ≥ 2 dimensions: weight decay applies
  Init init = Init::zeros;
  float std = 0.0F;
  std::uint32_t site = 0;  // Philox site of its initial values: its index in the list of parameters
  std::vector<StoredTensor> stored;
};

/// The parameters in the order of the forward pass. Packed matrices (QKV; gate and up) name the tensors that store
/// them. Names of gpt2 follow Hugging Face's GPT2LMHeadModel without the "transformer." prefix, those of llama
/// LlamaForCausalLM.
std::vector<ParameterSpec> model_parameters(const ModelConfig& model);

}  // namespace weft::ops
