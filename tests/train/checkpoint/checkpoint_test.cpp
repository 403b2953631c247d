// Saving, finding and loading checkpoints, and the refusal of damaged ones.
#include "train/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/weights.h"

namespace weft::train {
namespace {

CheckpointInfo info_of(const ops::ModelConfig& model, DType dtype, std::int64_t step) {
  return {step, 7, 4096, dtype, model, "steps = 9\n# \"quoted\"\n", {{"weft", "0.1.0"}}};
}

class Checkpoint : public ::testing::TestWithParam<std::pair<ops::Family, DType>> {
 protected:
  Checkpoint()
      : model_(testing::small_model(GetParam().first, true)), dtype_(GetParam().second), arrays_(model_, dtype_, 1) {}
  std::filesystem::path save(std::int64_t step) const {
    return save_checkpoint(folder_.path(), info_of(model_, dtype_, step), arrays_.states());
  }
  std::string load(const std::filesystem::path& path) const {
    testing::ModelArrays loaded(model_, dtype_, 0);
    const std::string refusal = testing::message_of<UserError>([&] { load_checkpoint(path, loaded.states()); });
    return refusal.empty() ? testing::first_difference(arrays_, loaded, true) : refusal;
  }

  testing::TemporaryFolder folder_;
  ops::ModelConfig model_;
  DType dtype_;
  testing::ModelArrays arrays_;
};

INSTANTIATE_TEST_SUITE_P(
    All, Checkpoint,
    ::testing::Values(std::pair(ops::Family::gpt2, DType::f32), std::pair(ops::Family::gpt2, DType::bf16),
                      std::pair(ops::Family::llama, DType::f32), std::pair(ops::Family::llama, DType::bf16)),
    [](const auto& info) {
      return std::string(to_string(info.param.first)) + "_" + std::string(to_string(info.param.second));
    });

TEST_P(Checkpoint, IsAlsoAFolderOfWeights) {
  const auto path = save(3);
  for (const auto& from : {path, folder_.path(), path / "model.safetensors"}) {
    testing::ModelArrays loaded(model_, dtype_, 0);
    load_parameters(from, model_, loaded.states());
    EXPECT_EQ(testing::first_difference(arrays_, loaded, false), "") << from;
  }
}

TEST_P(Checkpoint, AnotherDtypeIsRefused) {
  const auto path = save(3);
  testing::ModelArrays other(model_, dtype_ == DType::f32 ? DType::bf16 : DType::f32, 0);
  EXPECT_TRUE(refuses([&] { load_checkpoint(path, other.states()); },
                      {"was trained in " + std::string(to_string(dtype_)), "--dtype", "--init-from"}));
  load_parameters(path, model_, other.states());  // weights alone convert
}

TEST_P(Checkpoint, ASecondOneOfTheSameStepReplacesTheFirst) {
  save(5);
  folder_.write("checkpoints/.writing_step_00000005/junk", "from a run that was killed");
  arrays_ = testing::ModelArrays(model_, dtype_, 2);
  EXPECT_EQ(load(save(5)), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path("checkpoints")), {}), 1);
}

TEST_P(Checkpoint, TheManifestListsEveryShardAndFile) {
  const auto path = save(1);
  const Manifest manifest = parse_manifest(testing::TemporaryFolder::read(path / "manifest.json"), "manifest");
  ASSERT_EQ(manifest.files.size(), 3U);
  for (const auto& [name, summary] : manifest.files) {
    const std::string content = testing::TemporaryFolder::read(path / name);
    EXPECT_EQ(summary.bytes, content.size()) << name;
    EXPECT_EQ(summary.crc32c, Crc32c().add(std::as_bytes(std::span(content))).text()) << name;
  }
  std::size_t entries = 0;
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const SafetensorsFile file(path / name);
    entries += file.tensors().size();
    for (const StoredShard& shard : manifest.shards) {
      if (shard.file != name) continue;
      const StoredTensorInfo* tensor = file.find(shard.entry);
      ASSERT_NE(tensor, nullptr) << shard.entry;
      EXPECT_EQ(tensor->shape, shard.global_shape);
      EXPECT_EQ(to_string(tensor->type), shard.dtype);
      EXPECT_TRUE(shard.whole());
      EXPECT_TRUE(shard.entry == shard.tensor || shard.entry == shard.tensor + "." + shard.content);
    }
  }
  EXPECT_EQ(entries, manifest.shards.size());
  const bool gpt2 = model_.family == ops::Family::gpt2;
  const std::string packed = gpt2 ? "h.0.attn.c_attn.weight" : "model.layers.0.self_attn.q_proj.weight";
  const auto shard = std::find_if(manifest.shards.begin(), manifest.shards.end(),
                                  [&](const StoredShard& s) { return s.entry == packed; });
  ASSERT_NE(shard, manifest.shards.end());
  EXPECT_EQ(shard->layout, gpt2 ? "in, out" : "out, in");
}

TEST_P(Checkpoint, TheSpaceItTakesIsKnownBefore) {
  const auto space = checkpoint_space(folder_.path("not/yet/there"), info_of(model_, dtype_, 12), arrays_.states());
  EXPECT_TRUE(space.fits());
  EXPECT_EQ(space.where, std::filesystem::canonical(folder_.path()));
  std::vector<std::uint64_t> sizes;
  for (const auto& file : std::filesystem::directory_iterator(save(12))) sizes.push_back(file.file_size());
  EXPECT_EQ(sizes.size(), 4U);
  EXPECT_EQ(space.needed, check_space(folder_.path(), sizes).needed);
}

class Damage : public Checkpoint {
 protected:
  void replace(const std::filesystem::path& manifest, const std::string& from, const std::string& to) const {
    std::string text = testing::TemporaryFolder::read(manifest);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    folder_.write(manifest.lexically_relative(folder_.path()).string(), text.replace(at, from.size(), to));
  }
};

INSTANTIATE_TEST_SUITE_P(Gpt2, Damage, ::testing::Values(std::pair(ops::Family::gpt2, DType::f32)));

TEST_P(Damage, ToFilesIsRefused) {
  const auto path = save(1);
  std::filesystem::resize_file(path / "optimizer.safetensors", 100);
  EXPECT_TRUE(has_parts(load(path), {"optimizer.safetensors' has 100 bytes", "as the manifest says"}));
  std::filesystem::remove(path / "optimizer.safetensors");
  EXPECT_TRUE(has_parts(load(path), {"optimizer.safetensors' is missing"}));
  std::filesystem::remove(path / "manifest.json");
  EXPECT_TRUE(has_parts(load(path), {"manifest.json' doesn't exist"}));
  EXPECT_TRUE(refuses([&] { find_checkpoint(path); }, {"holds no complete checkpoint"}));
  EXPECT_TRUE(refuses([&] { find_checkpoint(folder_.path("none")); }, {"doesn't exist"}));
}

TEST_P(Damage, ToTheManifestIsRefused) {
  const auto manifest = save(1) / "manifest.json";
  const auto refusal = [&](const std::string& from, const std::string& to) {
    save(1);
    replace(manifest, from, to);
    return testing::message_of<UserError>([&] { read_checkpoint_info(manifest.parent_path()); });
  };
  EXPECT_TRUE(has_parts(refusal("weft-checkpoint", "other"), {"isn't the manifest of a checkpoint"}));
  EXPECT_TRUE(has_parts(refusal("\"version\": 2", "\"version\": 1"), {"has version 1", "version 2"}));
  EXPECT_TRUE(has_parts(refusal("\"step\": 1", "\"step\": \"1\""), {"manifest.json': step is \"1\""}));
  EXPECT_TRUE(has_parts(refusal("\"seed\"", "\"sead\""), {"has no seed"}));
  EXPECT_TRUE(has_parts(refusal("\"f32\"", "\"f8\""), {"dtype is \"f8\""}));
  EXPECT_TRUE(has_parts(refusal("\"heads\":4", "\"heads\":3"), {"heads"}));
  EXPECT_TRUE(has_parts(refusal("{", "["), {"isn't valid JSON"}));
  EXPECT_TRUE(has_parts(refusal("\"step\": 1", "\"step\": 7"), {"was altered", "use another checkpoint"}));
}

TEST_P(Damage, OfWeightsIsFoundWhenTheyAloneAreLoaded) {
  const auto path = save(1);
  std::string bytes = testing::TemporaryFolder::read(path / "model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 4);
  folder_.write("checkpoints/step_00000001/model.safetensors", bytes);
  testing::ModelArrays loaded(model_, dtype_, 0);
  EXPECT_TRUE(refuses([&] { load_parameters(folder_.path(), model_, loaded.states()); }, {"damaged"}));
}

TEST_P(Damage, MissingArraysAreABug) {
  auto states = arrays_.states();
  states[3].v = nullptr;
  EXPECT_THROW(save_checkpoint(folder_.path(), info_of(model_, dtype_, 1), states), std::invalid_argument);
  EXPECT_FALSE(latest_checkpoint(folder_.path()).has_value());
}

TEST_P(Damage, AFaultWhileWritingLeavesTheLastCheckpoint) {
  const auto good = save(1);
  folder_.write("checkpoints/.writing_step_00000002", "a file where a folder must be");
  std::filesystem::permissions(folder_.path("checkpoints"), std::filesystem::perms::all);
  EXPECT_EQ(load(save(2)), "");  // cleared away
  const std::string blocked = folder_.write("blocked", "a file where the run folder must be");
  EXPECT_TRUE(refuses<RuntimeFault>([&] { save_checkpoint(blocked, info_of(model_, dtype_, 1), arrays_.states()); },
                                    {"step_00000001' can't be written", "Not a directory"}));
  EXPECT_EQ(load(good), "");
}

}  // namespace
}  // namespace weft::train
