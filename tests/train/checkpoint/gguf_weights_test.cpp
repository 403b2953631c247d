// Weights through a GGUF file: into whole models and into the parts of ranks.
#include "train/checkpoint/gguf_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/grid_arrays.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/gguf_blocks.h"
#include "train/checkpoint/weights.h"

namespace weft::train {
namespace {

class GgufWeights : public ::testing::TestWithParam<ops::Family> {
 protected:
  GgufWeights() : model_(testing::small_model(GetParam(), GetParam() == ops::Family::gpt2)) {}
  void write(
      const std::vector<ParameterState>& states, const char* type,
      const std::function<void(std::vector<GgufTensorToWrite>&)>& change = [](auto&) {}) const {
    GgufMetadata metadata;
    add_gguf_model(model_, gguf_type(type), metadata);
    auto tensors = gguf_tensors(model_, states, gguf_type(type));
    change(tensors);
    write_gguf(path(), metadata, tensors);
  }
  std::filesystem::path path() const { return folder_.path("model.gguf"); }

  const ops::ModelConfig model_;
  const testing::TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Families, GgufWeights, testing::kFamilies,
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(GgufWeights, WholeModelsComeBack) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const testing::ModelArrays saved(model_, dtype, 1);
    testing::ModelArrays loaded(model_, dtype, 0);
    write(saved.states(), dtype == DType::f32 ? "F32" : "BF16");
    load_weights(path(), model_, loaded.states());
    EXPECT_EQ(testing::first_difference(saved, loaded, false), "");
  }
}

TEST_P(GgufWeights, ARankReadsItsParts) {
  using Fill = testing::GridArrays::Fill;
  const testing::GridArrays whole(model_, {}, 0, DType::f32, false, Fill::values);
  write(whole.states(), "F32");
  const graph::Grid grid{.x = 2, .y = 2, .z = 2};
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
    for (const bool zero1 : {false, true}) {
      testing::GridArrays part(model_, grid, rank, DType::f32, zero1, Fill::rubbish);
      load_weights(path(), model_, part.states());
      EXPECT_EQ(part.difference(false), "") << rank;
    }
  }
}

TEST_P(GgufWeights, VectorsStayFloatsAndShortRowsAreHalves) {
  const testing::ModelArrays saved(model_, DType::f32, 1);
  write(saved.states(), "Q8_0");
  const GgufFile file(path());
  for (const GgufTensor& tensor : file.tensors()) {
    const bool plain = tensor.shape.size() == 1 || tensor.name == "position_embd.weight";
    EXPECT_EQ(tensor.type.name, plain ? "F32" : "F16") << tensor.name;  // no row has 32 elements
  }
  EXPECT_EQ(file.integer("general.file_type", 0, 99), 7);
}

TEST_P(GgufWeights, RefusesOtherTensorsByName) {
  const testing::ModelArrays saved(model_, DType::f32, 1);
  testing::ModelArrays loaded(model_, DType::f32, 0);
  const auto refusal = [&](const std::function<void(std::vector<GgufTensorToWrite>&)>& change) {
    write(saved.states(), "F32", change);
    return testing::message_of<UserError>([&] { load_weights(path(), model_, loaded.states()); });
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_TRUE(has_parts(refusal([](auto& tensors) { tensors.pop_back(); }), {"has no tensor 'output"}));
  EXPECT_TRUE(has_parts(refusal([](auto& tensors) { tensors.back().name = "blk.9.attn_rot"; }), {"has no tensor"}));
  EXPECT_TRUE(has_parts(refusal([](auto& tensors) {
                          tensors.push_back(tensors.front());
                          tensors.back().name = "blk.1.ffn_gate_exps.weight";
                        }),
                        {"has a tensor 'blk.1.ffn_gate_exps.weight' that the model doesn't (1 such in all)"}));
  EXPECT_TRUE(has_parts(refusal([](auto& tensors) { std::swap(tensors.front().shape[0], tensors.front().shape[1]); }),
                        {"tensor 'token_embd.weight' has shape [8, 11]", "[11, 8] for this model"}));
}

TEST_P(GgufWeights, OtherRanksParametersMayBeThere) {
  const testing::ModelArrays saved(model_, DType::f32, 1);
  const testing::ModelArrays loaded(model_, DType::f32, 0);
  write(saved.states(), "F32");
  const auto states = loaded.states();
  const std::span<const ParameterState> first(states.data(), 3);
  const std::span<const ops::ParameterSpec> rest(loaded.specs().data() + 3, loaded.specs().size() - 3);
  load_weights(path(), model_, first, rest);
  EXPECT_EQ(loaded.data(2), saved.data(2));
  EXPECT_TRUE(refuses([&] { load_weights(path(), model_, first); }, {"that the model doesn't"}));
}

// As gguf-py's Q8_0, whose blocks gguf_blocks_test.cpp compares; here rows and their order count.
TEST(GgufQuantized, RowsOfHeadsAreReordered) {
  ops::ModelConfig model = testing::small_model(ops::Family::llama, true);
  model.hidden = 32;
  model.heads = 2;
  model.kv_heads = 1;
  const testing::ModelArrays saved(model, DType::f32, 1);
  const testing::TemporaryFolder folder;
  GgufMetadata metadata;
  add_gguf_model(model, gguf_type("Q8_0"), metadata);
  write_gguf(folder.path("model.gguf"), metadata, gguf_tensors(model, saved.states(), gguf_type("Q8_0")));
  const GgufFile file(folder.path("model.gguf"));
  EXPECT_EQ(file.find("blk.0.attn_q.weight")->type.name, "Q8_0");
  testing::ModelArrays loaded(model, DType::f32, 0);
  load_weights(folder.path("model.gguf"), model, loaded.states());
  const auto qkv =
      std::ranges::find(saved.specs(), "L0.attn.qkv.weight", &ops::ParameterSpec::name) - saved.specs().begin();
  const std::vector<float>&given = saved.data(static_cast<std::size_t>(qkv)),
        &found = loaded.data(static_cast<std::size_t>(qkv));
  // Row 1 of a head of 16 in Hugging Face's order is row 2 of the file; row 9 is row 3.
  for (const auto& [row, in_file] : {std::pair<std::size_t, std::size_t>{1, 2}, {9, 3}, {16 + 8, 16 + 1}}) {
    std::vector<float> stored(32), expected(32);
    read_elements(file, *file.find("blk.0.attn_q.weight"), in_file * 32, stored);
    std::vector<std::byte> blocks(34);
    quantize(gguf_type("Q8_0"), std::span(given).subspan(row * 32, 32), blocks);
    dequantize(gguf_type("Q8_0"), blocks, expected);
    EXPECT_EQ(stored, expected);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin() + static_cast<std::ptrdiff_t>(row * 32)));
  }
}

TEST(GgufQuantized, NumbersThatAreNotFiniteAreRefusedByTheirTensor) {
  ops::ModelConfig model = testing::small_model(ops::Family::llama, true);
  model.hidden = 32;
  const testing::ModelArrays saved(model, DType::f32, 1);
  const auto states = saved.states();
  static_cast<float*>(states.front().data)[5] = std::numeric_limits<float>::infinity();
  std::vector<std::byte> scratch;
  const auto bytes_as = [&](const char* type) { gguf_tensors(model, states, gguf_type(type)).front().bytes(scratch); };
  bytes_as("F32");
  EXPECT_TRUE(refuses([&] { bytes_as("Q8_0"); }, {"'token_embd.weight' holds a NaN or an infinity", "f32"}));
}

}  // namespace
}  // namespace weft::train
