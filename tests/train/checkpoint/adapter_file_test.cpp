// Folders of PEFT: adapters come back as they were written, others are refused by file and tensor, and merging adds
// them.
#include "train/checkpoint/adapter_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/adapter_config.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/weights.h"

namespace weft::train {
namespace {

ops::ModelConfig model_with_adapters(ops::Family family) {
  ops::ModelConfig model = testing::small_model(family, true);
  model.lora = {.rank = 2, .alpha = 3};
  return model;
}

TEST(PeftAdapter, FilesHoldEachAdapterApart) {
  const testing::TemporaryFolder folder;
  const ops::ModelConfig model = model_with_adapters(ops::Family::llama);
  const testing::ModelArrays arrays(model, DType::bf16, 1);
  const auto files = save_adapter(folder.path(), model, arrays.states(), "base");
  EXPECT_EQ(files.size(), 2U);
  const SafetensorsFile file(folder.path(kAdapterFile));
  EXPECT_EQ(file.tensors().size(), 2U * 7U * 2U);
  const std::string layer = "base_model.model.model.layers.1.";
  const StoredTensorInfo* const v = file.find(layer + "self_attn.v_proj.lora_A.weight");
  ASSERT_NE(v, nullptr);
  EXPECT_EQ(v->type, stored_type(DType::bf16));
  EXPECT_EQ(v->shape, (std::vector<std::uint64_t>{2, 8}));
  ASSERT_NE(file.find(layer + "mlp.up_proj.lora_B.weight"), nullptr);
  EXPECT_EQ(file.find(layer + "mlp.up_proj.lora_B.weight")->shape, (std::vector<std::uint64_t>{12, 2}));
}

// Element by element, of every adapted matrix: W + alpha/rank · B·A, and nothing else changes.
TEST(PeftAdapter, MergeAddsTheProducts) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    const ops::ModelConfig model = model_with_adapters(family);
    const testing::ModelArrays before(model, DType::f32, 1);
    testing::ModelArrays after(model, DType::f32, 1);
    merge_adapters(after.states());
    const auto& specs = before.specs();
    const auto index = [&](const std::string& name) {
      return static_cast<std::size_t>(std::ranges::find(specs, name, &ops::ParameterSpec::name) - specs.begin());
    };
    int merged = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const ops::ParameterSpec& weight = specs[i];
      const std::string stem = weight.name.substr(0, weight.name.rfind(".weight"));
      const std::size_t a = index(stem + ops::kLoraA), b = index(stem + ops::kLoraB);
      if (a == specs.size()) {
        EXPECT_EQ(after.data(i), before.data(i)) << weight.name;
        continue;
      }
      ++merged;
      for (std::int64_t row = 0; row < weight.rows; ++row) {
        std::int64_t part = 0;
        while (row >= weight.stored[static_cast<std::size_t>(part)].row_begin +
                          weight.stored[static_cast<std::size_t>(part)].rows)
          ++part;
        for (std::int64_t col = 0; col < weight.cols; ++col) {
          double expected = before.data(i)[static_cast<std::size_t>(row * weight.cols + col)];
          for (std::int64_t r = 0; r < 2; ++r) {
            expected += 1.5 * static_cast<double>(before.data(b)[static_cast<std::size_t>(row * 2 + r)]) *
                        before.data(a)[static_cast<std::size_t>((part * 2 + r) * weight.cols + col)];
          }
          const double found = after.data(i)[static_cast<std::size_t>(row * weight.cols + col)];
          ASSERT_NEAR(found, expected, 1e-6 * expected) << weight.name << " [" << row << ", " << col << "]";
        }
      }
    }
    EXPECT_EQ(merged, 2 * 4);
  }
}

using PeftTensors = std::map<std::string, std::pair<std::vector<std::uint64_t>, std::vector<float>>>;

/// A base and a folder with adapters of it, which tests change.
class AdapterFolder : public ::testing::Test {
 protected:
  AdapterFolder() { save({.rank = 2, .alpha = 3}); }

  void save(const ops::LoraConfig& lora) {
    ops::ModelConfig model = base_;
    model.lora = lora;
    std::filesystem::remove_all(folder());
    std::filesystem::create_directories(folder());
    const testing::ModelArrays arrays(model, DType::f32, 1);
    save_adapter(folder(), model, arrays.states(), "their/base");
  }
  std::filesystem::path folder() const { return folder_.path("adapters"); }
  void change_config(const std::function<void(nlohmann::json&)>& change) const {
    auto json = nlohmann::json::parse(testing::TemporaryFolder::read(folder() / kAdapterConfigFile));
    change(json);
    folder_.write("adapters/adapter_config.json", json.dump());
  }
  void change_tensors(const std::function<void(PeftTensors&)>& change) const {
    PeftTensors tensors;
    {
      const SafetensorsFile file(folder() / kAdapterFile);
      for (const StoredTensorInfo& info : file.tensors()) tensors[info.name] = {info.shape, file.read(info)};
    }
    change(tensors);
    std::vector<TensorToWrite> list;
    for (const auto& [name, entry] : tensors) {
      list.push_back({name, stored_type(DType::f32), entry.first,
                      [&entry](std::vector<std::byte>&) { return std::as_bytes(std::span(entry.second)); }});
    }
    std::filesystem::remove(folder() / kAdapterFile);
    write_safetensors(folder() / kAdapterFile, std::move(list));
  }
  ops::LoraConfig read() const { return read_adapters(folder(), base_); }
  std::string refused() const {
    return testing::message_of<UserError>([&] { read(); });
  }

  const testing::TemporaryFolder folder_;
  ops::ModelConfig base_ = testing::small_model(ops::Family::llama, true);
};

constexpr const char* kPeftLayer1 = "base_model.model.model.layers.1.";

TEST_F(AdapterFolder, HasTheAdaptersThatWereSaved) {
  using enum ops::LoraModule;
  const ops::LoraConfig some{
      .rank = 2, .alpha = 3, .on = ops::only(q) | ops::only(v) | ops::only(down), .rslora = true};
  ops::LoraConfig own{.rank = 3, .alpha = 0.1F};
  own.own_rank = {1, 0, 2, 0, 0, 1};
  own.own_alpha = {0, 5, 0, 0, 0.5F};
  for (const ops::Family family : {ops::Family::llama, ops::Family::gpt2}) {
    base_ = testing::small_model(family, true);
    std::vector<ops::LoraConfig> all = {
        {.rank = 2, .alpha = 3}, {.rank = 1, .on = ops::kLoraMlp}, {.rank = 1, .on = ops::kLoraQkv, .rslora = true}};
    if (family == ops::Family::llama) all.insert(all.end(), {some, own});
    for (const ops::LoraConfig& lora : all) {
      SCOPED_TRACE(ops::to_string(lora));
      save(lora);
      EXPECT_EQ(read(), lora);
    }
  }
}

// Element by element, into arrays of both types; the rest comes from the model.
TEST_F(AdapterFolder, FillsTheAdaptersOfAModel) {
  ops::ModelConfig model = base_;
  model.lora = {.rank = 3, .on = ops::kLoraQkv | ops::kLoraMlp, .own_rank = {0, 1}};
  save(model.lora);
  const testing::ModelArrays saved(model, DType::f32, 1);
  testing::ModelArrays of_base(base_, DType::f32, 5);
  std::filesystem::create_directories(folder_.path("base"));
  save_weights(folder_.path("base"), base_, of_base.states());
  testing::ModelArrays loaded(model, DType::f32, 0);
  load_parameters_and_adapters({folder_.path("base"), folder()}, model, loaded.states());
  for (std::size_t i = 0; i < loaded.specs().size(); ++i) {
    const bool adapter = ops::is_adapter(loaded.specs()[i]);
    EXPECT_EQ(loaded.data(i), adapter ? saved.data(i) : of_base.data(i)) << loaded.specs()[i].name;
  }
}

// Names as PEFT has them for a model without its head.
TEST_F(AdapterFolder, NeedsNoNameOfTheModelAroundLayers) {
  for (const ops::Family family : {ops::Family::llama, ops::Family::gpt2}) {
    base_ = testing::small_model(family, true);
    save({.rank = 2});
    change_tensors([](PeftTensors& tensors) {
      PeftTensors shorter;
      for (auto& [name, entry] : tensors) {
        const std::string rest = name.substr(std::string("base_model.model.").size());
        shorter["base_model.model." + rest.substr(rest.find('.') + 1)] = entry;
      }
      tensors = shorter;
    });
    EXPECT_EQ(read(), (ops::LoraConfig{.rank = 2}));
  }
}

TEST_F(AdapterFolder, NeedsNoListOfModules) {
  for (const nlohmann::json& targets : {nlohmann::json(nullptr), nlohmann::json("all|of.*them")}) {
    change_config([&](nlohmann::json& json) { json["target_modules"] = targets; });
    EXPECT_EQ(read(), (ops::LoraConfig{.rank = 2, .alpha = 3}));
  }
  change_config([](nlohmann::json& json) {
    json["target_modules"] = {"q_proj",        "k_proj",  "v_proj",    "o_proj",
                              "mlp.gate_proj", "up_proj", "down_proj", "c_attn"};
  });
  EXPECT_EQ(read(), (ops::LoraConfig{.rank = 2, .alpha = 3}));
}

TEST_F(AdapterFolder, RefusesWhatTheModelHasNot) {
  const std::string q = std::string(kPeftLayer1) + "self_attn.q_proj.lora_";
  struct Case {
    const char* what;
    std::function<void(PeftTensors&)> change;
    std::vector<std::string> parts;
  };
  const auto add = [](const std::string& name) {
    return [name](PeftTensors& tensors) { tensors[name] = {{2, 2}, {1, 2, 3, 4}}; };
  };
  const auto both = [](const std::string& module) {
    return [module](PeftTensors& tensors) {
      tensors[module + ".lora_A.weight"] = tensors[module + ".lora_B.weight"] = {{2, 2}, {1, 2, 3, 4}};
    };
  };
  const std::vector<Case> cases = {
      {"an embedding", add("base_model.model.model.embed_tokens.lora_embedding_A"), {"embed_tokens", "embedding"}},
      {"DoRA", add(std::string(kPeftLayer1) + "self_attn.q_proj.lora_magnitude_vector"), {"magnitude", "DoRA"}},
      {"a bias", add(std::string(kPeftLayer1) + "self_attn.q_proj.bias"), {"q_proj.bias", "bias"}},
      {"a bias of B", add(q + "B.bias"), {"lora_B.bias", "bias"}},
      {"a whole module", add("base_model.model.lm_head.weight"), {"lm_head", "modules_to_save"}},
      {"another adapter's name", add(q + "A.other.weight"), {"lora_A.other"}},
      {"the head's adapter", both("base_model.model.lm_head"), {"lm_head", "no adapter in Weft"}},
      {"the embedding as a linear layer", both("base_model.model.model.embed_tokens"), {"no adapter in Weft"}},
      {"a further layer", both("base_model.model.model.layers.7.self_attn.q_proj"), {"layers.7", "doesn't have"}},
      {"another family", both("base_model.model.transformer.h.0.attn.c_attn"), {"c_attn", "their/base"}},
      {"no B", [&](PeftTensors& tensors) { tensors.erase(q + "B.weight"); }, {"q_proj.lora_A", "one half"}},
      {"other columns",
       [&](PeftTensors& tensors) {
         tensors[q + "A.weight"] = {{2, 3}, {1, 2, 3, 4, 5, 6}};
       },
       {"q_proj.lora_A", "[2, 3]", "[2, 8]", "their/base"}},
      {"another rank",
       [&](PeftTensors& tensors) {
         tensors[q + "B.weight"] = {{8, 1}, {1, 2, 3, 4, 5, 6, 7, 8}};
       },
       {"q_proj.lora_B", "[8, 1]", "[8, 2]"}},
      {"no dimension",
       [&](PeftTensors& tensors) {
         tensors[q + "B.weight"] = {{}, {1}};
       },
       {"q_proj.lora_B", "[]"}},
      {"a module less",
       [&](PeftTensors& tensors) {
         tensors.erase(q + "A.weight");
         tensors.erase(q + "B.weight");
       },
       {"no adapter of 'model.layers.1.self_attn.q_proj'", "target_modules"}},
      {"nothing", [](PeftTensors& tensors) { tensors.clear(); }, {"no adapter of"}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    save({.rank = 2, .alpha = 3});
    change_tensors(c.change);
    const std::string message = refused();
    for (const std::string& part : c.parts) EXPECT_TRUE(has_parts(message, {part})) << message;
  }
}

TEST_F(AdapterFolder, RefusesAConfigThatSaysOtherwise) {
  struct Case {
    std::function<void(nlohmann::json&)> change;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {[](nlohmann::json& json) { json["r"] = 3; }, {"[2, 8]", "[3, 8]"}},
      {[](nlohmann::json& json) {
         json["rank_pattern"] = {{"v_proj", 1}};
       },
       {"v_proj", "[1, 8]"}},
      {[](nlohmann::json& json) {
         json["alpha_pattern"] = {{"layers.0.self_attn.q_proj", 5}};
       },
       {"layers.0.self_attn.q_proj", "alpha 5", "tell layers apart"}},
      {[](nlohmann::json& json) {
         json["alpha_pattern"] = {{"q_proj", 5}, {"self_attn.q_proj", 6}};
       },
       {"q_proj", "both 5 and 6"}},
      {[](nlohmann::json& json) { json["target_modules"] = {"q_proj"}; }, {"doesn't name"}},
      {[](nlohmann::json& json) { json["use_dora"] = true; }, {"use_dora"}}};
  for (const Case& c : cases) {
    save({.rank = 2, .alpha = 3});
    change_config(c.change);
    const std::string message = refused();
    for (const std::string& part : c.parts) EXPECT_TRUE(has_parts(message, {part})) << message;
  }
  // Patterns that change nothing are no contradiction.
  save({.rank = 2, .alpha = 3});
  change_config([](nlohmann::json& json) {
    json["rank_pattern"] = {{"q_proj", 2}, {"nothing_like_it", 5}};
    json["alpha_pattern"] = {{"layers.0.self_attn.q_proj", 3}};
  });
  EXPECT_EQ(read(), (ops::LoraConfig{.rank = 2, .alpha = 3}));
}

TEST_F(AdapterFolder, RefusesAdaptersOfSomeLayers) {
  change_tensors([](PeftTensors& tensors) {
    std::erase_if(tensors, [](const auto& entry) { return entry.first.starts_with(kPeftLayer1); });
  });
  change_config([](nlohmann::json& json) { json["layers_to_transform"] = {0}; });
  EXPECT_TRUE(has_parts(refused(), {"1 of 2 layers", "layers_to_transform = [0]"})) << refused();
}

TEST_F(AdapterFolder, RefusesOtherFolders) {
  std::filesystem::remove(folder() / kAdapterFile);
  EXPECT_TRUE(has_parts(refused(), {"no adapter_model.safetensors"}));
  folder_.write("adapters/adapter_model.bin", "x");
  EXPECT_TRUE(has_parts(refused(), {"adapter_model.bin", "save_pretrained"}));
  std::filesystem::remove(folder() / kAdapterConfigFile);
  EXPECT_TRUE(has_parts(refused(), {"no adapter_config.json"}));
  save({.rank = 2});
  base_.lora.rank = 1;
  EXPECT_TRUE(has_parts(refused(), {"a model with adapters", "--merge"}));
}

// Several adapters of one matrix have ranks and scales of their own.
TEST(PeftAdapter, MergeTakesEachAdaptersRankAndScale) {
  ops::ModelConfig model = testing::small_model(ops::Family::llama, true);
  model.lora = {
      .rank = 2, .alpha = 3, .on = ops::only(ops::LoraModule::q) | ops::only(ops::LoraModule::v), .rslora = true};
  model.lora.own_rank = {0, 0, 1};
  const testing::ModelArrays before(model, DType::f32, 1);
  testing::ModelArrays after(model, DType::f32, 1);
  merge_adapters(after.states());
  const auto& specs = before.specs();
  const auto of = [&](const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(specs, name, &ops::ParameterSpec::name) - specs.begin());
  };
  const std::size_t w = of("L1.attn.qkv.weight");
  const auto product = [&](const std::string& ending, std::size_t rank, double scale, std::size_t row,
                           std::size_t col) {
    double sum = 0;
    for (std::size_t r = 0; r < rank; ++r) {
      sum += scale * static_cast<double>(before.data(of("L1.attn.qkv.lora_B" + ending))[row * rank + r]) *
             before.data(of("L1.attn.qkv.lora_A" + ending))[r * 8 + col];
    }
    return sum;
  };
  const auto q = static_cast<std::size_t>(model.query_cols()), kv = static_cast<std::size_t>(model.key_cols());
  for (std::size_t row = 0; row < q + 2 * kv; ++row) {
    for (std::size_t col = 0; col < 8; ++col) {
      double expected = before.data(w)[row * 8 + col];
      if (row < q) expected += product(".weight", 2, 3 / std::sqrt(2.0), row, col);
      if (row >= q + kv) expected += product("2.weight", 1, 3, row - q - kv, col);
      ASSERT_NEAR(after.data(w)[row * 8 + col], expected, 1e-6 * expected) << row << ", " << col;
    }
  }
}

// Adapters in fp32 aren't rounded before their sum with a bf16 matrix is.
TEST(PeftAdapter, MergeRoundsTheSumAlone) {
  const ops::ModelConfig model = model_with_adapters(ops::Family::llama);
  const testing::ModelArrays narrow(model, DType::bf16, 1), wide(model, DType::f32, 1);
  std::vector<ParameterState> mixed = narrow.states();
  const std::vector<ParameterState> full = wide.states();
  const auto elements = [](const ParameterState& state) { return state.spec->rows * state.spec->cols; };
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    if (ops::is_adapter(*mixed[i].spec)) {
      mixed[i] = full[i];
      continue;
    }
    std::transform(static_cast<const bf16*>(mixed[i].data),
                   static_cast<const bf16*>(mixed[i].data) + elements(mixed[i]), static_cast<float*>(full[i].data),
                   [](bf16 value) { return static_cast<float>(value); });
  }
  merge_adapters(mixed);
  merge_adapters(full);
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    if (ops::is_adapter(*mixed[i].spec)) continue;
    for (std::int64_t k = 0; k < elements(mixed[i]); ++k) {
      const auto found = static_cast<float>(static_cast<const bf16*>(mixed[i].data)[k]);
      ASSERT_EQ(found, static_cast<float>(bf16(static_cast<const float*>(full[i].data)[k]))) << mixed[i].spec->name;
    }
  }
}

}  // namespace
}  // namespace weft::train
