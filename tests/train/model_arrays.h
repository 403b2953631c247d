// A small model's parameters with optimizer state, each value different, for tests that save and load them; and the
// values that parameters begin with.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "ops/model_config.h"
#include "tests/ops/tiny_model.h"
#include "train/checkpoint/manifest.h"
#include "train/checkpoint/parameter_state.h"
#include "train/step/training_state.h"

namespace weft::testing {

inline ops::ModelConfig small_model(ops::Family family, bool tied) {
  ops::ModelConfig model =
      of_family(family, {.layers = 2, .hidden = 8, .heads = 4, .kv_heads = 2, .ffn = 12, .vocab = 11, .context = 6});
  model.tied = tied;
  return model;
}

/// The families in both types, as a test's parameter and the names of its cases.
inline const auto kSavedModels = ::testing::Combine(kFamilies, ::testing::Values(DType::f32, DType::bf16));
inline const auto kNameOfSavedModel = [](const auto& info) {
  return std::string(to_string(std::get<0>(info.param))) + "_" + std::string(to_string(std::get<1>(info.param)));
};

inline train::CheckpointInfo checkpoint_info(const ops::ModelConfig& model, DType dtype, std::int64_t step) {
  return {step, 7, 4096, dtype, model, "steps = 9\n# \"quoted\"\n", {{"weft", "0.1.0"}}};
}

class ModelArrays {
 public:
  /// `first`: the first value; 0 gives arrays to load into, all zero.
  ModelArrays(const ops::ModelConfig& model, DType dtype, float first)
      : specs_(ops::model_parameters(model)), dtype_(dtype) {
    float value = first;
    const auto filled = [&](std::size_t count) {
      std::vector<float> values(count);
      for (float& element : values) element = first == 0 ? 0 : (value += 0.25F);
      return values;
    };
    for (const ops::ParameterSpec& spec : specs_) {
      const auto count = static_cast<std::size_t>(spec.rows * spec.cols);
      Arrays arrays{filled(count), {}, filled(count), filled(count), filled(count)};
      for (const float element : arrays.data) arrays.half.emplace_back(element);
      arrays_.push_back(std::move(arrays));
    }
  }

  std::vector<train::ParameterState> states() const {
    std::vector<train::ParameterState> states;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      Arrays& a = arrays_[i];
      const bool half = dtype_ == DType::bf16;
      states.push_back({&specs_[i], dtype_, half ? static_cast<void*>(a.half.data()) : a.data.data(), a.m.data(),
                        a.v.data(), half ? a.master.data() : nullptr});
      if (specs_[i].frozen) states.back().m = states.back().v = states.back().master = nullptr;
    }
    return states;
  }
  const std::vector<ops::ParameterSpec>& specs() const { return specs_; }
  /// The parameter's elements, as fp32 arrays hold them.
  const std::vector<float>& data(std::size_t i) const { return arrays_[i].data; }
  const std::vector<float>& master(std::size_t i) const { return arrays_[i].master; }

 private:
  struct Arrays {
    std::vector<float> data;
    std::vector<bf16> half;
    std::vector<float> m, v, master;
  };
  std::vector<ops::ParameterSpec> specs_;
  DType dtype_;
  mutable std::vector<Arrays> arrays_;  // to be loaded into
};

/// The initial values of a whole parameter.
inline std::vector<float> initial_values(const ops::ParameterSpec& spec, std::uint64_t seed) {
  const std::int64_t n = spec.rows * spec.cols;
  const ops::ParameterShard whole{.spec = &spec,
                                  .rows = spec.rows,
                                  .cols = spec.cols,
                                  .end = n,
                                  .update_end = n,
                                  .runs = {{.local = 0, .global = 0, .count = n}}};
  std::vector<float> values(static_cast<std::size_t>(n));
  train::initialize_parameter(whole, seed, DType::f32, values.data(), nullptr);
  return values;
}

/// The name of the first parameter with a different bit in an array; "" if there is none.
inline std::string first_difference(const ModelArrays& a, const ModelArrays& b, bool with_optimizer) {
  const auto left = a.states(), right = b.states();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto count = static_cast<std::size_t>(left[i].spec->rows * left[i].spec->cols);
    const auto differ = [count](const void* x, const void* y, std::size_t size) {
      return x != nullptr && std::memcmp(x, y, count * size) != 0;
    };
    if (differ(left[i].data, right[i].data, size_of(left[i].dtype))) return left[i].spec->name;
    if (!with_optimizer) continue;
    if (differ(left[i].m, right[i].m, 4) || differ(left[i].v, right[i].v, 4) ||
        differ(left[i].master, right[i].master, 4)) {
      return left[i].spec->name + " (optimizer)";
    }
  }
  return "";
}

}  // namespace weft::testing
