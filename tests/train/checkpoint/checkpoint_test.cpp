// Saving, finding, keeping and loading checkpoints, and the refusal of damaged ones.
#include "train/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/ops/tiny_model.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/manifest.h"

namespace weft::train {
namespace {

class Checkpoint : public ::testing::TestWithParam<std::tuple<ops::Family, DType>> {
 protected:
  Checkpoint()
      : model_(testing::small_model(std::get<0>(GetParam()), true)),
        dtype_(std::get<1>(GetParam())),
        arrays_(model_, dtype_, 1) {}
  std::filesystem::path save(std::int64_t step) const {
    return save_checkpoint(folder_.path(), testing::checkpoint_info(model_, dtype_, step), arrays_.states());
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

INSTANTIATE_TEST_SUITE_P(All, Checkpoint, testing::kSavedModels, testing::kNameOfSavedModel);

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
      EXPECT_EQ(tensor->type.name, shard.dtype);
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
  const auto space =
      checkpoint_space(folder_.path("not/yet/there"), testing::checkpoint_info(model_, dtype_, 12), arrays_.states());
  EXPECT_TRUE(space.fits());
  EXPECT_EQ(space.where, std::filesystem::canonical(folder_.path()));
  std::vector<std::uint64_t> sizes;
  for (const auto& file : std::filesystem::directory_iterator(save(12))) sizes.push_back(file.file_size());
  EXPECT_EQ(sizes.size(), 4U);
  EXPECT_EQ(space.needed, check_space(folder_.path(), sizes).needed);
}

class Damage : public Checkpoint {};

INSTANTIATE_TEST_SUITE_P(Gpt2, Damage, ::testing::Values(std::tuple(ops::Family::gpt2, DType::f32)));

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
  EXPECT_THROW(save_checkpoint(folder_.path(), testing::checkpoint_info(model_, dtype_, 1), states),
               std::invalid_argument);
  EXPECT_FALSE(latest_checkpoint(folder_.path()).has_value());
}

TEST_P(Damage, AFaultWhileWritingLeavesTheLastCheckpoint) {
  const auto good = save(1);
  folder_.write("checkpoints/.writing_step_00000002", "a file where a folder must be");
  std::filesystem::permissions(folder_.path("checkpoints"), std::filesystem::perms::all);
  EXPECT_EQ(load(save(2)), "");  // cleared away
  const std::string blocked = folder_.write("blocked", "a file where the run folder must be");
  EXPECT_TRUE(refuses<RuntimeFault>(
      [&] { save_checkpoint(blocked, testing::checkpoint_info(model_, dtype_, 1), arrays_.states()); },
      {"step_00000001' can't be written", "Not a directory"}));
  EXPECT_EQ(load(good), "");
}

class Checkpoints : public ::testing::Test {
 protected:
  std::filesystem::path add(std::int64_t step) const {
    std::filesystem::path path = checkpoint_path(folder_.path(), step);
    folder_.write((path / "manifest.json").lexically_relative(folder_.path()).string(), "{}");
    return path;
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> steps;
    for (const CheckpointFolder& checkpoint : complete_checkpoints(folder_.path())) steps.push_back(checkpoint.step);
    return steps;
  }
  /// The checkpoints that remain of one every ten steps up to `newest`, with a clean-up after each.
  std::vector<std::int64_t> kept(std::int64_t newest, const Retention& retention) const {
    for (std::int64_t step = 10; step <= newest; step += 10) {
      add(step);
      remove_superseded(folder_.path(), step, retention);
    }
    return steps();
  }

  const testing::TemporaryFolder folder_;
};

using Steps = std::vector<std::int64_t>;

TEST_F(Checkpoints, TheLatestCompleteOneIsFound) {
  EXPECT_FALSE(latest_checkpoint(folder_.path()).has_value());
  add(9);
  const auto ten = add(10);
  folder_.write("checkpoints/step_00000011/model.safetensors", "cut off: no manifest");
  folder_.write("checkpoints/step_12x/manifest.json", "{}");
  folder_.write("checkpoints/.writing_step_00000013/manifest.json", "{}");
  folder_.write("checkpoints/.removing_step_00000014/manifest.json", "{}");
  EXPECT_EQ(latest_checkpoint(folder_.path()), ten);
  EXPECT_EQ(find_checkpoint(folder_.path()), ten);
  EXPECT_EQ(find_checkpoint(ten), ten);
}

TEST_F(Checkpoints, AreOrderedByStepBeyondTheDigitsOfTheName) {
  for (const std::int64_t step : {1'000'000'000, 99'999'999, 5}) add(step);
  EXPECT_EQ(steps(), (Steps{5, 99'999'999, 1'000'000'000}));
}

TEST_F(Checkpoints, TheLastOnesAndMultiplesStayAndWithZeroAll) {
  EXPECT_EQ(kept(50, {.keep_last = 3, .keep_every = 0}), (Steps{30, 40, 50}));
  std::filesystem::remove_all(folder_.path("checkpoints"));
  EXPECT_EQ(kept(90, {.keep_last = 2, .keep_every = 30}), (Steps{30, 60, 80, 90}));
  std::filesystem::remove_all(folder_.path("checkpoints"));
  EXPECT_EQ(kept(50, {.keep_last = 0, .keep_every = 20}), (Steps{10, 20, 30, 40, 50}));
}

TEST_F(Checkpoints, TheOneJustWrittenStaysWhenOthersAreAhead) {
  for (const std::int64_t step : {100, 110, 120}) add(step);  // of a run that went further than this one's start
  EXPECT_EQ(kept(20, {.keep_last = 1, .keep_every = 0}), (Steps{20, 100, 110, 120}));
}

TEST_F(Checkpoints, TheBestStaysAndHasAName) {
  const auto add_evaluated = [&](std::int64_t step, std::optional<double> loss) {
    Manifest manifest;
    manifest.info.step = step;
    manifest.info.model = testing::tiny_model(ops::Family::gpt2);
    manifest.info.val_loss = loss;
    folder_.write((add(step) / "manifest.json").lexically_relative(folder_.path()).string(), to_json(manifest));
    remove_superseded(folder_.path(), step, {.keep_last = 1, .keep_every = 0, .keep_best = true});
  };
  add_evaluated(10, 3);
  EXPECT_EQ(find_checkpoint(folder_.path("best")), checkpoint_path(folder_.path(), 10));
  add_evaluated(20, 2.5);
  add_evaluated(30, std::nullopt);
  add_evaluated(40, 2.75);
  EXPECT_EQ(steps(), (Steps{20, 40}));
  EXPECT_EQ(best_checkpoint(folder_.path())->val_loss, 2.5);
  EXPECT_EQ(find_checkpoint(folder_.path("best")), checkpoint_path(folder_.path(), 20));
  EXPECT_EQ(find_checkpoint(folder_.path()), checkpoint_path(folder_.path(), 40));
  add_evaluated(50, 2.5);  // the newest of equal ones
  EXPECT_EQ(steps(), (Steps{50}));
  EXPECT_FALSE(best_checkpoint(folder_.path(), 49).has_value());
  add_evaluated(60, 9);
  folder_.write("checkpoints/step_00000070/manifest.json", "{}");  // damaged
  EXPECT_EQ(find_checkpoint(folder_.path("best")), checkpoint_path(folder_.path(), 50));
  std::filesystem::create_directory(folder_.path("best"));  // a run of that name
  EXPECT_THROW(find_checkpoint(folder_.path("best")), UserError);
}

TEST(ReadShare, IsAmongRanksThatSeeTheSameFile) {
  const testing::TemporaryFolder folder;
  folder.write("a/file", "equal");
  folder.write("b/file", "equal");
  std::filesystem::create_symlink("a", folder.path("link"));
  // Rank 3 reaches the folder of ranks 0 and 2 by another name; rank 4 sees none.
  constexpr std::array kFolders = {"a", "b", "a", "link", "none"};
  constexpr std::array<std::array<int, 2>, 5> kExpected = {{{0, 3}, {0, 1}, {1, 3}, {2, 3}, {0, 1}}};
  testing::on_ranks(5, [&](comm::World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const ReadShare share = share_reading(world, folder.path(kFolders[rank]));
    EXPECT_EQ(share.rank, kExpected[rank][0]) << rank;
    EXPECT_EQ(share.ranks, kExpected[rank][1]) << rank;
  });
}

}  // namespace
}  // namespace weft::train
