// Sizes and names of GGUF's models, and what is refused by name.
#include "train/checkpoint/gguf_model.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/gguf_weights.h"

namespace weft::train {
namespace {

class GgufModelTest : public ::testing::Test {
 protected:
  using Change = std::function<void(GgufMetadata&)>;

  /// A file with these metadata and zeros as tensors.
  GgufFile file_of(const GgufMetadata& metadata,
                   const std::vector<std::pair<std::string, std::vector<float>>>& tensors) {
    std::vector<GgufTensorToWrite> list;
    for (const auto& [name, values] : tensors) {
      const bool matrix = name == "token_embd.weight" || name == "output.weight";
      list.push_back(
          {name, gguf_type("F32"),
           matrix ? std::vector<std::uint64_t>{values.size() / 8, 8} : std::vector<std::uint64_t>{values.size()},
           [values = std::as_bytes(std::span(values))](auto&) { return values; }});
    }
    write_gguf(folder_.path("model.gguf"), metadata, list);
    return GgufFile(folder_.path("model.gguf"));
  }
  /// A llama of 8 columns and 11 tokens; `change` adds to it.
  static GgufMetadata llama(const Change& change = [](GgufMetadata&) {}) {
    GgufMetadata metadata;
    metadata.text("general.architecture", "llama").integer("llama.block_count", 2).integer("llama.context_length", 6);
    metadata.integer("llama.embedding_length", 8).integer("llama.feed_forward_length", 12);
    metadata.integer("llama.attention.head_count", 2).integer("llama.attention.head_count_kv", 1);
    metadata.number("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    change(metadata);
    return metadata;
  }
  static std::vector<std::pair<std::string, std::vector<float>>> embedding() {
    return {{"token_embd.weight", std::vector<float>(88)}};
  }
  /// The refusal of a llama with this change.
  std::string refusal(const Change& change) {
    return testing::message_of<UserError>([&] { (void)read_gguf_config(file_of(llama(change), embedding())); });
  }
  /// The model that is read from what is written for a model.
  ops::ModelConfig again(const ops::ModelConfig& model) {
    GgufMetadata metadata;
    const testing::ModelArrays arrays(model, DType::f32, 1);
    add_gguf_model(model, gguf_type("F32"), metadata);
    write_gguf(folder_.path("model.gguf"), metadata, gguf_tensors(model, arrays.states(), gguf_type("F32")));
    return read_gguf_config(GgufFile(folder_.path("model.gguf"))).model;
  }
  void expect_again(ops::ModelConfig model) {
    ops::ModelConfig read = again(model);
    read.init_std = model.init_std;
    EXPECT_EQ(hf_config_json(read, DType::f32), hf_config_json(model, DType::f32));
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(GgufModelTest, SizesComeFromTheMetadata) {
  const HfConfig config = read_gguf_config(file_of(llama(), embedding()));
  EXPECT_EQ(config.model.family, ops::Family::llama);
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.kv_heads, 1);
  EXPECT_EQ(config.model.ffn, 12);
  EXPECT_EQ(config.model.vocab, 11);  // the embedding's rows
  EXPECT_EQ(config.model.context, 6);
  EXPECT_EQ(config.model.norm_eps, 1e-5F);
  EXPECT_EQ(config.model.rope_theta, 10000.0F);
  EXPECT_TRUE(config.model.tied);
  EXPECT_EQ(config.dtype, DType::f32);
  auto tensors = embedding();
  tensors.push_back({"output.weight", std::vector<float>(88)});
  EXPECT_FALSE(read_gguf_config(file_of(llama(), tensors)).model.tied);
}

TEST_F(GgufModelTest, AWindowOfLlamaIsMistrals) {
  const auto config = nlohmann::json::parse(gguf_config_json(
      file_of(llama([](auto& metadata) { metadata.integer("llama.attention.sliding_window", 4); }), embedding())));
  EXPECT_EQ(config.at("model_type"), "mistral");
  EXPECT_EQ(config.at("sliding_window"), 4);
}

TEST_F(GgufModelTest, RefusesByName) {
  EXPECT_TRUE(has_parts(refusal([](auto& m) { m.integer("split.count", 3); }), {"split.count is 3", "--merge"}));
  EXPECT_TRUE(has_parts(refusal([](auto& m) { m.integer("llama.expert_count", 8); }), {"llama.expert_count is 8"}));
  EXPECT_TRUE(has_parts(refusal([](auto& m) { m.number("llama.logit_scale", 2); }), {"llama.logit_scale is 2"}));
  EXPECT_TRUE(has_parts(refusal([](auto& m) { m.integer("llama.rope.dimension_count", 2); }),
                        {"llama.rope.dimension_count is 2", "expected 4"}));
  EXPECT_TRUE(has_parts(refusal([](auto& m) { m.text("llama.rope.scaling.type", "longrope"); }),
                        {"rope.scaling.type is longrope", "none, linear or yarn"}));
  EXPECT_TRUE(has_parts(refusal([](auto& m) { m.number("llama.rope.scaling.attn_factor", 2); }),
                        {"attn_factor is 2", "expected 1"}));
  EXPECT_TRUE(has_parts(refusal([](auto& m) { m.integer("llama.attention.value_length", 8); }),
                        {"attention.value_length is 8"}));
  EXPECT_TRUE(has_parts(refusal([](auto& m) { m.integer("llama.attention.key_length", 3); }), {"'"}));
  GgufMetadata other;
  other.text("general.architecture", "gemma2");
  EXPECT_TRUE(refuses([&] { (void)read_gguf_config(file_of(other, embedding())); },
                      {"general.architecture is gemma2", "llama, qwen2, qwen3 or gpt2"}));
  EXPECT_TRUE(refuses([&] { (void)read_gguf_config(file_of({}, embedding())); }, {"has no general.architecture"}));
  EXPECT_TRUE(refuses([&] { (void)read_gguf_config(file_of(llama(), {})); }, {"no matrix 'token_embd.weight'"}));
}

TEST_F(GgufModelTest, RefusesFactorsOfAnotherScaling) {
  auto tensors = embedding();
  tensors.push_back({"rope_freqs.weight", {2, 3}});
  EXPECT_TRUE(refuses([&] { (void)read_gguf_config(file_of(llama(), tensors)); }, {"'rope_freqs.weight'", "llama3"}));
  tensors.back().second = {1, 1};
  EXPECT_EQ(read_gguf_config(file_of(llama(), tensors)).model.rope_scaling_factor, 1.0F);
  tensors.back().second = {1, 1, 1};
  EXPECT_TRUE(refuses([&] { (void)read_gguf_config(file_of(llama(), tensors)); }, {"has 3 elements", "2, half"}));
}

TEST_F(GgufModelTest, WhatIsWrittenForAModelIsReadAsTheModel) {
  for (const bool tied : {true, false}) {
    ops::ModelConfig llama = testing::small_model(ops::Family::llama, tied);
    expect_again(llama);
    llama.head_size = 6;
    expect_again(llama);
    ops::ModelConfig qwen2 = llama;
    qwen2.qkv_bias = true;
    expect_again(qwen2);
    ops::ModelConfig biased = qwen2;
    biased.out_bias = biased.mlp_bias = true;
    expect_again(biased);
    ops::ModelConfig qwen3 = llama;
    qwen3.qk_norm = true;
    expect_again(qwen3);
  }
  expect_again(testing::small_model(ops::Family::gpt2, true));
}

TEST_F(GgufModelTest, ScalingOfRopeComesBack) {
  ops::ModelConfig model = testing::small_model(ops::Family::llama, true);
  model.head_size = 64;
  model.rope_theta = 500000.0F;
  model.rope_scaling_factor = 8.0F;
  expect_again(model);  // llama3: a tensor
  model.rope_original_context = 1024.0F;
  expect_again(model);
  model.rope_low_freq_factor = 2.0F;
  EXPECT_TRUE(refuses([&] { (void)again(model); }, {"other factors than llama3"}));
  model.rope_low_freq_factor = 1.0F;
  model.rope_scaling = ops::RopeKind::linear;
  model.rope_original_context = 8192.0F;
  model.rope_high_freq_factor = 4.0F;
  EXPECT_EQ(again(model).rope_scaling, ops::RopeKind::linear);
  EXPECT_EQ(again(model).rope_scaling_factor, 8.0F);
  model.rope_scaling = ops::RopeKind::yarn;
  model.rope_high_freq_factor = 32.0F;
  expect_again(model);
  model.rope_high_freq_factor = 16.0F;
  expect_again(model);
  model.rope_attention_factor = 1.5F;
  EXPECT_TRUE(refuses([&] { (void)again(model); }, {"yarn scaling with an attention factor"}));
}

TEST_F(GgufModelTest, RefusesModelsThatCantBeSaid) {
  ops::ModelConfig model = testing::small_model(ops::Family::llama, true);
  model.window = 3;
  EXPECT_TRUE(refuses([&] { (void)gguf_architecture(model); }, {"window of attention", "--format hf"}));
  model.window = 0;
  model.qk_norm = model.qkv_bias = model.out_bias = true;
  EXPECT_TRUE(refuses([&] { (void)gguf_architecture(model); }, {"norms of Q and K, and biases"}));
  for (const testing::ModelKind kind : {testing::ModelKind::mixtral, testing::ModelKind::qwen3_moe}) {
    EXPECT_TRUE(refuses([&] { (void)gguf_architecture(testing::tiny_model(kind)); }, {to_string(kind), "--format hf"}));
  }
}

TEST(GgufNames, AreThoseOfBothLayouts) {
  EXPECT_EQ(gguf_tensor_name("model.layers.12.self_attn.q_proj.bias"), "blk.12.attn_q.bias");
  EXPECT_EQ(gguf_tensor_name("h.0.mlp.c_proj.weight"), "blk.0.ffn_down.weight");
  EXPECT_EQ(gguf_tensor_name("wpe.weight"), "position_embd.weight");
  EXPECT_EQ(gguf_tensor_name("lm_head.weight"), "output.weight");
  EXPECT_EQ(gguf_tensor_name("model.layers.1.mlp.experts.0.up_proj.weight"), std::nullopt);
  EXPECT_EQ(gguf_tensor_name("model.layers"), std::nullopt);
  EXPECT_EQ(gguf_tensor_name("x"), std::nullopt);
}

TEST(GgufRows, NeighboursRotateTogether) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < 12; ++row) rows.push_back(neighbour_row(row, 6));
  EXPECT_EQ(rows, (std::vector<std::int64_t>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
}

}  // namespace
}  // namespace weft::train
