// All model families in plain double-precision loops, written from their definitions: the reference for trained losses
// and gradients. They share dropout's formula with the kernels, and nothing else.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/formulas.h"
#include "ops/model_config.h"
#include "tests/train/model_arrays.h"

namespace weft::testing {

/// Row-major [rows, cols].
struct ReferenceMatrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;

  ReferenceMatrix() = default;
  ReferenceMatrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c)) {}
  double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  double at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * cols + c)]; }
};

/// Radford et al. 2019 (GPT-2 with tanh-GELU) and Touvron et al. 2023 (Llama), the latter with what other families add
/// or have instead, and with dropout on the embedding and on both residual branches.
class ReferenceTransformer {
 public:
  using Parameters = std::map<std::string, ReferenceMatrix>;

  ReferenceTransformer(const ops::ModelConfig& model, std::int64_t seq_len) : model_(model), seq_(seq_len) {}

  /// The elements that a training step drops: by Philox(seed, step, site) and formulas.h, with rows of the
  /// global batch.
  void drop(double p, std::uint64_t seed, std::uint32_t step) { p_ = p, seed_ = seed, step_ = step; }

  /// For each token, the position in its sequence at which its document starts; it attends from there on.
  void attend_within(std::vector<std::int32_t> document_starts) { document_starts_ = std::move(document_starts); }

  /// Logits [tokens, vocab]; tokens are whole sequences of seq_len.
  ReferenceMatrix logits(const Parameters& parameters, const std::vector<std::int32_t>& tokens) const {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    ReferenceMatrix x(rows, model_.hidden);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < x.cols; ++c) {
        x.at(r, c) = parameters.at("wte.weight").at(tokens[static_cast<std::size_t>(r)], c);
        if (gpt2()) x.at(r, c) += parameters.at("wpe.weight").at(r % seq_, c);
        x.at(r, c) *= static_cast<double>(model_.embedding_scale());
      }
    }
    add_dropped(x, ReferenceMatrix(rows, x.cols), 0);
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
      const std::string name = "L" + std::to_string(layer) + ".";
      const auto site = static_cast<std::uint32_t>(2 * layer);
      ReferenceMatrix qkv = linear(norm_if_any(x, parameters, name + "norm1"), parameters, name + "attn.qkv");
      normalize_heads(qkv, parameters, name + "attn.");
      if (!gpt2() && !model_.unrotated_layers.contains(layer)) rotate(qkv, layer);
      ReferenceMatrix branch = linear(attention(qkv, model_.window_of(layer)), parameters, name + "attn.out");
      add_branch(x, norm_if_any(branch, parameters, name + "post_norm1"), site + 1);
      branch = norm_if_any(x, parameters, name + "norm2");
      branch = model_.has_experts(layer)
                   ? experts(branch, parameters, name + "mlp.")
                   : linear(activation(linear(branch, parameters, name + "mlp.up")), parameters, name + "mlp.down");
      add_branch(x, norm_if_any(branch, parameters, name + "post_norm2"), site + 2);
    }
    ReferenceMatrix scores =
        product(norm(x, parameters, "norm"), parameters.at(model_.tied ? "wte.weight" : "head.weight"));
    for (double& score : scores.values) score /= static_cast<double>(model_.logits_divisor);
    return scores;
  }

  /// Mean cross-entropy over the targets that aren't negative.
  double loss(const Parameters& parameters, const std::vector<std::int32_t>& tokens,
              const std::vector<std::int32_t>& targets) const {
    const ReferenceMatrix scores = logits(parameters, tokens);
    double sum = 0;
    std::int64_t counted = 0;
    for (std::int64_t r = 0; r < scores.rows; ++r) {
      const std::int32_t target = targets[static_cast<std::size_t>(r)];
      if (target < 0) continue;
      double total = 0;
      for (std::int64_t c = 0; c < scores.cols; ++c) total += std::exp(scores.at(r, c));
      sum += std::log(total) - scores.at(r, target);
      ++counted;
    }
    return sum / static_cast<double>(counted);
  }

  /// The slope of the loss along a direction of a parameter's elements, of length 1, by central differences.
  double slope(Parameters parameters, const std::string& name, const std::vector<double>& direction,
               const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& targets) const {
    constexpr double kStep = 1e-5;
    const std::vector<double> values = parameters.at(name).values;
    const auto loss_at = [&](double t) {
      for (std::size_t i = 0; i < values.size(); ++i) parameters.at(name).values[i] = values[i] + t * direction[i];
      return loss(parameters, tokens, targets);
    };
    return (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  }

 private:
  bool gpt2() const { return model_.family == ops::Family::gpt2; }

  void add_branch(ReferenceMatrix& x, ReferenceMatrix branch, std::uint32_t site) const {
    for (double& value : branch.values) value *= static_cast<double>(model_.residual_factor);
    add_dropped(branch, x, site);
    x = std::move(branch);
  }

  // branch = residual + branch with elements dropped.
  void add_dropped(ReferenceMatrix& branch, const ReferenceMatrix& residual, std::uint32_t site) const {
    for (std::size_t i = 0; i < branch.values.size(); ++i) {
      double kept = branch.values[i];
      if (p_ > 0) {
        const PhiloxBlock words = philox_quad(seed_, step_, site, i / kernels::kDropoutElements);
        const kernels::DropoutChance chance = kernels::dropout_chance(static_cast<float>(p_));
        const bool dropped = kernels::dropout_bits(words, static_cast<std::uint32_t>(i)) < chance.threshold;
        kept = dropped ? 0 : kept * static_cast<double>(chance.scale);
      }
      branch.values[i] = residual.values[i] + kept;
    }
  }

  // x·Wᵀ
  static ReferenceMatrix product(const ReferenceMatrix& x, const ReferenceMatrix& weight) {
    ReferenceMatrix y(x.rows, weight.rows);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t o = 0; o < weight.rows; ++o) {
        double sum = 0;
        for (std::int64_t c = 0; c < x.cols; ++c) sum += x.at(r, c) * weight.at(o, c);
        y.at(r, o) = sum;
      }
    }
    return y;
  }

  ReferenceMatrix linear(const ReferenceMatrix& x, const Parameters& parameters, const std::string& name) const {
    ReferenceMatrix y = product(x, parameters.at(name + ".weight"));
    if (!parameters.contains(name + ".bias")) return y;
    for (std::int64_t r = 0; r < y.rows; ++r) {
      for (std::int64_t c = 0; c < y.cols; ++c) y.at(r, c) += parameters.at(name + ".bias").at(0, c);
    }
    return y;
  }

  ReferenceMatrix norm_if_any(const ReferenceMatrix& x, const Parameters& parameters, const std::string& name) const {
    return parameters.contains(name + ".weight") ? norm(x, parameters, name) : x;
  }

  // A norm's factor of a column.
  double factor(const ReferenceMatrix& weight, std::int64_t c) const {
    return weight.at(0, c) + (model_.parts().norm == ops::NormForm::rms_of_one_plus ? 1 : 0);
  }

  ReferenceMatrix norm(const ReferenceMatrix& x, const Parameters& parameters, const std::string& name) const {
    ReferenceMatrix y(x.rows, x.cols);
    const auto n = static_cast<double>(x.cols);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      double mean = 0, square = 0;
      for (std::int64_t c = 0; gpt2() && c < x.cols; ++c) mean += x.at(r, c) / n;
      for (std::int64_t c = 0; c < x.cols; ++c) square += (x.at(r, c) - mean) * (x.at(r, c) - mean) / n;
      const double scale = 1 / std::sqrt(square + static_cast<double>(model_.norm_eps));
      for (std::int64_t c = 0; c < x.cols; ++c) {
        y.at(r, c) = (x.at(r, c) - mean) * scale * factor(parameters.at(name + ".weight"), c);
        if (gpt2()) y.at(r, c) += parameters.at(name + ".bias").at(0, c);
      }
    }
    return y;
  }

  // Each head's query and key, or all heads' together, divided by the root mean square (Qwen3, OLMo 2).
  void normalize_heads(ReferenceMatrix& qkv, const Parameters& parameters, const std::string& name) const {
    if (!parameters.contains(name + "q_norm.weight")) return;
    const std::int64_t q = model_.query_cols(), end = q + model_.key_cols();
    for (std::int64_t first = 0; first < end;) {
      const ReferenceMatrix& weight = parameters.at(name + (first < q ? "q_norm.weight" : "k_norm.weight"));
      const std::int64_t n = weight.cols;
      for (std::int64_t r = 0; r < qkv.rows; ++r) {
        double square = 0;
        for (std::int64_t c = 0; c < n; ++c) square += std::pow(qkv.at(r, first + c), 2) / static_cast<double>(n);
        const double scale = 1 / std::sqrt(square + static_cast<double>(model_.norm_eps));
        for (std::int64_t c = 0; c < n; ++c) qkv.at(r, first + c) *= scale * factor(weight, c);
      }
      first += n;
    }
  }

  bool has_own_rotation(std::int64_t layer) const { return model_.rope_local_theta > 0 && model_.window_of(layer) > 0; }

  // The frequency of element j, unscaled, linear or yarn (Peng et al. 2023); llama3's are compared with PyTorch's.
  double frequency(std::int64_t j, std::int64_t layer) const {
    const bool own = has_own_rotation(layer);
    const auto d = static_cast<double>(model_.head_dim());
    const auto theta = static_cast<double>(own ? model_.rope_local_theta : model_.rope_theta);
    const double f = std::pow(theta, -2.0 * static_cast<double>(j) / d);
    if (own) return f;
    const auto factor = static_cast<double>(model_.rope_scaling_factor);
    if (factor == 1 || model_.rope_scaling == ops::RopeKind::llama3) return f;
    if (model_.rope_scaling == ops::RopeKind::linear) return f / factor;
    const auto place = [&](float turns) {
      const double context = static_cast<double>(model_.rope_original_context);
      return d * std::log(context / (2 * 3.14159265358979 * static_cast<double>(turns))) / (2 * std::log(theta));
    };
    const double kept = std::max(0.0, std::floor(place(model_.rope_high_freq_factor)));
    const double divided = std::min(d - 1, std::ceil(place(model_.rope_low_freq_factor)));
    const double part = std::min(1.0, std::max(0.0, (static_cast<double>(j) - kept) / (divided - kept)));
    return (1 - part) * f + part * f / factor;
  }

  // Su et al. 2021 in Hugging Face's layout: element j pairs with j + head_dim/2.
  void rotate(ReferenceMatrix& qkv, std::int64_t layer) const {
    const bool yarn = model_.rope_scaling == ops::RopeKind::yarn && !has_own_rotation(layer);
    const double stretch = yarn ? 0.1 * std::log(static_cast<double>(model_.rope_scaling_factor)) + 1 : 1;
    const std::int64_t d = model_.head_dim(), half = d / 2;
    for (std::int64_t r = 0; r < qkv.rows; ++r) {
      for (std::int64_t j = 0; j < half; ++j) {
        const double angle = static_cast<double>(r % seq_) * frequency(j, layer);
        const double cosine = stretch * std::cos(angle), sine = stretch * std::sin(angle);
        for (std::int64_t head = 0; head < model_.heads + model_.kv_heads; ++head) {
          double &a = qkv.at(r, head * d + j), &b = qkv.at(r, head * d + half + j);
          const double left = a;
          a = left * cosine - b * sine;
          b = b * cosine + left * sine;
        }
      }
    }
  }

  ReferenceMatrix attention(const ReferenceMatrix& qkv, std::int64_t window) const {
    const std::int64_t d = model_.head_dim(), group = model_.heads / model_.kv_heads;
    const std::int64_t k_begin = model_.heads * d, v_begin = k_begin + model_.kv_heads * d;
    ReferenceMatrix out(qkv.rows, k_begin);
    std::vector<double> weights(static_cast<std::size_t>(seq_));
    for (std::int64_t r = 0; r < qkv.rows; ++r) {
      const std::int64_t sequence = r - r % seq_;
      const std::int64_t begin =
          document_starts_.empty() ? sequence : sequence + document_starts_[static_cast<std::size_t>(r)];
      const std::int64_t first = window > 0 ? std::max(begin, r - window + 1) : begin;
      for (std::int64_t head = 0; head < model_.heads; ++head) {
        const std::int64_t kv = head / group * d;
        double total = 0;
        for (std::int64_t s = first; s <= r; ++s) {
          double score = 0;
          for (std::int64_t c = 0; c < d; ++c) score += qkv.at(r, head * d + c) * qkv.at(s, k_begin + kv + c);
          const double scale = model_.attention_scale > 0 ? static_cast<double>(model_.attention_scale)
                                                          : 1 / std::sqrt(static_cast<double>(d));
          total += weights[static_cast<std::size_t>(s - first)] = std::exp(score * scale);
        }
        for (std::int64_t s = first; s <= r; ++s) {
          const double weight = weights[static_cast<std::size_t>(s - first)] / total;
          for (std::int64_t c = 0; c < d; ++c) out.at(r, head * d + c) += weight * qkv.at(s, v_begin + kv + c);
        }
      }
    }
    return out;
  }

  ReferenceMatrix activation(const ReferenceMatrix& x) const {
    constexpr double kRootTwoOverPi = 0.79788456080286536;
    ReferenceMatrix y(x.rows, model_.ffn);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t c = 0; c < y.cols; ++c) {
        const double value = x.at(r, c);
        const double gelu = 0.5 * value * (1 + std::tanh(kRootTwoOverPi * (value + 0.044715 * value * value * value)));
        const bool silu = model_.parts().activation == ops::Activation::swiglu;
        y.at(r, c) = silu ? value / (1 + std::exp(-value)) : gelu;
        if (!gpt2()) y.at(r, c) *= x.at(r, model_.ffn + c);
      }
    }
    return y;
  }

  // Jiang et al. 2024 (Mixtral): the MLPs of the largest logits, each times its share in the softmax of all logits, or
  // of the chosen ones.
  ReferenceMatrix experts(const ReferenceMatrix& x, const Parameters& parameters, const std::string& name) const {
    const ReferenceMatrix logits = product(x, parameters.at(name + "router.weight"));
    const ReferenceMatrix &up = parameters.at(name + "experts.up.weight"),
                          &down = parameters.at(name + "experts.down.weight");
    const std::int64_t width = model_.expert_cols();
    ReferenceMatrix sum(x.rows, x.cols);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(model_.experts));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](auto a, auto b) { return logits.at(r, a) > logits.at(r, b); });
      double total = 0;
      for (std::int64_t e = 0; e < (model_.normalise_experts ? model_.experts_per_token : model_.experts); ++e) {
        total += std::exp(logits.at(r, order[static_cast<std::size_t>(e)]));
      }
      for (std::int64_t j = 0; j < model_.experts_per_token; ++j) {
        const std::int64_t expert = order[static_cast<std::size_t>(j)];
        const double share = std::exp(logits.at(r, expert)) / total;
        for (std::int64_t f = 0; f < width; ++f) {
          double gate = 0, value = 0;
          for (std::int64_t c = 0; c < x.cols; ++c) {
            gate += x.at(r, c) * up.at(2 * expert * width + f, c);
            value += x.at(r, c) * up.at((2 * expert + 1) * width + f, c);
          }
          const double active = gate / (1 + std::exp(-gate)) * value;
          for (std::int64_t c = 0; c < x.cols; ++c) sum.at(r, c) += share * active * down.at(expert * x.cols + c, f);
        }
      }
    }
    return sum;
  }

  ops::ModelConfig model_;
  std::int64_t seq_;
  std::vector<std::int32_t> document_starts_;  // empty: one document a sequence
  double p_ = 0;
  std::uint64_t seed_ = 0;
  std::uint32_t step_ = 0;
};

/// Writes random weights into a program's state, so wide that every position and token matters: normal ones around 0,
/// or around 1 where a model begins with ones. Returns them as the dtype holds them.
inline ReferenceTransformer::Parameters write_wide_weights(const execute::State& state, const ops::ModelConfig& model,
                                                           DType dtype, std::uint64_t seed) {
  ReferenceTransformer::Parameters parameters;
  for (ops::ParameterSpec spec : ops::model_parameters(model)) {
    const float middle = spec.init == ops::Init::ones ? 1.0F : 0.0F;
    spec.init = ops::Init::normal;
    spec.std = spec.matrix ? 0.3F : 0.2F;
    std::vector<float> values = initial_values(spec, seed);
    for (float& value : values) {
      value += middle;
      if (dtype == DType::bf16) value = static_cast<float>(bf16(value));
    }
    ReferenceMatrix& reference = parameters.emplace(spec.name, ReferenceMatrix(spec.rows, spec.cols)).first->second;
    std::ranges::copy(values, reference.values.begin());
    if (dtype == DType::f32) std::ranges::copy(values, state.get<float>(spec.name).begin());
    if (dtype == DType::f32) continue;
    std::ranges::transform(values, state.get<bf16>(spec.name).begin(), [](float value) { return bf16(value); });
    const std::string master = spec.name + ".master";
    if (state.contains(master)) std::ranges::copy(values, state.get<float>(master).begin());
  }
  return parameters;
}

}  // namespace weft::testing
