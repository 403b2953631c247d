#include "train/checkpoint/hf_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace weft::train {
namespace {

using ops::Family;

/// Other model types, each with a part that Weft doesn't compute, so that the error names this reason instead of a
/// tensor.
struct ForeignType {
  std::string_view type, part;
};
constexpr std::string_view kSharedExpert = "a shared expert beside a mixture of experts";
constexpr std::string_view kParallel = "parallel attention and MLP, and rotation of a part of each head";
constexpr std::array kForeignTypes = {
    ForeignType{"qwen2_moe", kSharedExpert},
    ForeignType{"qwen3_next", "linear attention, and a shared expert beside a mixture of experts"},
    ForeignType{"deepseek_v2", "latent attention and a mixture of experts"},
    ForeignType{"deepseek_v3", "latent attention and a mixture of experts"},
    ForeignType{"dots1", kSharedExpert},
    ForeignType{"glm4_moe", kSharedExpert},
    ForeignType{"gpt_oss", "sinks of attention, and biases in a mixture of experts"},
    ForeignType{"llama4_text", kSharedExpert},
    ForeignType{"olmoe", "norms of Q and K over all columns beside a mixture of experts"},
    ForeignType{"phimoe", "LayerNorm beside a mixture of experts"},
    ForeignType{"gemma2", "capped scores of attention and capped logits"},
    ForeignType{"gemma3", "an encoder of images; its model of text is gemma3_text"},
    ForeignType{"granitemoe", "factors beside a mixture of experts"},
    ForeignType{"phi", kParallel},
    ForeignType{"gpt_neox", kParallel},
    ForeignType{"gptj", kParallel},
    ForeignType{"gpt_neo", "windows of local attention"},
    ForeignType{"falcon", "parallel attention and MLP"},
    ForeignType{"cohere", "parallel attention and MLP, and a factor of the logits"},
    ForeignType{"opt", "ReLU and positions counted from 2"},
    ForeignType{"bloom", "ALiBi positions"},
    ForeignType{"mpt", "ALiBi positions"},
    ForeignType{"stablelm", "LayerNorm, and rotation of a part of each head"},
    ForeignType{"starcoder2", "LayerNorm and biases with rotary positions"},
    ForeignType{"olmo", "norms without weights"},
};

std::string one_of(std::string_view first, std::string_view HfType::*name) {
  std::string names(first);
  for (const HfType& type : hf_types()) {
    names += fmt::format("{}{}", &type == &hf_types().back() ? " or " : ", ", type.*name);
  }
  return names;
}

}  // namespace

ops::QueryKeyNorm HfType::query_key_norm() const {
  return type == "qwen3" ? ops::QueryKeyNorm::heads : ops::parts_of(family).query_key_norm;
}

std::span<const HfType> hf_types() {
  using enum HfWindows;
  // Numbers from the classes' configurations in transformers.
  constexpr HfExperts kMixtral{"num_local_experts", 8, 2}, kQwen3Moe{"num_experts", 128, 8, 768};
  static constexpr HfType kTypes[] = {
      {"llama", "LlamaForCausalLM", Family::llama, 2048, 0, 0, 0, 0, 1e-6F, 1e4F, 0, false, true, true, none, false},
      {"mistral", "MistralForCausalLM", Family::llama, 131072, 8, 0, 4096, 0, 1e-6F, 1e4F, 0, false, false, false,
       everywhere, false},
      {"ministral", "MinistralForCausalLM", Family::llama, 131072, 8, 0, 4096, 0, 1e-6F, 1e4F, 0, false, false, false,
       listed, false},
      {"qwen2", "Qwen2ForCausalLM", Family::llama, 32768, 32, 0, 4096, 0, 1e-6F, 1e4F, 0, false, false, false, switched,
       false},
      {"qwen3", "Qwen3ForCausalLM", Family::llama, 32768, 32, 128, 4096, 0, 1e-6F, 1e4F, 0, false, true, false,
       switched, false},
      {"phi3", "Phi3ForCausalLM", Family::phi3, 4096, 0, 0, 0, 0, 1e-5F, 1e4F, 0, false, false, false, everywhere,
       false},
      {"smollm3", "SmolLM3ForCausalLM", Family::smollm3, 32768, 4, 0, 0, 0, 1e-6F, 2e6F, 0, true, true, true, unrotated,
       false},
      {"granite", "GraniteForCausalLM", Family::granite, 2048, 0, 0, 0, 0, 1e-6F, 1e4F, 0, false, true, true, none,
       false},
      {"olmo2", "Olmo2ForCausalLM", Family::olmo2, 2048, 0, 0, 0, 0, 1e-5F, 1e4F, 0, false, true, false, none, false},
      {"olmo3", "Olmo3ForCausalLM", Family::olmo3, 2048, 0, 0, 4096, 4, 1e-5F, 5e5F, 5e5F, false, true, false, listed,
       false},
      {"gemma", "GemmaForCausalLM", Family::gemma, 8192, 16, 256, 0, 0, 1e-6F, 1e4F, 0, true, true, false, none, false},
      {"gemma3_text", "Gemma3ForCausalLM", Family::gemma3, 131072, 4, 256, 4096, 6, 1e-6F, 1e6F, 1e4F, true, true,
       false, listed, true},
      {"mixtral", "MixtralForCausalLM", Family::mixtral, 131072, 8, 0, 0, 0, 1e-5F, 1e6F, 0, false, false, false,
       everywhere, false, kMixtral},
      {"qwen3_moe", "Qwen3MoeForCausalLM", Family::qwen3_moe, 32768, 4, 0, 4096, 0, 1e-6F, 1e4F, 0, false, true, false,
       switched_everywhere, false, kQwen3Moe},
  };
  return kTypes;
}

const HfType& hf_type_of(const ops::ModelConfig& model) {
  using enum HfWindows;
  const auto computes = [&](const HfType& type) {
    if (type.family != model.family || type.query_key_norm() != model.query_key_norm()) return false;
    if (model.family != Family::llama) return true;
    const bool only_qkv = model.qkv_bias && !model.out_bias;
    if (only_qkv || type.type == "qwen2") return only_qkv && type.type == "qwen2";
    const bool some_layers = model.window_from > 0 || !model.full_layers.empty();
    return type.windows == switched || type.windows == (model.window == 0 ? none : some_layers ? listed : everywhere);
  };
  return *std::ranges::find_if(hf_types(), computes);
}

std::string hf_type_names() {
  return one_of("gpt2", &HfType::type);
}

std::string hf_class_names() {
  return one_of("GPT2LMHeadModel", &HfType::architecture);
}

std::string_view foreign_part(std::string_view type) {
  const auto found = std::ranges::find(kForeignTypes, type, &ForeignType::type);
  return found == kForeignTypes.end() ? std::string_view() : found->part;
}

}  // namespace weft::train
