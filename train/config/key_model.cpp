#include "train/config/key_model.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text/units.h"
#include "train/config/key_kinds.h"

namespace weft::train {

namespace {

/// Updates sizes that depend on a changed size: as many key-value heads as heads if they were equal or the family
/// requires it, and GPT-2's MLP of four times the width.
void follow(const ops::ModelConfig& before, ops::ModelConfig& after) {
  const bool became_gpt2 = after.family == ops::Family::gpt2 && before.family != ops::Family::gpt2;
  const bool heads_changed = after.heads != before.heads && before.kv_heads == before.heads;
  if (became_gpt2 || heads_changed) after.kv_heads = after.heads;
  if (after.family == ops::Family::gpt2 && after.hidden != before.hidden && before.ffn == 4 * before.hidden) {
    after.ffn = 4 * after.hidden;
  }
}

/// A size that differs from the named model's makes the model a custom one.
ConfigEntry model_size(ConfigEntry entry) {
  entry.set = [set = entry.set, get = entry.get](RunConfig& config, std::string_view value, std::string_view where) {
    load_named_model(config);
    const ops::ModelConfig before = config.model;
    const std::string text_before = get(config);
    set(config, value, where);
    if (get(config) == text_before) return;
    follow(before, config.model);
    config.model_name = config.model.name = kCustomModel;
  };
  return entry;
}

void set_model_name(RunConfig& config, std::string_view value, std::string_view where) {
  if (value == kCustomModel) {
    load_named_model(config);
  } else {
    try {
      config.model = ops::model_by_name(value);
    } catch (const UserError& error) {
      throw UserError(fmt::format("{}: {}", where, error.what()), "", "");
    }
  }
  config.model_name = config.model.name = std::string(value);
}

}  // namespace

ConfigEntry model_key() {
  return {"model",
          ValueKind::text,
          "text",
          "a model by name: tiny, small, llama-tiny, gpt2-124m to gpt2-1558m, gpt-5b to gpt-640b, llama-1b to "
          "llama-405b; docs/models.md lists all",
          set_model_name,
          [](const RunConfig& config) { return config.model_name; }};
}

std::vector<ConfigEntry> model_size_keys() {
  std::vector<ConfigEntry> entries{
      words_key<ops::Family>("model.family", "gpt2: LayerNorm, GELU, learned positions; llama: RMSNorm, SwiGLU, RoPE",
                             {{"gpt2", ops::Family::gpt2}, {"llama", ops::Family::llama}}, &ops::ModelConfig::family),
      integer_key("model.layers", "transformer blocks", &ops::ModelConfig::layers, 1, 10000),
      integer_key("model.hidden", "width of the residual stream", &ops::ModelConfig::hidden, 1, 1 << 20),
      integer_key("model.heads", "attention heads", &ops::ModelConfig::heads, 1, 1 << 16),
      integer_key("model.kv-heads", "key and value heads (llama); it divides heads", &ops::ModelConfig::kv_heads, 1,
                  1 << 16),
      integer_key("model.ffn", "width of the MLP", &ops::ModelConfig::ffn, 1, 1 << 22),
      integer_key("model.vocab", "tokens of the vocabulary", &ops::ModelConfig::vocab, 2, 1 << 24),
      integer_key("model.context", "longest sequence", &ops::ModelConfig::context, 1, 1 << 20),
      boolean_key("model.tied", "use the token embedding as LM head too", &ops::ModelConfig::tied),
      number_key("model.norm-eps", "added to the variance in norms", &ops::ModelConfig::norm_eps, 1e-12, 0.1),
      number_key("model.init-std", "standard deviation of initial weights", &ops::ModelConfig::init_std, 0, 10),
      number_key("model.rope-theta", "base of the rotary frequencies (llama)", &ops::ModelConfig::rope_theta, 1, 1e12),
      number_key("model.rope-scaling-factor", "llama3 scaling of rotary frequencies; 1: none",
                 &ops::ModelConfig::rope_scaling_factor, 1, 1e6),
      number_key("model.rope-low-freq-factor", "llama3 scaling: bound of the long wavelengths",
                 &ops::ModelConfig::rope_low_freq_factor, 1e-3, 1e6),
      number_key("model.rope-high-freq-factor", "llama3 scaling: bound of the short wavelengths",
                 &ops::ModelConfig::rope_high_freq_factor, 1e-3, 1e6),
      number_key("model.rope-original-context", "llama3 scaling: context before scaling",
                 &ops::ModelConfig::rope_original_context, 1, 1e9),
  };
  for (ConfigEntry& entry : entries) entry = model_size(std::move(entry));
  return entries;
}

void load_named_model(RunConfig& config) {
  if (config.model_name == kCustomModel || config.model_name == config.model.name) return;
  config.model = ops::model_by_name(config.model_name);
  config.model.name = config.model_name;
}

}  // namespace weft::train
