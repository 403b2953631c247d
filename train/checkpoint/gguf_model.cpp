// Keys as in ggml-org/ggml, docs/gguf.md, and gguf-py's constants.py; what llama.cpp's converter makes of a
// config.json.
#include "train/checkpoint/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/text/json_object.h"
#include "train/checkpoint/gguf_blocks.h"

namespace weft::train {
namespace {

constexpr std::string_view kArchitecture = "general.architecture";
constexpr std::string_view kEmbedding = "token_embd.weight", kOutput = "output.weight",
                           kRopeFactors = "rope_freqs.weight";
constexpr std::int64_t kLargestSize = 1'000'000'000;
constexpr std::int64_t kMostLayers = 10'000;

using NamePair = std::pair<std::string_view, std::string_view>;

/// Hugging Face's name and GGUF's, without ".weight" and ".bias".
constexpr std::array kModelNames = {
    NamePair{"model.embed_tokens", "token_embd"},
    NamePair{"model.norm", "output_norm"},
    NamePair{"lm_head", "output"},
    NamePair{"wte", "token_embd"},
    NamePair{"wpe", "position_embd"},
    NamePair{"ln_f", "output_norm"},
};
/// The same within a layer.
constexpr std::array kLayerNames = {
    NamePair{"input_layernorm", "attn_norm"},
    NamePair{"self_attn.q_proj", "attn_q"},
    NamePair{"self_attn.k_proj", "attn_k"},
    NamePair{"self_attn.v_proj", "attn_v"},
    NamePair{"self_attn.o_proj", "attn_output"},
    NamePair{"self_attn.q_norm", "attn_q_norm"},
    NamePair{"self_attn.k_norm", "attn_k_norm"},
    NamePair{"post_attention_layernorm", "ffn_norm"},
    NamePair{"mlp.gate_proj", "ffn_gate"},
    NamePair{"mlp.up_proj", "ffn_up"},
    NamePair{"mlp.down_proj", "ffn_down"},
    NamePair{"ln_1", "attn_norm"},
    NamePair{"attn.c_attn", "attn_qkv"},
    NamePair{"attn.c_proj", "attn_output"},
    NamePair{"ln_2", "ffn_norm"},
    NamePair{"mlp.c_fc", "ffn_up"},
    NamePair{"mlp.c_proj", "ffn_down"},
};

/// Keys of an architecture that are read here, or that change nothing that is computed.
constexpr std::array kKnownKeys = {
    std::string_view{"block_count"},
    std::string_view{"context_length"},
    std::string_view{"embedding_length"},
    std::string_view{"feed_forward_length"},
    std::string_view{"vocab_size"},
    std::string_view{"attention.head_count"},
    std::string_view{"attention.head_count_kv"},
    std::string_view{"attention.key_length"},
    std::string_view{"attention.value_length"},
    std::string_view{"attention.layer_norm_epsilon"},
    std::string_view{"attention.layer_norm_rms_epsilon"},
    std::string_view{"attention.sliding_window"},
    std::string_view{"expert_count"},
    std::string_view{"expert_used_count"},
    std::string_view{"rope.dimension_count"},
    std::string_view{"rope.freq_base"},
    std::string_view{"rope.scale_linear"},
    std::string_view{"rope.scaling.type"},
    std::string_view{"rope.scaling.factor"},
    std::string_view{"rope.scaling.original_context_length"},
    std::string_view{"rope.scaling.finetuned"},
    std::string_view{"rope.scaling.attn_factor"},
    std::string_view{"rope.scaling.yarn_ext_factor"},
    std::string_view{"rope.scaling.yarn_attn_factor"},
    std::string_view{"rope.scaling.yarn_log_multiplier"},
    std::string_view{"rope.scaling.yarn_beta_fast"},
    std::string_view{"rope.scaling.yarn_beta_slow"},
};

/// The keys of a file's architecture, without its name before them.
class ArchitectureKeys {
 public:
  ArchitectureKeys(const GgufFile& file, std::string name) : file_(file), prefix_(std::move(name) + ".") {
    for (const auto& [key, value] : file.metadata()) {
      if (!key.starts_with(prefix_)) continue;
      const std::string_view own = std::string_view(key).substr(prefix_.size());
      if (std::ranges::find(kKnownKeys, own) == kKnownKeys.end()) file.refuse(key, "no such setting: Weft has none");
    }
  }

  std::string key(std::string_view own) const { return prefix_ + std::string(own); }
  bool has(std::string_view own) const { return file_.has(key(own)); }
  std::int64_t size(std::string_view own) const { return file_.integer(key(own), 1, kLargestSize); }
  std::int64_t size_or(std::string_view own, std::int64_t absent) const { return has(own) ? size(own) : absent; }
  double number_or(std::string_view own, double absent) const { return has(own) ? file_.number(key(own)) : absent; }
  double number(std::string_view own) const { return file_.number(key(own)); }
  [[noreturn]] void refuse(std::string_view own, std::string_view expected) const { file_.refuse(key(own), expected); }
  /// Refuses another number than the one with which nothing changes.
  void require(std::string_view own, double neutral) const {
    if (number_or(own, neutral) != neutral) refuse(own, fmt::format("{}, the only value implemented", neutral));
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

bool has_tensor(const GgufFile& file, std::string_view name) {
  return file.find(name) != nullptr;
}

double exact_json(double value) {
  return shortest_double(static_cast<float>(value));
}

/// The factor of a rotary frequency under llama3 scaling (Llama 3.1's model card).
double llama3_factor(double turns, double factor, double low, double high) {
  if (turns < low) return factor;
  if (turns > high) return 1;
  const double smooth = (turns - low) / (high - low);
  return 1 / ((1 - smooth) / factor + smooth);
}

std::vector<double> llama3_factors(double theta, std::int64_t head, double factor, double low, double high,
                                   double original) {
  std::vector<double> factors;
  for (std::int64_t i = 0; i < head / 2; ++i) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head));
    factors.push_back(llama3_factor(original * frequency / (2 * std::numbers::pi), factor, low, high));
  }
  return factors;
}

/// The scaling whose factors a file keeps as a tensor. Its numbers aren't in the file: those of published models, with
/// a context before scaling that is a power of two, are tried.
std::optional<JsonObject> scaling_of_factors(const GgufFile& file, double theta, std::int64_t head) {
  const GgufTensor* tensor = file.find(kRopeFactors);
  if (tensor == nullptr) return std::nullopt;
  constexpr double kLow = 1, kHigh = 4;
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw UserError(fmt::format("{}: tensor '{}' {}", in_quotes(file.path()), kRopeFactors, found), expected,
                    "give the model as a folder of Hugging Face, whose config.json has the numbers");
  };
  if (static_cast<std::int64_t>(tensor->elements()) != head / 2) {
    refuse(fmt::format("has {} elements", tensor->elements()), fmt::format("{}, half of a head", head / 2));
  }
  std::vector<float> factors(tensor->elements());
  read_elements(file, *tensor, 0, factors);
  if (std::ranges::all_of(factors, [](float factor) { return factor == 1; })) return std::nullopt;
  const double factor = factors.empty() ? 1 : factors.back();
  for (std::int64_t original = 256; original <= 1 << 20; original *= 2) {
    const auto wanted = llama3_factors(theta, head, factor, kLow, kHigh, static_cast<double>(original));
    const bool equal = std::ranges::equal(
        factors, wanted, [](double found, double expected) { return std::fabs(found - expected) <= 1e-5 * expected; });
    if (!equal) continue;
    return JsonObject()
        .add("rope_type", "llama3")
        .add("factor", factor)
        .add("low_freq_factor", kLow)
        .add("high_freq_factor", kHigh)
        .add("original_max_position_embeddings", original);
  }
  refuse("has other factors than llama3 scaling",
         "those of low_freq_factor 1, high_freq_factor 4 and an original context that is a power of two");
  return std::nullopt;
}

/// The scaling that metadata tells.
std::optional<JsonObject> told_scaling(const GgufFile& file, const ArchitectureKeys& keys) {
  constexpr std::string_view kType = "rope.scaling.type", kFactor = "rope.scaling.factor";
  keys.require("rope.scaling.attn_factor", 1);
  keys.require("rope.scaling.yarn_ext_factor", 1);
  keys.require("rope.scaling.yarn_attn_factor", 1);
  keys.require("rope.scaling.yarn_log_multiplier", 0);
  const double linear = keys.number_or("rope.scale_linear", 1);
  const std::string type = keys.has(kType) ? file.text(keys.key(kType)) : (linear == 1 ? "none" : "linear");
  if (type == "none") return std::nullopt;
  if (type != "linear" && type != "yarn") keys.refuse(kType, "none, linear or yarn, the kinds implemented");
  JsonObject rope;
  rope.add("rope_type", type).add("factor", exact_json(keys.has(kFactor) ? keys.number(kFactor) : linear));
  if (type == "linear") return rope;
  rope.add("original_max_position_embeddings", keys.size("rope.scaling.original_context_length"));
  return rope.add("beta_fast", exact_json(keys.number_or("rope.scaling.yarn_beta_fast", 32)))
      .add("beta_slow", exact_json(keys.number_or("rope.scaling.yarn_beta_slow", 1)));
}

void add_rope(const GgufFile& file, const ArchitectureKeys& keys, std::int64_t head, JsonObject& config) {
  const double theta = keys.number_or("rope.freq_base", 10000);
  if (keys.size_or("rope.dimension_count", head) != head) {
    keys.refuse("rope.dimension_count", fmt::format("{}, the size of a head: all of it is rotated", head));
  }
  const auto told = told_scaling(file, keys), stored = scaling_of_factors(file, exact_json(theta), head);
  if (told && stored) {
    keys.refuse("rope.scaling.type", fmt::format("none beside the tensor '{}'", kRopeFactors));
  }
  config.add("rope_theta", exact_json(theta));
  if (told || stored) config.add("rope_scaling", told ? *told : *stored);
}

bool equal_tensors(const GgufFile& file, const GgufTensor& one, const GgufTensor& other) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  if (one.type != other.type || one.shape != other.shape) return false;
  std::vector<std::byte> a, b;
  const std::uint64_t size = one.end - one.begin;
  for (std::uint64_t first = 0; first < size; first += kPiece) {
    for (std::vector<std::byte>* const piece : {&a, &b}) piece->resize(std::min(kPiece, size - first));
    file.read_bytes(one, first, a);
    file.read_bytes(other, first, b);
    if (a != b) return false;
  }
  return true;
}

/// The head is the embedding where the file has none of its own. Files of GPT-2 may have a copy.
bool ties_head(const GgufFile& file, const GgufTensor& embedding, bool gpt2) {
  const GgufTensor* output = file.find(kOutput);
  return output == nullptr || (gpt2 && equal_tensors(file, embedding, *output));
}

JsonObject gpt2_config(const ArchitectureKeys& keys) {
  JsonObject config;
  return config.add("model_type", "gpt2")
      .add("n_positions", keys.size("context_length"))
      .add("n_embd", keys.size("embedding_length"))
      .add("n_layer", keys.size("block_count"))
      .add("n_head", keys.size("attention.head_count"))
      .add("n_inner", keys.size("feed_forward_length"))
      .add("activation_function", "gelu_new")
      .add("layer_norm_epsilon", exact_json(keys.number("attention.layer_norm_epsilon")));
}

JsonObject llama_config(const GgufFile& file, const ArchitectureKeys& keys, const std::string& architecture) {
  constexpr std::string_view kKeySize = "attention.key_length", kValueSize = "attention.value_length";
  const std::int64_t hidden = keys.size("embedding_length"), heads = keys.size("attention.head_count");
  const std::int64_t head = keys.size_or(kKeySize, hidden / heads);
  if (keys.size_or(kValueSize, head) != head) keys.refuse(kValueSize, fmt::format("{}, as {}", head, kKeySize));
  const bool windowed = keys.has("attention.sliding_window");
  JsonObject config;
  config.add("model_type", architecture == "llama" && windowed ? "mistral" : architecture)
      .add("max_position_embeddings", keys.size("context_length"))
      .add("hidden_size", hidden)
      .add("intermediate_size", keys.size("feed_forward_length"))
      .add("num_hidden_layers", keys.size("block_count"))
      .add("num_attention_heads", heads)
      .add("num_key_value_heads", keys.size_or("attention.head_count_kv", heads))
      .add("head_dim", head)
      .add("hidden_act", "silu")
      .add("rms_norm_eps", exact_json(keys.number("attention.layer_norm_rms_epsilon")));
  if (windowed) {
    config.add("sliding_window", keys.size("attention.sliding_window"));
    if (architecture != "llama") config.add("use_sliding_window", true).add("max_window_layers", 0);
  } else if (architecture != "llama") {
    config.add("use_sliding_window", false);
  }
  if (architecture != "qwen2" && has_tensor(file, "blk.0.attn_q.bias")) config.add("attention_bias", true);
  if (has_tensor(file, "blk.0.ffn_down.bias")) config.add("mlp_bias", true);
  add_rope(file, keys, head, config);
  return config;
}

bool has_bf16_matrices_alone(const GgufFile& file) {
  const auto is_bf16 = [](const GgufTensor& tensor) { return tensor.shape.size() < 2 || tensor.type.name == "BF16"; };
  return std::ranges::all_of(file.tensors(), is_bf16);
}

/// Refuses what would be lost: another model would be read back.
void expect_said(const ops::ModelConfig& model, const std::string& architecture) {
  const auto refuse = [&](std::string_view what) {
    throw UserError(fmt::format("the model has {}", what),
                    fmt::format("what GGUF's architecture {} can say", architecture), "--format hf");
  };
  const std::string config = hf_config_json(model, DType::f32);
  const std::string type = read_json(config, kModelConfigFile).root()["model_type"].text();
  if (model.window > 0) refuse("a window of attention, which llama.cpp doesn't compute for it");
  if (type != architecture) refuse(fmt::format("the model_type {}", type));
  if (model.qk_norm && model.qkv_bias) refuse("norms of Q and K, and biases");
  const bool scaled = model.rope_scaling_factor != 1.0F || model.rotary_factor() != 1.0F;
  if (!scaled) return;
  if (model.rope_scaling == ops::RopeKind::yarn && (!model.rope_truncate || model.rope_attention_factor != 0.0F)) {
    ops::ModelConfig usual = model;
    usual.rope_attention_factor = 0.0F;
    if (!model.rope_truncate || usual.rotary_factor() != model.rotary_factor()) {
      refuse("yarn scaling with an attention factor or bounds of its own");
    }
  }
  if (model.rope_scaling == ops::RopeKind::llama3 && architecture != "llama") refuse("llama3 scaling of RoPE");
}

void add_rope_scaling(const ops::ModelConfig& model, const std::string& prefix, GgufMetadata& metadata) {
  const auto original = static_cast<std::uint32_t>(model.rope_original_context);
  if (model.rope_scaling_factor == 1.0F && model.rotary_factor() == 1.0F) return;
  switch (model.rope_scaling) {
    case ops::RopeKind::llama3:
      return;  // a tensor: gguf_rope_factors()
    case ops::RopeKind::linear:
      metadata.text(prefix + "rope.scaling.type", "linear")
          .number(prefix + "rope.scaling.factor", model.rope_scaling_factor);
      return;
    case ops::RopeKind::yarn:
      metadata.text(prefix + "rope.scaling.type", "yarn")
          .number(prefix + "rope.scaling.factor", model.rope_scaling_factor)
          .integer(prefix + "rope.scaling.original_context_length", original);
      if (model.rope_high_freq_factor != 32.0F) {
        metadata.number(prefix + "rope.scaling.yarn_beta_fast", model.rope_high_freq_factor);
      }
      if (model.rope_low_freq_factor != 1.0F) {
        metadata.number(prefix + "rope.scaling.yarn_beta_slow", model.rope_low_freq_factor);
      }
      return;
  }
}

}  // namespace

std::optional<std::string> gguf_tensor_name(std::string_view stored) {
  const std::size_t dot = stored.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view suffix = stored.substr(dot);
  std::string_view module = stored.substr(0, dot);
  if (suffix != ".weight" && suffix != ".bias") return std::nullopt;
  const auto found_in = [&](const auto& names) -> std::optional<std::string_view> {
    const auto found = std::ranges::find(names, module, &NamePair::first);
    return found == names.end() ? std::nullopt : std::optional(found->second);
  };
  for (const std::string_view prefix : {"model.layers.", "h."}) {
    if (!module.starts_with(prefix)) continue;
    module.remove_prefix(prefix.size());
    const std::string_view number = module.substr(0, module.find('.'));
    module.remove_prefix(std::min(number.size() + 1, module.size()));
    const auto name = found_in(kLayerNames);
    return name ? std::optional(fmt::format("blk.{}.{}{}", number, *name, suffix)) : std::nullopt;
  }
  const auto name = found_in(kModelNames);
  return name ? std::optional(std::string(*name) + std::string(suffix)) : std::nullopt;
}

bool pairs_neighbours(std::string_view architecture) {
  return architecture == "llama";
}

std::int64_t neighbour_row(std::int64_t row, std::int64_t head_size) {
  const std::int64_t head = row / head_size, within = row % head_size, half = head_size / 2;
  return head * head_size + within % half * 2 + within / half;
}

std::string gguf_config_json(const GgufFile& file) {
  constexpr std::array<std::string_view, 4> kArchitectures = {"llama", "qwen2", "qwen3", "gpt2"};
  if (file.has("split.count") && file.integer("split.count", 0, kLargestSize) > 1) {
    throw UserError(fmt::format("{}: split.count is {}: a part of a model", in_quotes(file.path()),
                                file.integer("split.count", 0, kLargestSize)),
                    "a whole model in one file", "merge the parts: llama-gguf-split --merge FIRST-PART model.gguf");
  }
  const std::string& architecture = file.text(kArchitecture);
  if (std::ranges::find(kArchitectures, architecture) == kArchitectures.end()) {
    file.refuse(kArchitecture, "llama, qwen2, qwen3 or gpt2, the architectures implemented");
  }
  const ArchitectureKeys keys(file, architecture);
  if (keys.has("expert_count") && file.integer(keys.key("expert_count"), 0, kLargestSize) != 0) {
    keys.refuse("expert_count", "none: a mixture of experts isn't implemented for this architecture");
  }
  if (keys.has("block_count")) (void)file.integer(keys.key("block_count"), 1, kMostLayers);
  const GgufTensor* embedding = file.find(kEmbedding);
  if (embedding == nullptr || embedding->shape.size() != 2) {
    throw UserError(fmt::format("{} has no matrix '{}'", in_quotes(file.path()), kEmbedding), "a language model",
                    "give the file of a model, not of adapters or of a projector");
  }
  const bool gpt2 = architecture == "gpt2";
  JsonObject config = gpt2 ? gpt2_config(keys) : llama_config(file, keys, architecture);
  return config.add("vocab_size", embedding->shape.front())
      .add("tie_word_embeddings", ties_head(file, *embedding, gpt2))
      .add("torch_dtype", has_bf16_matrices_alone(file) ? "bfloat16" : "float32")
      .text();
}

HfConfig read_gguf_config(const GgufFile& file) {
  return read_hf_config(gguf_config_json(file), in_quotes(file.path()));
}

std::vector<float> gguf_rope_factors(const ops::ModelConfig& model) {
  std::vector<float> factors;
  if (model.family == ops::Family::gpt2 || model.rope_scaling != ops::RopeKind::llama3 ||
      model.rope_scaling_factor == 1.0F) {
    return factors;
  }
  for (const double factor :
       llama3_factors(shortest_double(model.rope_theta), model.head_dim(), model.rope_scaling_factor,
                      model.rope_low_freq_factor, model.rope_high_freq_factor, model.rope_original_context)) {
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

std::string gguf_architecture(const ops::ModelConfig& model) {
  std::string architecture = "llama";
  if (model.family == ops::Family::gpt2) architecture = "gpt2";
  if (model.qkv_bias && !model.out_bias) architecture = "qwen2";
  if (model.qk_norm) architecture = "qwen3";
  expect_said(model, architecture);
  return architecture;
}

void add_gguf_sizes(const ops::ModelConfig& model, GgufMetadata& metadata) {
  const std::string architecture = gguf_architecture(model), prefix = architecture + ".";
  const auto size = [&](const char* key, std::int64_t value) {
    metadata.integer(prefix + key, static_cast<std::uint32_t>(value));
  };
  metadata.text(kArchitecture, architecture);
  size("block_count", model.layers);
  size("context_length", model.context);
  size("embedding_length", model.hidden);
  size("feed_forward_length", model.ffn);
  size("attention.head_count", model.heads);
  if (model.family == ops::Family::gpt2) {
    metadata.number(prefix + "attention.layer_norm_epsilon", model.norm_eps);
    return;
  }
  size("attention.head_count_kv", model.kv_heads);
  size("attention.key_length", model.head_dim());
  size("attention.value_length", model.head_dim());
  metadata.number(prefix + "attention.layer_norm_rms_epsilon", model.norm_eps);
  size("vocab_size", model.vocab);
  size("rope.dimension_count", model.head_dim());
  metadata.number(prefix + "rope.freq_base", model.rope_theta);
  add_rope_scaling(model, prefix, metadata);
}

}  // namespace weft::train
