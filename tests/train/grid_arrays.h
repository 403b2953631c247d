// A rank's arrays on any grid; each element only depends on its place in the whole model.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <string>
#include <vector>

#include "base/philox.h"
#include "ops/sharding.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::testing {

class GridArrays {
 public:
  enum class Fill : std::uint8_t { values, rubbish };

  /// `rubbish`: arrays to load into. There is a master if a program has one: for bf16 parameters and for parameters
  /// that ZeRO-1 shards; of fp32 parameters it holds their values.
  GridArrays(const ops::ModelConfig& model, const graph::Grid& grid, std::int64_t rank, DType dtype, bool zero1,
             Fill fill, std::uint64_t seed = 1)
      : specs_(ops::model_parameters(model)), seed_(seed) {
    shards_ = ops::shard_parameters(model, specs_, grid, graph::coordinates_of(grid, rank), zero1);
    for (const ops::ParameterShard& shard : shards_) {
      Arrays& arrays = arrays_.emplace_back();
      const bool cut = zero1 && ops::zero1_cuts(shard, grid);
      const auto kept = static_cast<std::size_t>(shard.end - shard.begin);
      const auto updated = static_cast<std::size_t>(shard.update_end - shard.update_begin);
      for (std::vector<float>* array : {&arrays.data, &arrays.m, &arrays.v, &arrays.master}) {
        array->assign(array == &arrays.data ? kept : updated, -7.0F);
      }
      arrays.half.assign(kept, bf16(-7.0F));
      if (fill == Fill::values) {
        for_each_element(shard, arrays, dtype, [](auto& element, float value) {
          element = std::remove_reference_t<decltype(element)>(value);
        });
      }
      const bool frozen = shard.spec->frozen, has_master = !frozen && (dtype == DType::bf16 || cut);
      states_.push_back({&*shard.spec, dtype,
                         dtype == DType::bf16 ? static_cast<void*>(arrays.half.data()) : arrays.data.data(),
                         frozen ? nullptr : arrays.m.data(), frozen ? nullptr : arrays.v.data(),
                         has_master ? arrays.master.data() : nullptr, &shard});
    }
  }
  GridArrays(const GridArrays&) = delete;
  GridArrays& operator=(const GridArrays&) = delete;

  const std::vector<train::ParameterState>& states() const { return states_; }

  /// The first element with a wrong value; "" if there is none. Without the optimizer, m and v aren't checked and a
  /// master must have the parameter's value.
  std::string difference(bool with_optimizer = true) {
    std::string found;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const train::ParameterState& state = states_[i];
      for_each_element(
          *state.shard, arrays_[i], state.dtype,
          [&](auto& element, float value) {
            const auto expected = std::remove_reference_t<decltype(element)>(value);
            if (found.empty() && static_cast<float>(element) != static_cast<float>(expected)) {
              found = fmt::format("{}: {} instead of {}", state.spec->name, static_cast<float>(element), value);
            }
          },
          with_optimizer && !state.spec->frozen, state.master != nullptr);
    }
    return found;
  }

 private:
  struct Arrays {
    std::vector<float> data;
    std::vector<bf16> half;
    std::vector<float> m, v, master;
  };

  float value(char content, const ops::ParameterSpec& spec, std::int64_t element) const {
    if (element < 0) return 0;
    const auto stream = static_cast<std::uint32_t>(static_cast<unsigned char>(content));
    const std::uint32_t bits = philox_quad(seed_, stream, spec.site, static_cast<std::uint64_t>(element))[0];
    return static_cast<float>(bits >> 8) * 0x1p-20F - 8;
  }

  template <class Visit>
  void for_each_element(const ops::ParameterShard& shard, Arrays& arrays, DType dtype, const Visit& visit,
                        bool with_optimizer = true, bool with_master = true) const {
    const auto walk = [&](std::int64_t from, std::int64_t to, auto& array, char content, bool rounded) {
      for (const ops::ElementRun& run : shard.runs_within(from, to)) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          const float exact = value(content, *shard.spec, run.global < 0 ? -1 : run.global + i);
          visit(array.at(static_cast<std::size_t>(run.local + i)), rounded ? static_cast<float>(bf16(exact)) : exact);
        }
      }
    };
    const bool half = dtype == DType::bf16;
    half ? walk(shard.begin, shard.end, arrays.half, 'p', false)
         : walk(shard.begin, shard.end, arrays.data, 'p', false);
    if (with_master) {
      const bool own = half && with_optimizer;
      walk(shard.update_begin, shard.update_end, arrays.master, own ? 'a' : 'p', half && !own);
    }
    if (!with_optimizer) return;
    walk(shard.update_begin, shard.update_end, arrays.m, 'm', false);
    walk(shard.update_begin, shard.update_end, arrays.v, 'v', false);
  }

  std::vector<ops::ParameterSpec> specs_;
  std::vector<ops::ParameterShard> shards_;
  std::deque<Arrays> arrays_;
  std::vector<train::ParameterState> states_;
  std::uint64_t seed_;
};

}  // namespace weft::testing
