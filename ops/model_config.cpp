#include "ops/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <ranges>
#include <utility>

#include "base/error.h"
#include "ops/lora_parameters.h"

namespace weft::ops {
namespace {

ModelConfig gpt2(std::string name, std::int64_t layers, std::int64_t heads, std::int64_t hidden) {
  ModelConfig model;
  model.name = std::move(name);
  model.layers = layers;
  model.heads = model.kv_heads = heads;
  model.hidden = hidden;
  model.ffn = 4 * hidden;
  model.vocab = 50257;
  model.context = 1024;
  return model;
}

ModelConfig byte_gpt2(std::string name, std::int64_t layers, std::int64_t heads, std::int64_t hidden,
                      std::int64_t context) {
  ModelConfig model = gpt2(std::move(name), layers, heads, hidden);
  model.vocab = 257;
  model.context = context;
  return model;
}

// Models of the AxoNN paper's scaling study (Singh et al., SC '24).
ModelConfig axonn(std::string name, std::int64_t layers, std::int64_t heads, std::int64_t hidden) {
  ModelConfig model = gpt2(std::move(name), layers, heads, hidden);
  model.vocab = 51200;
  model.context = 2048;
  return model;
}

struct LlamaSizes {
  std::int64_t layers, heads, kv_heads, hidden, ffn, vocab, context;
  bool tied;
  float theta, scaling;
};

ModelConfig llama(std::string name, const LlamaSizes& sizes) {
  ModelConfig model;
  model.name = std::move(name);
  model.family = Family::llama;
  model.layers = sizes.layers;
  model.heads = sizes.heads;
  model.kv_heads = sizes.kv_heads;
  model.hidden = sizes.hidden;
  model.ffn = sizes.ffn;
  model.vocab = sizes.vocab;
  model.context = sizes.context;
  model.tied = sizes.tied;
  model.rope_theta = sizes.theta;
  model.rope_scaling_factor = sizes.scaling;
  return model;
}

ModelConfig with_experts(ModelConfig model, std::int64_t experts) {
  model.family = Family::mixtral;
  model.experts = experts;
  return model;
}

// Sizes from the tables of GPT-2 (Radford et al. 2019), AxoNN's benchmark (320 and 640 billion: as reported elsewhere)
// and the config.json files of the Llama and Mixtral releases. The byte-level models are ours.
const std::vector<ModelConfig>& table() {
  static const std::vector<ModelConfig> models = {
      byte_gpt2("tiny", 4, 8, 256, 128),
      byte_gpt2("small", 6, 6, 384, 256),
      llama("llama-tiny", {4, 8, 2, 256, 704, 257, 128, false, 1e4F, 1.0F}),
      gpt2("gpt2-124m", 12, 12, 768),
      gpt2("gpt2-350m", 24, 16, 1024),
      gpt2("gpt2-774m", 36, 20, 1280),
      gpt2("gpt2-1558m", 48, 25, 1600),
      axonn("gpt-5b", 24, 32, 4096),
      axonn("gpt-10b", 32, 40, 5120),
      axonn("gpt-20b", 32, 56, 7168),
      axonn("gpt-40b", 38, 72, 9216),
      axonn("gpt-60b", 56, 72, 9216),
      axonn("gpt-80b", 42, 96, 12288),
      axonn("gpt-100b", 53, 96, 12288),
      axonn("gpt-160b", 84, 96, 12288),
      axonn("gpt-175b", 96, 96, 12288),
      axonn("gpt-320b", 96, 128, 16384),
      axonn("gpt-640b", 192, 128, 16384),
      llama("tinyllama-1.1b", {22, 32, 4, 2048, 5632, 32000, 2048, false, 1e4F, 1.0F}),
      llama("llama-1b", {16, 32, 8, 2048, 8192, 128256, 131072, true, 5e5F, 32.0F}),
      llama("llama-3b", {28, 24, 8, 3072, 8192, 128256, 131072, true, 5e5F, 32.0F}),
      llama("llama-7b", {32, 32, 32, 4096, 11008, 32000, 4096, false, 1e4F, 1.0F}),
      llama("llama-8b", {32, 32, 8, 4096, 14336, 128256, 131072, false, 5e5F, 8.0F}),
      llama("llama-70b", {80, 64, 8, 8192, 28672, 128256, 131072, false, 5e5F, 8.0F}),
      llama("llama-405b", {126, 128, 8, 16384, 53248, 128256, 131072, false, 5e5F, 8.0F}),
      with_experts(llama("moe-tiny", {4, 8, 2, 256, 352, 257, 128, false, 1e4F, 1.0F}), 8),
      with_experts(llama("mixtral-8x7b", {32, 32, 8, 4096, 14336, 32000, 32768, false, 1e6F, 1.0F}), 8),
  };
  return models;
}

void require_size(std::int64_t value, std::string_view key, std::int64_t most) {
  if (value < 1 || value > most) {
    throw UserError(fmt::format("model.{} = {}", key, value), fmt::format("a whole number from 1 to {}", most),
                    fmt::format("set model.{} to a size in that range", key));
  }
}

std::string divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::string> fitting;
  for (std::int64_t each = 1; each <= std::min(number, most); ++each) {
    if (number % each == 0) fitting.push_back(std::to_string(each));
  }
  return join(fitting);
}

// The families that have a key, for messages.
std::string families_with(std::string_view key) {
  std::vector<std::string_view> names;
  for (const FamilyParts& parts : all_families()) {
    if (parts.has_key(key)) names.push_back(parts.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Biases, norms of Q and K, and windows as a model type of Hugging Face has them together.
void validate_combinations(const ModelConfig& model) {
  if (model.out_bias && !model.qkv_bias) {
    throw UserError("model.out-bias without model.qkv-bias", "biases of Q, K and V too", "set model.qkv-bias=true");
  }
  const bool only_qwen2 = model.qkv_bias && !model.out_bias;
  if (model.family != Family::llama) {
    if (!only_qwen2) return;
    throw UserError(fmt::format("model.qkv-bias without model.out-bias in family {}", to_string(model.family)),
                    "biases of all four matrices of attention, or of none", "set model.out-bias=true");
  }
  // Llama alone has biases of the MLP, Qwen2 biases of Q, K and V alone, Qwen3 norms of Q and K.
  const bool only_llama = model.mlp_bias || (model.out_bias && !model.qk_norm);
  const auto refuse_pair = [](const char* one, const char* other) {
    throw UserError(fmt::format("model.{} with model.{}", one, other),
                    "a combination that a model type of Hugging Face has", "leave one of them out");
  };
  if (only_llama && model.qk_norm) refuse_pair("mlp-bias", "qk-norm");
  if (only_llama && model.window > 0) refuse_pair(model.mlp_bias ? "mlp-bias" : "out-bias", "window");
  if (only_qwen2 && model.qk_norm) refuse_pair("qkv-bias (without out-bias)", "qk-norm");
  if (only_qwen2 && model.mlp_bias) refuse_pair("qkv-bias (without out-bias)", "mlp-bias");
}

// Families with experts have no other form; a model has at least one layer with them.
void validate_experts(const ModelConfig& model) {
  if (!model.parts().has_key("experts")) return;  // and so no other key of experts
  require_size(model.experts, "experts", kMostExperts);
  require_size(model.experts_per_token, "experts-per-token", model.experts);
  if (model.expert_ffn != 0) require_size(model.expert_ffn, "expert-ffn", 100'000'000);
  const auto layers = std::views::iota(std::int64_t{0}, model.layers);
  if (std::ranges::none_of(layers, [&](std::int64_t layer) { return model.has_experts(layer); })) {
    throw UserError(fmt::format("model.dense-layers = {} of {} layers", to_string(model.dense_layers), model.layers),
                    "a layer with experts", "leave some layers out of model.dense-layers, or choose another family");
  }
}

// The members that only some families have. No file of Hugging Face could describe other combinations.
void validate_additions(const ModelConfig& model) {
  constexpr std::int64_t kMostColumns = 1'000'000;
  if (model.head_size < 0 || model.head_size * model.heads > kMostColumns) {
    throw UserError(
        fmt::format("model.head-size = {} for {} heads", model.head_size, model.heads),
        fmt::format("0 for model.hidden / model.heads, or heads of at most {} columns together", kMostColumns),
        "set a smaller model.head-size");
  }
  for (const Addition& addition : additions()) {
    if (!addition.used(model) || model.parts().has_key(addition.key)) continue;
    // Numbers of rotations that don't happen are idle, which is another message.
    if (model.parts().learned_positions && addition.key.starts_with("rope-")) continue;
    const std::string families = families_with(addition.key);
    throw UserError(fmt::format("model.{} in family {}", addition.key, to_string(model.family)),
                    fmt::format("family {} for it", families),
                    fmt::format("leave model.{} out, or set model.family={}", addition.key,
                                families.substr(0, families.find(','))));
  }
  if (model.window < 0 || model.window_from < 0 || (model.window == 0 && model.window_from > 0)) {
    throw UserError(fmt::format("model.window = {} from layer {}", model.window, model.window_from),
                    "a number of positions, 0 for no window, and a layer only with a window",
                    "set model.window above 0, or leave model.window-from out");
  }
  if (model.window == 0 && !model.full_layers.empty()) {
    throw UserError(fmt::format("model.full-layers = {} without model.window", to_string(model.full_layers)),
                    "layers without the window that others have",
                    "set model.window above 0, or leave model.full-layers out");
  }
  const bool scalable = model.parts().learned_positions || model.parts().has_key("rope-scaling");
  if (!scalable && model.rope_scaling_factor != 1.0F) {
    throw UserError(
        fmt::format("model.rope-scaling-factor = {} in family {}", model.rope_scaling_factor, to_string(model.family)),
        "1: files of this family have no scaled frequencies of the kinds implemented",
        "leave model.rope-scaling-factor out, or set model.family=llama");
  }
  validate_experts(model);
  validate_combinations(model);
}

// Builds the list of parameters in forward order; each gets the next Philox site.
class ParameterList {
 public:
  void matrix(std::string name, std::int64_t rows, std::int64_t cols, float std, std::vector<StoredTensor> stored) {
    add({std::move(name), rows, cols, true, Init::normal, std, 0, std::move(stored)});
  }
  void vector(std::string name, std::int64_t cols, Init init, std::vector<StoredTensor> stored) {
    add({std::move(name), 1, cols, false, init, 0.0F, 0, std::move(stored)});
  }
  void vector(std::string name, std::int64_t cols, Init init, std::string stored) {
    vector(std::move(name), cols, init, std::vector<StoredTensor>{{std::move(stored), 0, cols, false}});
  }
  /// A norm's weight, and its bias if it has one.
  void norm(const ModelConfig& model, const std::string& name, std::int64_t cols, const std::string& stored) {
    const bool from_one = model.parts().norm == NormForm::rms_of_one_plus;
    vector(name + ".weight", cols, from_one ? Init::zeros : Init::ones, stored + ".weight");
    if (model.parts().centered()) vector(name + ".bias", cols, Init::zeros, stored + ".bias");
  }
  std::vector<ParameterSpec> take() && { return std::move(list_); }

 private:
  void add(ParameterSpec spec) {
    spec.site = static_cast<std::uint32_t>(list_.size());
    list_.push_back(std::move(spec));
  }
  std::vector<ParameterSpec> list_;
};

// A matrix or a bias by the tensors that store it, one after the other: as many rows each as `rows` says, or all rows
// in the first if it stores all of them together.
template <std::size_t kNames>
std::vector<StoredTensor> stored_as(const std::array<std::string_view, kNames>& names, const std::string& layer,
                                    const std::array<std::int64_t, kNames>& rows, const char* what, bool transposed) {
  std::vector<StoredTensor> stored;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < kNames && !names[i].empty(); ++i) {
    stored.push_back({fmt::format("{}{}{}", layer, names[i], what), begin, rows[i], transposed});
    begin += rows[i];
  }
  if (stored.size() == 1) stored.front().rows = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  return stored;
}

// The parameters of one layer, in the order of the forward pass.
class LayerParameters {
 public:
  LayerParameters(const ModelConfig& model, std::int64_t layer, ParameterList& list)
      : model_(model),
        names_(*model.parts().stored),
        list_(list),
        layer_(layer),
        ours_(fmt::format("L{}.", layer)),
        stored_(fmt::format("{}.{}.", names_.layers, layer)) {}

  void add() {
    const std::int64_t h = model_.hidden, q = model_.query_cols(), kv = model_.key_cols(), f = model_.ffn;
    const float residual_std = model_.init_std / std::sqrt(2.0F * static_cast<float>(model_.layers));
    norm("norm1", names_.norm1);
    linear<3>("attn.qkv", names_.qkv, {q, kv, kv}, h, model_.init_std, model_.has_qkv_bias());
    if (const QueryKeyNorm form = model_.query_key_norm(); form != QueryKeyNorm::none) {
      const bool heads = form == QueryKeyNorm::heads;
      norm("attn.q_norm", "self_attn.q_norm", heads ? model_.head_dim() : q);
      norm("attn.k_norm", "self_attn.k_norm", heads ? model_.head_dim() : kv);
    }
    linear<1>("attn.out", {names_.out}, {h}, q, residual_std, model_.has_out_bias());
    norm("post_norm1", names_.post1);
    norm("norm2", names_.norm2);
    if (model_.has_experts(layer_)) {
      experts(residual_std);
    } else {
      linear<2>("mlp.up", names_.up, {f, model_.parts().gated() ? f : 0}, h, model_.init_std, model_.has_mlp_bias());
      linear<1>("mlp.down", {names_.down}, {h}, f, residual_std, model_.has_mlp_bias());
    }
    norm("post_norm2", names_.post2);
  }

 private:
  // Files hold each expert's matrices apart.
  void experts(float residual_std) {
    const std::int64_t h = model_.hidden, f = model_.expert_cols(), count = model_.experts;
    linear<1>("mlp.router", {names_.router}, {count}, h, model_.init_std, false);
    std::vector<StoredTensor> up, down;
    for (std::int64_t expert = 0; expert < count; ++expert) {
      const auto file = [&](std::size_t part) {
        return fmt::format("{}{}.{}.{}.weight", stored_, names_.experts, expert, names_.expert.at(part));
      };
      up.push_back({file(0), 2 * expert * f, f, false});
      up.push_back({file(1), (2 * expert + 1) * f, f, false});
      down.push_back({file(2), expert * h, h, false});
    }
    list_.matrix(ours_ + "mlp.experts.up.weight", count * 2 * f, h, model_.init_std, std::move(up));
    list_.matrix(ours_ + "mlp.experts.down.weight", count * h, f, residual_std, std::move(down));
  }
  template <std::size_t kNames>
  void linear(const char* name, const std::array<std::string_view, kNames>& files,
              const std::array<std::int64_t, kNames>& rows, std::int64_t in, float std, bool bias) {
    const std::int64_t out = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    list_.matrix(ours_ + name + ".weight", out, in, std, stored_as(files, stored_, rows, ".weight", names_.transposed));
    if (bias) list_.vector(ours_ + name + ".bias", out, Init::zeros, stored_as(files, stored_, rows, ".bias", false));
  }
  void norm(const char* name, std::string_view file) {
    if (!file.empty()) list_.norm(model_, ours_ + name, model_.hidden, fmt::format("{}{}", stored_, file));
  }
  void norm(const char* name, std::string_view file, std::int64_t cols) {
    list_.norm(model_, ours_ + name, cols, fmt::format("{}{}", stored_, file));
  }

  const ModelConfig& model_;
  const StoredNames& names_;
  ParameterList& list_;
  std::int64_t layer_;
  std::string ours_, stored_;
};

void add_parameters(const ModelConfig& model, ParameterList& list) {
  const StoredNames& names = *model.parts().stored;
  const auto table = [&](const char* name, std::string_view file, std::int64_t rows) {
    list.matrix(name, rows, model.hidden, model.init_std, {{fmt::format("{}.weight", file), 0, rows, false}});
  };
  table("wte.weight", names.embedding, model.vocab);
  if (model.parts().learned_positions) table("wpe.weight", names.positions, model.context);
  for (std::int64_t i = 0; i < model.layers; ++i) LayerParameters(model, i, list).add();
  list.norm(model, "norm", model.hidden, std::string(names.final_norm));
  if (!model.tied) table("head.weight", "lm_head", model.vocab);
}

std::int64_t elements_of(const ModelConfig& model, bool adapters) {
  std::int64_t elements = 0;
  for (const ParameterSpec& spec : model_parameters(model)) {
    if (is_adapter(spec) == adapters) elements += spec.rows * spec.cols;
  }
  return elements;
}

}  // namespace

std::span<const Addition> additions() {
  using M = ModelConfig;
  static constexpr Addition kAdditions[] = {{"rope-scaling", &M::rope_scaling},
                                            {"rope-attention-factor", &M::rope_attention_factor},
                                            {"rope-truncate", &M::rope_truncate},
                                            {"head-size", &M::head_size},
                                            {"qkv-bias", &M::qkv_bias},
                                            {"out-bias", &M::out_bias},
                                            {"mlp-bias", &M::mlp_bias},
                                            {"qk-norm", &M::qk_norm},
                                            {"window", &M::window},
                                            {"window-from", &M::window_from},
                                            {"full-layers", &M::full_layers},
                                            {"unrotated-layers", &M::unrotated_layers},
                                            {"rope-local-theta", &M::rope_local_theta},
                                            {"attention-scale", &M::attention_scale},
                                            {"embedding-factor", &M::embedding_factor},
                                            {"residual-factor", &M::residual_factor},
                                            {"logits-divisor", &M::logits_divisor},
                                            {"experts", &M::experts},
                                            {"experts-per-token", &M::experts_per_token},
                                            {"expert-ffn", &M::expert_ffn},
                                            {"normalise-experts", &M::normalise_experts},
                                            {"dense-layers", &M::dense_layers}};
  return kAdditions;
}

bool Addition::used(const ModelConfig& model) const {
  return std::visit([&](auto member_of) { return model.*member_of != ModelConfig().*member_of; }, member);
}

void Addition::drop(ModelConfig& model) const {
  std::visit([&](auto member_of) { model.*member_of = ModelConfig().*member_of; }, member);
}

std::int64_t ModelConfig::parameters() const {
  return elements_of(*this, false);
}

std::int64_t ModelConfig::active_parameters() const {
  std::int64_t idle = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (has_experts(layer)) idle += (experts - experts_per_token) * 3 * hidden * expert_cols();
  }
  return parameters() - idle;
}

std::int64_t ModelConfig::adapter_parameters() const {
  return elements_of(*this, true);
}

std::vector<std::int64_t> ModelConfig::expert_layers() const {
  std::vector<std::int64_t> with_experts;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (has_experts(layer)) with_experts.push_back(layer);
  }
  return with_experts;
}

float ModelConfig::embedding_scale() const {
  return parts().embedding_by_width ? std::sqrt(static_cast<float>(hidden)) : embedding_factor;
}

float ModelConfig::rotary_factor() const {
  if (rope_scaling != RopeKind::yarn) return 1.0F;
  if (rope_attention_factor > 0) return rope_attention_factor;
  return rope_scaling_factor > 1 ? 0.1F * std::log(rope_scaling_factor) + 1.0F : 1.0F;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelConfig& model : table()) names.push_back(model.name);
  return names;
}

ModelConfig model_by_name(std::string_view name) {
  for (const ModelConfig& model : table()) {
    if (model.name == name) return model;
  }
  const std::vector<std::string> names = model_names();
  const std::string nearest = nearest_name(name, names);
  throw UserError(fmt::format("unknown model '{}'", name), "one of " + join(names),
                  nearest.empty() ? "choose one of these, give sizes with --set model.layers=… and so on, or name a "
                                    "folder of Hugging Face"
                                  : fmt::format("did you mean --model {}?", nearest));
}

void validate(const ModelConfig& model) {
  constexpr std::int64_t kMost = 100'000'000;
  require_size(model.layers, "layers", kMostLayers);
  require_size(model.hidden, "hidden", 1'000'000);
  require_size(model.heads, "heads", model.hidden);
  require_size(model.kv_heads, "kv-heads", model.heads);
  require_size(model.ffn, "ffn", kMost);
  require_size(model.vocab, "vocab", kMost);
  require_size(model.context, "context", kMost);
  if (model.head_size == 0 && model.hidden % model.heads != 0) {
    throw UserError(fmt::format("model.heads = {} with model.hidden = {}", model.heads, model.hidden),
                    "heads that divide the hidden size", "set model.heads to one of " + divisors(model.hidden, 256));
  }
  if (model.heads % model.kv_heads != 0) {
    throw UserError(fmt::format("model.kv-heads = {} with model.heads = {}", model.kv_heads, model.heads),
                    "key/value heads that divide the heads",
                    "set model.kv-heads to one of " + divisors(model.heads, model.heads));
  }
  const bool learned = model.parts().learned_positions;
  if (learned && model.kv_heads != model.heads) {
    throw UserError(
        fmt::format("model.kv-heads = {} with model.heads = {} in family gpt2", model.kv_heads, model.heads),
        "as many key/value heads as heads",
        "leave model.kv-heads out, or use model.family=llama for grouped-query attention");
  }
  if (!learned && model.head_dim() % 2 != 0) {
    throw UserError(
        fmt::format("head size {} ({}) in family {}", model.head_dim(),
                    model.head_size > 0 ? "model.head-size" : "model.hidden / model.heads", to_string(model.family)),
        "an even head size, because rotary embeddings rotate pairs of elements",
        model.head_size > 0 ? "choose another model.head-size" : "choose other model.hidden or model.heads");
  }
  validate_additions(model);
  validate_lora(model);
  // No machine holds such models, and sizes computed from them would overflow.
  constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
  const std::int64_t widest = std::max(model.hidden, model.query_cols());
  if (model.parameters() > kMostElements || model.layers * model.context > kMostElements / widest) {
    throw UserError(fmt::format("a model of {} parameters, and {} blocks of {} positions by {}", model.parameters(),
                                model.layers, model.context, widest),
                    fmt::format("at most {} elements each", kMostElements),
                    "set smaller model.layers, model.hidden, model.ffn, model.vocab or model.context");
  }
  const auto require_positive = [](float value, std::string_view key) {
    if (!(value > 0) || !std::isfinite(value)) {
      throw UserError(fmt::format("model.{} = {}", key, value), "a number above 0",
                      fmt::format("set model.{} above 0", key));
    }
  };
  require_positive(model.norm_eps, "norm-eps");
  require_positive(model.init_std, "init-std");
  require_positive(model.rope_theta, "rope-theta");
  require_positive(model.rope_scaling_factor, "rope-scaling-factor");
  require_positive(model.rope_original_context, "rope-original-context");
  require_positive(model.rope_low_freq_factor, "rope-low-freq-factor");
  require_positive(model.rope_high_freq_factor, "rope-high-freq-factor");
  require_positive(model.embedding_factor, "embedding-factor");
  require_positive(model.residual_factor, "residual-factor");
  require_positive(model.logits_divisor, "logits-divisor");
  if (model.attention_scale != 0.0F) require_positive(model.attention_scale, "attention-scale");
  if (model.rope_local_theta != 0.0F) require_positive(model.rope_local_theta, "rope-local-theta");
  const bool blends = model.rope_scaling_factor != 1.0F && model.rope_scaling != RopeKind::linear;
  if (blends && model.rope_high_freq_factor <= model.rope_low_freq_factor) {
    throw UserError(fmt::format("model.rope-high-freq-factor = {} with model.rope-low-freq-factor = {}",
                                model.rope_high_freq_factor, model.rope_low_freq_factor),
                    "a high factor above the low one", "swap them, or leave both out");
  }
}

double share_of_tokens(const ModelConfig& model, const ParameterSpec& spec) {
  const bool chosen = spec.name.find(".mlp.experts.") != std::string::npos;
  return chosen ? graph::as_double(model.experts_per_token) / graph::as_double(model.experts) : 1;
}

std::vector<ParameterSpec> model_parameters(const ModelConfig& model) {
  ParameterList builder;
  add_parameters(model, builder);
  std::vector<ParameterSpec> list = std::move(builder).take();
  if (model.lora.used()) add_adapters(model, list);
  return list;
}

}  // namespace weft::ops
