#include "ops/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

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

// Sizes from the tables of GPT-2 (Radford et al. 2019), AxoNN's benchmark (320 and 640 billion: as reported elsewhere)
// and the config.json files of the Llama releases. The byte-level models are ours.
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
      llama("llama-405b", {126, 128, 8, 16384, 53248, 128256, 131072, false, 5e5F, 8.0F}),
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

// The members that Mistral, Qwen2 and Qwen3 add to llama. No file of Hugging Face could describe other combinations.
void validate_additions(const ModelConfig& model) {
  constexpr std::int64_t kMostColumns = 1'000'000;
  if (model.head_size < 0 || model.head_size * model.heads > kMostColumns) {
    throw UserError(
        fmt::format("model.head-size = {} for {} heads", model.head_size, model.heads),
        fmt::format("0 for model.hidden / model.heads, or heads of at most {} columns together", kMostColumns),
        "set a smaller model.head-size");
  }
  const std::array<std::pair<bool, const char*>, 6> additions = {{{model.head_size > 0, "head-size"},
                                                                  {model.qkv_bias, "qkv-bias"},
                                                                  {model.out_bias, "out-bias"},
                                                                  {model.mlp_bias, "mlp-bias"},
                                                                  {model.qk_norm, "qk-norm"},
                                                                  {model.window > 0, "window"}}};
  for (const auto& [used, key] : additions) {
    if (model.family == Family::llama || !used) continue;
    throw UserError(fmt::format("model.{} in family gpt2", key), "family llama for it",
                    fmt::format("leave model.{} out, or set model.family=llama", key));
  }
  if (model.window < 0 || model.window_from < 0 || (model.window == 0 && model.window_from > 0)) {
    throw UserError(fmt::format("model.window = {} from layer {}", model.window, model.window_from),
                    "a number of positions, 0 for no window, and a layer only with a window",
                    "set model.window above 0, or leave model.window-from out");
  }
  if (model.out_bias && !model.qkv_bias) {
    throw UserError("model.out-bias without model.qkv-bias", "biases of Q, K and V too", "set model.qkv-bias=true");
  }
  // Llama alone has biases of the MLP, Qwen2 biases of Q, K and V alone, Qwen3 norms of Q and K.
  const bool only_llama = model.mlp_bias || (model.out_bias && !model.qk_norm);
  const bool only_qwen2 = model.qkv_bias && !model.out_bias;
  const auto refuse_pair = [](const char* one, const char* other) {
    throw UserError(fmt::format("model.{} with model.{}", one, other),
                    "a combination that a model type of Hugging Face has", "leave one of them out");
  };
  if (only_llama && model.qk_norm) refuse_pair("mlp-bias", "qk-norm");
  if (only_llama && model.window > 0) refuse_pair(model.mlp_bias ? "mlp-bias" : "out-bias", "window");
  if (only_qwen2 && model.qk_norm) refuse_pair("qkv-bias (without out-bias)", "qk-norm");
  if (only_qwen2 && model.mlp_bias) refuse_pair("qkv-bias (without out-bias)", "mlp-bias");
  if (model.window_from > 0 && !model.qkv_bias && !model.qk_norm) {
    throw UserError(fmt::format("model.window-from = {} without model.qkv-bias and model.qk-norm", model.window_from),
                    "a window in all layers, as Mistral has it", "leave model.window-from out");
  }
}

void validate_lora(const ModelConfig& model) {
  const LoraConfig& lora = model.lora;
  if (!lora.used()) return;
  if (lora.rank > model.hidden) {
    throw UserError(fmt::format("lora rank = {} with model.hidden = {}", lora.rank, model.hidden),
                    fmt::format("a rank from 1 to {}: a higher one saves nothing", model.hidden),
                    "choose a smaller rank, such as rank=8");
  }
  if (!(lora.alpha > 0) || !std::isfinite(lora.alpha)) {
    throw UserError(fmt::format("lora alpha = {}", lora.alpha), "a number above 0", "set alpha=16");
  }
  if (!lora.qkv && !lora.out && !lora.mlp) {
    throw UserError("lora on no layer", "qkv, out, mlp or several of them", "set on=qkv+out+mlp");
  }
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
  std::vector<ParameterSpec> take() && { return std::move(list_); }

 private:
  void add(ParameterSpec spec) {
    spec.site = static_cast<std::uint32_t>(list_.size());
    list_.push_back(std::move(spec));
  }
  std::vector<ParameterSpec> list_;
};

void add_gpt2(const ModelConfig& model, ParameterList& list) {
  const std::int64_t c = model.hidden;
  const float residual_std = model.init_std / std::sqrt(2.0F * static_cast<float>(model.layers));
  list.matrix("wte.weight", model.vocab, c, model.init_std, {{"wte.weight", 0, model.vocab, false}});
  list.matrix("wpe.weight", model.context, c, model.init_std, {{"wpe.weight", 0, model.context, false}});
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const std::string ours = fmt::format("L{}.", i), stored = fmt::format("h.{}.", i);
    const auto linear = [&](const char* name, const char* file, std::int64_t out, std::int64_t in, float std) {
      list.matrix(ours + name + ".weight", out, in, std, {{stored + file + ".weight", 0, out, true}});
      list.vector(ours + name + ".bias", out, Init::zeros, stored + file + ".bias");
    };
    const auto norm = [&](const char* name, const char* file) {
      list.vector(ours + name + ".weight", c, Init::ones, stored + file + ".weight");
      list.vector(ours + name + ".bias", c, Init::zeros, stored + file + ".bias");
    };
    norm("norm1", "ln_1");
    linear("attn.qkv", "attn.c_attn", 3 * c, c, model.init_std);
    linear("attn.out", "attn.c_proj", c, c, residual_std);
    norm("norm2", "ln_2");
    linear("mlp.up", "mlp.c_fc", model.ffn, c, model.init_std);
    linear("mlp.down", "mlp.c_proj", c, model.ffn, residual_std);
  }
  list.vector("norm.weight", c, Init::ones, "ln_f.weight");
  list.vector("norm.bias", c, Init::zeros, "ln_f.bias");
}

// A matrix or a bias of the packed queries, keys and values, by the tensors that store it.
std::vector<StoredTensor> stored_qkv(const ModelConfig& model, const std::string& layer, const char* what) {
  const std::int64_t q = model.query_cols(), kv = model.key_cols();
  return {{layer + "self_attn.q_proj" + what, 0, q, false},
          {layer + "self_attn.k_proj" + what, q, kv, false},
          {layer + "self_attn.v_proj" + what, q + kv, kv, false}};
}

std::vector<StoredTensor> stored_gate_and_up(const ModelConfig& model, const std::string& layer, const char* what) {
  return {{layer + "mlp.gate_proj" + what, 0, model.ffn, false},
          {layer + "mlp.up_proj" + what, model.ffn, model.ffn, false}};
}

void add_llama_layer(const ModelConfig& model, std::int64_t layer, ParameterList& list) {
  const std::int64_t h = model.hidden, q = model.query_cols(), kv = model.key_cols(), f = model.ffn;
  const float residual_std = model.init_std / std::sqrt(2.0F * static_cast<float>(model.layers));
  const std::string ours = fmt::format("L{}.", layer), stored = fmt::format("model.layers.{}.", layer);
  list.vector(ours + "norm1.weight", h, Init::ones, stored + "input_layernorm.weight");
  list.matrix(ours + "attn.qkv.weight", q + 2 * kv, h, model.init_std, stored_qkv(model, stored, ".weight"));
  if (model.qkv_bias) list.vector(ours + "attn.qkv.bias", q + 2 * kv, Init::zeros, stored_qkv(model, stored, ".bias"));
  if (model.qk_norm) {
    list.vector(ours + "attn.q_norm.weight", model.head_dim(), Init::ones, stored + "self_attn.q_norm.weight");
    list.vector(ours + "attn.k_norm.weight", model.head_dim(), Init::ones, stored + "self_attn.k_norm.weight");
  }
  list.matrix(ours + "attn.out.weight", h, q, residual_std, {{stored + "self_attn.o_proj.weight", 0, h, false}});
  if (model.out_bias) list.vector(ours + "attn.out.bias", h, Init::zeros, stored + "self_attn.o_proj.bias");
  list.vector(ours + "norm2.weight", h, Init::ones, stored + "post_attention_layernorm.weight");
  list.matrix(ours + "mlp.up.weight", 2 * f, h, model.init_std, stored_gate_and_up(model, stored, ".weight"));
  if (model.mlp_bias) {
    list.vector(ours + "mlp.up.bias", 2 * f, Init::zeros, stored_gate_and_up(model, stored, ".bias"));
  }
  list.matrix(ours + "mlp.down.weight", h, f, residual_std, {{stored + "mlp.down_proj.weight", 0, h, false}});
  if (model.mlp_bias) list.vector(ours + "mlp.down.bias", h, Init::zeros, stored + "mlp.down_proj.bias");
}

void add_llama(const ModelConfig& model, ParameterList& list) {
  const std::int64_t h = model.hidden;
  list.matrix("wte.weight", model.vocab, h, model.init_std, {{"model.embed_tokens.weight", 0, model.vocab, false}});
  for (std::int64_t i = 0; i < model.layers; ++i) add_llama_layer(model, i, list);
  list.vector("norm.weight", h, Init::ones, "model.norm.weight");
}

// The name that PEFT gives to a matrix of the adapter of a stored one: "base_model.model." and the name of the module
// with the prefix that transformers' class gives it.
std::string stored_adapter(Family family, std::string_view weight, const char* matrix) {
  const std::string_view module = weight.substr(0, weight.rfind(".weight"));
  return fmt::format("base_model.model.{}{}{}", family == Family::gpt2 ? "transformer." : "", module, matrix);
}

bool has_adapter(const LoraConfig& lora, std::string_view name) {
  return (lora.qkv && name.ends_with("attn.qkv.weight")) || (lora.out && name.ends_with("attn.out.weight")) ||
         (lora.mlp && (name.ends_with("mlp.up.weight") || name.ends_with("mlp.down.weight")));
}

// Freezes the model's own parameters and adds the adapters. A starts as PEFT's does (Kaiming's uniform values with
// a = √5), B at zero, so that the model starts as it was.
void add_adapters(const ModelConfig& model, std::vector<ParameterSpec>& list) {
  const std::int64_t rank = model.lora.rank;
  const std::size_t own = list.size();
  for (std::size_t i = 0; i < own; ++i) {
    list[i].frozen = true;
    if (!has_adapter(model.lora, list[i].name)) continue;
    const ParameterSpec weight = list[i];
    const std::string name = weight.name.substr(0, weight.name.rfind(".weight"));
    ParameterSpec a{
        name + kLoraA, 0, weight.cols, true, Init::uniform, 1 / std::sqrt(static_cast<float>(weight.cols)), 0, {}};
    ParameterSpec b{name + kLoraB, weight.rows, rank, true, Init::zeros, 0.0F, 0, {}};
    for (const StoredTensor& stored : weight.stored) {
      a.stored.push_back({stored_adapter(model.family, stored.name, kLoraA), a.rows, rank, false});
      b.stored.push_back({stored_adapter(model.family, stored.name, kLoraB), stored.row_begin, stored.rows, false});
      a.rows += rank;
    }
    for (ParameterSpec* adapter : {&a, &b}) {
      adapter->site = static_cast<std::uint32_t>(list.size());
      list.push_back(std::move(*adapter));
    }
  }
}

std::int64_t elements_of(const ModelConfig& model, bool adapters) {
  std::int64_t elements = 0;
  for (const ParameterSpec& spec : model_parameters(model)) {
    if (is_adapter(spec) == adapters) elements += spec.rows * spec.cols;
  }
  return elements;
}

}  // namespace

std::string_view to_string(Family family) {
  return family == Family::gpt2 ? "gpt2" : "llama";
}

std::string to_string(const LoraConfig& lora) {
  std::vector<std::string> layers;
  if (lora.qkv) layers.emplace_back("qkv");
  if (lora.out) layers.emplace_back("out");
  if (lora.mlp) layers.emplace_back("mlp");
  return fmt::format("rank={},alpha={},on={}", lora.rank, lora.alpha, fmt::join(layers, "+"));
}

std::int64_t ModelConfig::parameters() const {
  return elements_of(*this, false);
}

std::int64_t ModelConfig::adapter_parameters() const {
  return elements_of(*this, true);
}

double ModelConfig::train_flops_per_token(std::int64_t seq_len) const {
  const std::int64_t windowed = window > 0 && window < seq_len ? layers - std::min(window_from, layers) : 0;
  const double all = 6.0 * static_cast<double>(layers - windowed) * static_cast<double>(query_cols() * seq_len);
  // Of seq_len queries the first ones see a growing triangle of keys, the others a whole window.
  const auto w = static_cast<double>(window), seq = static_cast<double>(seq_len);
  const double keys = windowed == 0 ? 0.0 : w * (2.0 * seq - w) / seq;  // seq_len without a window
  const double weights =
      (lora.used() ? 4.0 : 6.0) * static_cast<double>(parameters()) + 6.0 * static_cast<double>(adapter_parameters());
  return weights + all + 6.0 * static_cast<double>(windowed * query_cols()) * keys;
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
  require_size(model.layers, "layers", 10'000);
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
  if (model.family == Family::gpt2 && model.kv_heads != model.heads) {
    throw UserError(
        fmt::format("model.kv-heads = {} with model.heads = {} in family gpt2", model.kv_heads, model.heads),
        "as many key/value heads as heads",
        "leave model.kv-heads out, or use model.family=llama for grouped-query attention");
  }
  if (model.family == Family::llama && model.head_dim() % 2 != 0) {
    throw UserError(
        fmt::format("head size {} ({}) in family llama", model.head_dim(),
                    model.head_size > 0 ? "model.head-size" : "model.hidden / model.heads"),
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
  const bool blends = model.rope_scaling_factor != 1.0F && model.rope_scaling != RopeKind::linear;
  if (blends && model.rope_high_freq_factor <= model.rope_low_freq_factor) {
    throw UserError(fmt::format("model.rope-high-freq-factor = {} with model.rope-low-freq-factor = {}",
                                model.rope_high_freq_factor, model.rope_low_freq_factor),
                    "a high factor above the low one", "swap them, or leave both out");
  }
}

bool is_adapter(const ParameterSpec& spec) {
  return spec.name.ends_with(kLoraA) || spec.name.ends_with(kLoraB);
}

std::string adapted_weight(const ParameterSpec& adapter) {
  return adapter.name.substr(0, adapter.name.rfind(".lora_")) + ".weight";
}

std::vector<ParameterSpec> model_parameters(const ModelConfig& model) {
  ParameterList builder;
  model.family == Family::gpt2 ? add_gpt2(model, builder) : add_llama(model, builder);
  if (!model.tied) {
    builder.matrix("head.weight", model.vocab, model.hidden, model.init_std,
                   {{"lm_head.weight", 0, model.vocab, false}});
  }
  std::vector<ParameterSpec> list = std::move(builder).take();
  if (model.lora.used()) add_adapters(model, list);
  return list;
}

}  // namespace weft::ops
