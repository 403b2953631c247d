#include "ops/family.h"

#include <algorithm>

namespace weft::ops {
namespace {

constexpr StoredNames kGpt2Names = {.prefix = "transformer.",
                                    .embedding = "wte",
                                    .positions = "wpe",
                                    .layers = "h",
                                    .final_norm = "ln_f",
                                    .norm1 = "ln_1",
                                    .post1 = "",
                                    .norm2 = "ln_2",
                                    .post2 = "",
                                    .qkv = {"attn.c_attn"},
                                    .up = {"mlp.c_fc"},
                                    .out = "attn.c_proj",
                                    .down = "mlp.c_proj",
                                    .transposed = true};
constexpr StoredNames kLlamaNames = {.prefix = "",
                                     .embedding = "model.embed_tokens",
                                     .positions = "",
                                     .layers = "model.layers",
                                     .final_norm = "model.norm",
                                     .norm1 = "input_layernorm",
                                     .post1 = "",
                                     .norm2 = "post_attention_layernorm",
                                     .post2 = "",
                                     .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                                     .up = {"mlp.gate_proj", "mlp.up_proj"},
                                     .out = "self_attn.o_proj",
                                     .down = "mlp.down_proj"};

constexpr StoredNames together() {
  StoredNames names = kLlamaNames;
  names.qkv = {"self_attn.qkv_proj"};
  names.up = {"mlp.gate_up_proj"};
  return names;
}
constexpr StoredNames with_norms(std::string_view norm1, std::string_view norm2) {
  StoredNames names = kLlamaNames;
  names.norm1 = norm1;
  names.post1 = "post_attention_layernorm";
  names.norm2 = norm2;
  names.post2 = "post_feedforward_layernorm";
  return names;
}
constexpr StoredNames with_experts(std::string_view router, std::string_view experts,
                                   std::array<std::string_view, 3> expert) {
  StoredNames names = kLlamaNames;
  names.router = router;
  names.experts = experts;
  names.expert = expert;
  return names;
}
constexpr StoredNames kPhi3Names = together(), kOlmoNames = with_norms("", ""),
                      kGemmaNames = with_norms("input_layernorm", "pre_feedforward_layernorm"),
                      kMixtralNames =
                          with_experts("block_sparse_moe.gate", "block_sparse_moe.experts", {"w1", "w3", "w2"}),
                      kQwen3MoeNames = with_experts("mlp.gate", "mlp.experts", {"gate_proj", "up_proj", "down_proj"});

constexpr std::string_view kLlamaKeys[] = {"rope-scaling",  "rope-attention-factor",
                                           "rope-truncate", "head-size",
                                           "qkv-bias",      "out-bias",
                                           "mlp-bias",      "qk-norm",
                                           "window",        "window-from",
                                           "full-layers"};
constexpr std::string_view kPhi3Keys[] = {"window"};
constexpr std::string_view kSmolLm3Keys[] = {
    "rope-scaling", "rope-attention-factor", "rope-truncate", "qkv-bias",        "out-bias", "mlp-bias",
    "window",       "window-from",           "full-layers",   "unrotated-layers"};
constexpr std::string_view kGraniteKeys[] = {
    "rope-scaling", "rope-attention-factor", "rope-truncate",   "qkv-bias",       "out-bias",
    "mlp-bias",     "embedding-factor",      "residual-factor", "logits-divisor", "attention-scale"};
constexpr std::string_view kOlmo2Keys[] = {"rope-scaling", "rope-attention-factor", "rope-truncate", "qkv-bias",
                                           "out-bias"};
constexpr std::string_view kOlmo3Keys[] = {
    "rope-scaling", "rope-attention-factor", "rope-truncate", "qkv-bias",        "out-bias",
    "window",       "window-from",           "full-layers",   "rope-local-theta"};
constexpr std::string_view kGemmaKeys[] = {
    "rope-scaling", "rope-attention-factor", "rope-truncate", "head-size", "qkv-bias", "out-bias"};
constexpr std::string_view kGemma3Keys[] = {
    "rope-scaling", "rope-attention-factor", "rope-truncate", "head-size",        "qkv-bias",       "out-bias",
    "window",       "window-from",           "full-layers",   "rope-local-theta", "attention-scale"};
constexpr std::string_view kMixtralKeys[] = {
    "rope-scaling", "rope-attention-factor", "rope-truncate", "head-size", "window", "experts", "experts-per-token"};
constexpr std::string_view kQwen3MoeKeys[] = {
    "rope-scaling", "rope-attention-factor", "rope-truncate", "head-size",         "qkv-bias",    "out-bias", "window",
    "experts",      "experts-per-token",     "expert-ffn",    "normalise-experts", "dense-layers"};

}  // namespace

std::span<const FamilyParts> all_families() {
  using enum NormForm;
  using enum NormPlace;
  using enum Activation;
  constexpr auto kNoNorm = QueryKeyNorm::none, kHeads = QueryKeyNorm::heads, kColumns = QueryKeyNorm::columns;
  static constexpr FamilyParts kRows[] = {
      {Family::gpt2, "gpt2", layer_norm, before, kNoNorm, gelu, true, false, &kGpt2Names, {}},
      {Family::llama, "llama", rms, before, kNoNorm, swiglu, false, false, &kLlamaNames, kLlamaKeys},
      {Family::phi3, "phi3", rms, before, kNoNorm, swiglu, false, false, &kPhi3Names, kPhi3Keys},
      {Family::smollm3, "smollm3", rms, before, kNoNorm, swiglu, false, false, &kLlamaNames, kSmolLm3Keys},
      {Family::granite, "granite", rms, before, kNoNorm, swiglu, false, false, &kLlamaNames, kGraniteKeys},
      {Family::olmo2, "olmo2", rms, after, kColumns, swiglu, false, false, &kOlmoNames, kOlmo2Keys},
      {Family::olmo3, "olmo3", rms, after, kColumns, swiglu, false, false, &kOlmoNames, kOlmo3Keys},
      {Family::gemma, "gemma", rms_of_one_plus, before, kNoNorm, geglu, false, true, &kLlamaNames, kGemmaKeys},
      {Family::gemma3, "gemma3", rms_of_one_plus, around, kHeads, geglu, false, true, &kGemmaNames, kGemma3Keys},
      {Family::mixtral, "mixtral", rms, before, kNoNorm, swiglu, false, false, &kMixtralNames, kMixtralKeys},
      {Family::qwen3_moe, "qwen3_moe", rms, before, kHeads, swiglu, false, false, &kQwen3MoeNames, kQwen3MoeKeys},
  };
  return kRows;
}

const FamilyParts& parts_of(Family family) {
  return all_families()[static_cast<std::size_t>(family)];
}

std::string_view to_string(Family family) {
  return parts_of(family).name;
}

bool FamilyParts::has_key(std::string_view key) const {
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace weft::ops
