// Hugging Face's layout: names, prefixes, transpositions, ties, shards and refusals.
#include "train/checkpoint/weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/safetensors.h"

namespace weft::train {
namespace {

struct Values {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Values>;

Tensors read_all(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  Tensors tensors;
  for (const StoredTensorInfo& info : file.tensors()) {
    tensors[info.name] = {info.shape, file.read(info)};
  }
  return tensors;
}

void write_all(const std::filesystem::path& path, const Tensors& tensors) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, entry] : tensors) {
    list.push_back({name, stored_type(DType::f32), entry.shape,
                    [values = std::as_bytes(std::span(entry.values))](std::vector<std::byte>&) { return values; }});
  }
  write_safetensors(path, std::move(list));
}

class Weights : public ::testing::TestWithParam<ops::Family> {
 protected:
  Weights() : model_(testing::small_model(GetParam(), true)), saved_(model_, DType::f32, 1) {
    save_weights(folder_.path(), model_, saved_.states());
    tensors_ = read_all(folder_.path("model.safetensors"));
  }
  bool gpt2() const { return model_.family == ops::Family::gpt2; }
  std::string embedding() const { return gpt2() ? "wte.weight" : "model.embed_tokens.weight"; }
  /// "" if `path` gives the saved parameters; else the error of load_weights(), or the parameter that differs.
  std::string load(const std::filesystem::path& path) const {
    testing::ModelArrays loaded(model_, DType::f32, 0);
    const std::string refusal = testing::message_of<UserError>([&] { load_weights(path, model_, loaded.states()); });
    return refusal.empty() ? testing::first_difference(saved_, loaded, false) : refusal;
  }
  std::string load(const Tensors& tensors) const {
    const auto path = folder_.path("other.safetensors");
    write_all(path, tensors);
    return load(path);
  }

  testing::TemporaryFolder folder_;
  ops::ModelConfig model_;
  testing::ModelArrays saved_;
  Tensors tensors_;
};

INSTANTIATE_TEST_SUITE_P(Families, Weights, ::testing::Values(ops::Family::gpt2, ops::Family::llama),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(Weights, LoadFromFolderAndFile) {
  EXPECT_EQ(load(folder_.path()), "");
  EXPECT_EQ(load(folder_.path("model.safetensors")), "");
  EXPECT_TRUE(std::filesystem::exists(folder_.path("config.json")));
}

TEST_P(Weights, HaveTheNamesAndShapesOfHuggingFace) {
  using Shape = std::vector<std::uint64_t>;
  EXPECT_EQ(tensors_.at(embedding()).shape, (Shape{11, 8}));
  if (gpt2()) {
    EXPECT_EQ(tensors_.size(), 2U + 2 * 12 + 2);
    EXPECT_EQ(tensors_.at("h.1.attn.c_attn.weight").shape, (Shape{8, 24}));  // Conv1D: [in, out]
    EXPECT_EQ(tensors_.at("h.1.attn.c_attn.bias").shape, (Shape{24}));
    EXPECT_EQ(tensors_.at("h.0.mlp.c_proj.weight").shape, (Shape{12, 8}));
  } else {
    EXPECT_EQ(tensors_.size(), 1U + 2 * 9 + 1);
    EXPECT_EQ(tensors_.at("model.layers.1.self_attn.q_proj.weight").shape, (Shape{8, 8}));
    EXPECT_EQ(tensors_.at("model.layers.1.self_attn.v_proj.weight").shape, (Shape{4, 8}));
    EXPECT_EQ(tensors_.at("model.layers.0.mlp.down_proj.weight").shape, (Shape{8, 12}));
  }
}

TEST_P(Weights, PackedRowsAreWhereTheFilesTensorsSay) {
  const auto& specs = saved_.specs();
  const auto qkv =
      std::find_if(specs.begin(), specs.end(), [](const auto& s) { return s.name == "L1.attn.qkv.weight"; });
  const auto& data = saved_.data(static_cast<std::size_t>(qkv - specs.begin()));
  if (gpt2()) {
    const auto& stored = tensors_.at("h.1.attn.c_attn.weight").values;
    EXPECT_EQ(stored[3 * 24 + 17], data[17 * 8 + 3]);
  } else {
    EXPECT_EQ(tensors_.at("model.layers.1.self_attn.v_proj.weight").values[2 * 8 + 5], data[(8 + 4 + 2) * 8 + 5]);
  }
}

TEST_P(Weights, AcceptTheOtherSpellingOfNames) {
  Tensors renamed;
  for (const auto& [name, entry] : tensors_) {
    renamed[gpt2() ? "transformer." + name : name.substr(std::string("model.").size())] = entry;
  }
  EXPECT_EQ(load(renamed), "");
}

TEST_P(Weights, IgnoreMasksAndFrequencies) {
  tensors_[gpt2() ? "h.0.attn.bias" : "model.layers.0.self_attn.rotary_emb.inv_freq"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  if (gpt2()) tensors_["h.1.attn.masked_bias"] = {{}, {-1e4F}};
  EXPECT_EQ(load(tensors_), "");
}

TEST_P(Weights, AcceptATiedHeadThatEqualsTheEmbedding) {
  tensors_["lm_head.weight"] = tensors_.at(embedding());
  EXPECT_EQ(load(tensors_), "");
  tensors_["lm_head.weight"].values[5] += 1;
  EXPECT_TRUE(has_parts(load(tensors_), {"'lm_head.weight' differs from '" + embedding(), "tie_word_embeddings"}));
}

TEST_P(Weights, RefuseMissingSuperfluousAndMisshapenTensorsByName) {
  const std::string name = gpt2() ? "h.1.ln_2.weight" : "model.layers.1.post_attention_layernorm.weight";
  Tensors changed = tensors_;
  changed.erase(name);
  EXPECT_TRUE(has_parts(load(changed), {"other.safetensors' has no tensor '" + name}));
  changed = tensors_;
  changed[name] = {{2, 4}, std::vector<float>(8)};
  EXPECT_TRUE(has_parts(load(changed), {name + "' has shape [2, 4]", "[8] for this model"}));
  changed = tensors_;
  changed[gpt2() ? "h.2.ln_1.weight" : "model.layers.2.input_layernorm.weight"] = {{8}, std::vector<float>(8)};
  EXPECT_TRUE(has_parts(load(changed), {"has a tensor", "2.", "1 such in all"}));
  changed = tensors_;
  changed[gpt2() ? "transformer." + name : name.substr(6)] = changed.at(name);
  EXPECT_TRUE(has_parts(load(changed), {name + "' a second time"}));
}

TEST_P(Weights, LoadFromShards) {
  const testing::TemporaryFolder sharded;
  Tensors half[2];
  std::string map;
  int n = 0;
  for (const auto& [name, entry] : tensors_) {
    half[n % 2][name] = entry;
    map += (map.empty() ? "\"" : ",\"") + name + "\":\"part" + std::to_string(n % 2) + ".safetensors\"";
    ++n;
  }
  sharded.write("model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
  write_all(sharded.path("part0.safetensors"), half[0]);
  EXPECT_TRUE(has_parts(load(sharded.path()), {"part1.safetensors' doesn't exist"}));
  write_all(sharded.path("part1.safetensors"), half[1]);
  EXPECT_EQ(load(sharded.path()), "");
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// Few tensors are larger than 400 bytes; these have a shard of their own.
TEST_P(Weights, AreCutIntoShardsOfASize) {
  const testing::TemporaryFolder sharded;
  const auto files = save_weights(sharded.path(), model_, saved_.states(), 400);
  EXPECT_EQ(load(sharded.path()), "");
  const auto index =
      nlohmann::json::parse(testing::TemporaryFolder::read(sharded.path("model.safetensors.index.json")));
  EXPECT_EQ(index["metadata"]["total_parameters"], model_.parameters());
  EXPECT_EQ(index["metadata"]["total_size"], 4 * model_.parameters());
  EXPECT_EQ(index["weight_map"].size(), tensors_.size());
  std::map<std::string, std::vector<std::uint64_t>> bytes;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    bytes[file].push_back(4 * tensors_.at(tensor).values.size());
  }
  for (const auto& [file, sizes] : bytes) {
    EXPECT_TRUE(sizes.size() == 1 || std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}) <= 400) << file;
  }
  std::vector<std::string> expected = {"config.json", "model.safetensors.index.json"};
  for (std::size_t i = 1; i <= bytes.size(); ++i) {
    expected.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i, bytes.size()));
  }
  std::ranges::sort(expected);
  EXPECT_EQ(names_in(sharded.path()), expected);
  EXPECT_EQ(files.size(), expected.size());
  // A tensor that is larger than a shard may be has a file of its own.
  const testing::TemporaryFolder each;
  save_weights(each.path(), model_, saved_.states(), 1);
  EXPECT_EQ(names_in(each.path()).size(), 2 + tensors_.size());
  EXPECT_EQ(load(each.path()), "");
}

TEST_P(Weights, ReadIntoBf16AndItsMaster) {
  testing::ModelArrays loaded(model_, DType::bf16, 0);
  load_weights(folder_.path(), model_, loaded.states());
  for (std::size_t i = 0; i < saved_.specs().size(); ++i) EXPECT_EQ(loaded.master(i), saved_.data(i));
  EXPECT_EQ(testing::first_difference(testing::ModelArrays(model_, DType::bf16, 1), loaded, false), "");
}

TEST_P(Weights, AnUntiedHeadIsAParameterOfItsOwn) {
  const testing::TemporaryFolder folder;
  const ops::ModelConfig untied = testing::small_model(GetParam(), false);
  const testing::ModelArrays saved(untied, DType::f32, 1);
  save_weights(folder.path(), untied, saved.states());
  testing::ModelArrays loaded(untied, DType::f32, 0);
  load_weights(folder.path(), untied, loaded.states());
  EXPECT_EQ(testing::first_difference(saved, loaded, false), "");
  EXPECT_TRUE(has_parts(load(folder.path()), {"lm_head.weight"}));  // into the tied model
}

TEST(WeightFiles, AnIndexNamesFilesInItsOwnFolderOnly) {
  const testing::TemporaryFolder folder;
  write_safetensors(folder.path("outside.safetensors"), {});
  for (const char* shard : {"../outside.safetensors", "/etc/passwd", "..", ".", "", "sub/x.safetensors", "x\\u0000y"}) {
    folder.write("weights/model.safetensors.index.json", fmt::format(R"({{"weight_map": {{"a": "{}"}}}})", shard));
    EXPECT_TRUE(refuses([&] { load_weights(folder.path("weights"), ops::ModelConfig(), {}); },
                        {"index.json' names the file '", "files in the folder of the index"}))
        << shard;
  }
}

// Of every type that safetensors knows, those that aren't what they say without their scales.
TEST(WeightFiles, RefusesTypesOfQuantizedWeightsByName) {
  for (const char* type : {"I8", "U8", "I16", "I32", "I64", "U32", "F8_E4M3", "F8_E5M2", "BOOL"}) {
    SCOPED_TRACE(type);
    const testing::TemporaryFolder folder;
    const std::size_t width = type[0] == 'B' || type[1] == '8' ? 1 : type[1] == '1' ? 2 : type[1] == '3' ? 4 : 8;
    const auto zeros = [width](std::vector<std::byte>& scratch) {
      scratch.assign(2 * width, std::byte{0});
      return std::span<const std::byte>(scratch);
    };
    write_safetensors(folder.path("model.safetensors"), {{"h.0.attn.c_attn.qweight", {type, width}, {2}, zeros}});
    EXPECT_TRUE(refuses([&] { load_weights(folder.path(), testing::small_model(ops::Family::gpt2, true), {}); },
                        {"'h.0.attn.c_attn.qweight'", type}));
  }
}

TEST(WeightFiles, RefusesFoldersWithoutSafetensors) {
  const testing::TemporaryFolder folder;
  const auto load = [&](const std::filesystem::path& path) {
    return testing::message_of<UserError>(
        [&] { load_weights(path, testing::small_model(ops::Family::gpt2, true), {}); });
  };
  EXPECT_TRUE(has_parts(load(folder.path("none")), {"none' doesn't exist"}));
  EXPECT_TRUE(has_parts(load(folder.path()), {"holds no model.safetensors"}));
  folder.write("pytorch_model.bin", "x");
  EXPECT_TRUE(has_parts(load(folder.path()), {"save_pretrained"}));
  folder.write("model.safetensors.index.json", "{\"weight_map\":{}}");
  EXPECT_TRUE(has_parts(load(folder.path()), {"names no files"}));
  folder.write("model.safetensors.index.json", "{}");
  EXPECT_TRUE(has_parts(load(folder.path()), {"no weight_map"}));
  folder.write("model.safetensors.index.json", "[]");
  EXPECT_TRUE(has_parts(load(folder.path()), {"index.json' is []", "an object"}));
}

/// The tensors of a model with experts, as transformers 5 has them in memory.
Tensors stacked(const Tensors& tensors, const ops::ModelConfig& model) {
  const ops::StoredNames& names = *model.parts().stored;
  Tensors result = tensors;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!model.has_experts(layer)) continue;
    const std::string begin = fmt::format("model.layers.{}.", layer);
    const auto count = static_cast<std::uint64_t>(model.experts),
               width = static_cast<std::uint64_t>(model.expert_cols()),
               hidden = static_cast<std::uint64_t>(model.hidden);
    Values up{{count, 2 * width, hidden}, {}}, down{{count, hidden, width}, {}};
    const auto move_to = [&](Values& stack, std::int64_t expert, std::size_t part) {
      const auto node =
          result.extract(fmt::format("{}{}.{}.{}.weight", begin, names.experts, expert, names.expert.at(part)));
      stack.values.insert(stack.values.end(), node.mapped().values.begin(), node.mapped().values.end());
    };
    for (std::int64_t expert = 0; expert < model.experts; ++expert) {
      move_to(up, expert, 0);
      move_to(up, expert, 1);
      move_to(down, expert, 2);
    }
    result[begin + "mlp.experts.gate_up_proj"] = up;
    result[begin + "mlp.experts.down_proj"] = down;
    auto router = result.extract(fmt::format("{}{}.weight", begin, names.router));
    router.key() = begin + "mlp.gate.weight";
    result.insert(std::move(router));
  }
  return result;
}

TEST(WeightFiles, ExpertsAreApartOrStacked) {
  for (const testing::ModelKind kind : {testing::ModelKind::mixtral, testing::ModelKind::qwen3_moe}) {
    SCOPED_TRACE(to_string(kind));
    ops::ModelConfig model = testing::tiny_model(kind);
    if (kind == testing::ModelKind::qwen3_moe) model.layers = 3, model.dense_layers = ops::LayerSet({1});
    const testing::ModelArrays saved(model, DType::f32, 1);
    const testing::TemporaryFolder folder;
    save_weights(folder.path(), model, saved.states());
    const Tensors apart = read_all(folder.path("model.safetensors"));
    const auto load = [&](const Tensors& tensors) {
      write_all(folder.path("other.safetensors"), tensors);
      testing::ModelArrays loaded(model, DType::f32, 0);
      const std::string refusal = testing::message_of<UserError>(
          [&] { load_weights(folder.path("other.safetensors"), model, loaded.states()); });
      return refusal.empty() ? testing::first_difference(saved, loaded, false) : refusal;
    };
    EXPECT_EQ(load(apart), "");
    Tensors together = stacked(apart, model);
    EXPECT_LT(together.size(), apart.size());
    EXPECT_EQ(load(together), "");
    Tensors both = together;
    const auto single = std::ranges::find_if(apart, [&](const auto& entry) { return !together.contains(entry.first); });
    both.insert(*single);
    EXPECT_TRUE(has_parts(load(both), {single->first, "1 such in all"}));
    Values& up = together.at("model.layers.0.mlp.experts.gate_up_proj");
    std::swap(up.shape[0], up.shape[1]);
    EXPECT_TRUE(has_parts(load(together), {"gate_up_proj' has shape", "for this model"}));
    together.erase("model.layers.0.mlp.experts.gate_up_proj");
    EXPECT_TRUE(has_parts(load(together), {"has no tensor 'model.layers.0.", "experts.0."}));
  }
}

TEST(WeightFiles, ARankReadsItsPartOfExperts) {
  const ops::ModelConfig model = testing::tiny_model(testing::ModelKind::mixtral);
  const testing::ModelArrays saved(model, DType::f32, 1);
  const testing::TemporaryFolder folder;
  save_weights(folder.path(), model, saved.states());
  const Tensors apart = read_all(folder.path("model.safetensors"));
  write_all(folder.path("stacked.safetensors"), stacked(apart, model));
  const auto expect_own = [&](const graph::Grid& grid, int rank, const char* file) {
    const auto shards = ops::shard_parameters(model, saved.specs(), grid, graph::coordinates_of(grid, rank));
    std::vector<std::vector<float>> arrays;
    std::vector<ParameterState> states;
    for (const ops::ParameterShard& shard : shards) {
      arrays.emplace_back(static_cast<std::size_t>(shard.end - shard.begin));
      states.push_back({.spec = shard.spec, .data = arrays.back().data(), .shard = &shard});
    }
    load_weights(folder.path(file), model, states);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const ops::ElementRun& run : shards[i].runs_within(shards[i].begin, shards[i].end)) {
        if (run.global < 0) continue;
        const auto begin = arrays[i].begin() + run.local;
        EXPECT_TRUE(std::equal(begin, begin + run.count, saved.data(i).begin() + run.global))
            << file << ", rank " << rank << ": " << shards[i].spec->name;
      }
    }
  };
  for (const graph::Grid& grid : {graph::Grid{.x = 2, .y = 2, .z = 2}, graph::Grid{.y = 2, .z = 4, .expert = 2}}) {
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      for (const char* const file : {"model.safetensors", "stacked.safetensors"}) expect_own(grid, rank, file);
    }
  }
}

TEST(WeightFiles, ExpertsOfMixtralHaveItsNames) {
  const ops::ModelConfig model = testing::tiny_model(testing::ModelKind::mixtral);  // four experts of 24 columns
  const testing::ModelArrays saved(model, DType::f32, 1);
  const testing::TemporaryFolder folder;
  save_weights(folder.path(), model, saved.states());
  const Tensors tensors = read_all(folder.path("model.safetensors"));
  using Shape = std::vector<std::uint64_t>;
  const std::string layer = "model.layers.1.block_sparse_moe.";
  EXPECT_EQ(tensors.at(layer + "gate.weight").shape, (Shape{4, 16}));
  EXPECT_EQ(tensors.at(layer + "experts.3.w1.weight").shape, (Shape{24, 16}));
  EXPECT_EQ(tensors.at(layer + "experts.3.w2.weight").shape, (Shape{16, 24}));
  const auto& specs = saved.specs();
  const auto up = std::ranges::find(specs, "L1.mlp.experts.up.weight", &ops::ParameterSpec::name);
  const auto& data = saved.data(static_cast<std::size_t>(up - specs.begin()));
  EXPECT_EQ(tensors.at(layer + "experts.3.w3.weight").values[5 * 16 + 2], data[((2 * 3 + 1) * 24 + 5) * 16 + 2]);
}

// A model need not fit into memory: parameters are read in the order of the file that is written.
TEST(WeightFiles, AreWrittenFromOneParameterAtATime) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    const ops::ModelConfig model = testing::small_model(family, false);
    testing::ModelArrays arrays(model, DType::bf16, 1);
    const testing::TemporaryFolder folder;
    std::filesystem::create_directory(folder.path("saved"));
    std::filesystem::create_directory(folder.path("again"));
    save_weights(folder.path("saved"), model, arrays.states());
    std::vector<ParameterState> without = arrays.states();
    for (ParameterState& parameter : without) parameter.data = nullptr;
    const ParameterReader read = open_weights(folder.path("saved"), model, without);
    std::vector<std::byte> array;
    const auto array_of = [&](const ParameterState& parameter) {
      array.assign(static_cast<std::size_t>(parameter.spec->rows * parameter.spec->cols) * size_of(DType::bf16), {});
      read({parameter.spec, DType::bf16, array.data()});
      return array.data();
    };
    save_weights(folder.path("again"), model, without, std::uint64_t{5} << 30, {}, array_of);
    EXPECT_EQ(testing::TemporaryFolder::read(folder.path("again/model.safetensors")),
              testing::TemporaryFolder::read(folder.path("saved/model.safetensors")));
  }
}

}  // namespace
}  // namespace weft::train
