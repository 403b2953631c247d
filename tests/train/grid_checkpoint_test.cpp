// Checkpoints that a grid wrote, loaded on every other grid; and refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/grid_arrays.h"
#include "tests/train/model_arrays.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint/weights.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

/// Grouped heads in llama, and a vocabulary that no axis divides.
ops::ModelConfig model_of(ops::Family family) {
  return testing::of_family(
      family, {.layers = 1, .hidden = 24, .heads = 12, .kv_heads = 6, .ffn = 18, .vocab = 11, .context = 6});
}

struct Layout {
  graph::Grid grid;
  bool zero1 = false;
};

std::string name_of(const Layout& layout) {
  return testing::name_of(layout.grid) + (layout.zero1 ? "zero1" : "");
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {{1, 1, 1, 1}},
      {{2, 1, 1, 1}},
      {{1, 3, 1, 1}},
      {{1, 1, 3, 1}},
      {{1, 1, 1, 2}, true},
      {{3, 2, 1, 1}},
      {{2, 3, 2, 1}},
      {{1, 2, 2, 2}, true},
      {{6, 1, 1, 2}},
      {{6, 2, 1, 1}},
      {{2, 1, 3, 2, {graph::Axis::data, graph::Axis::z, graph::Axis::y, graph::Axis::x}}, true},
      {{12, 1, 1, 1}}};
  return all;
}

using Rank = std::function<void(comm::World&, testing::GridArrays&)>;

class GridCheckpoint : public ::testing::TestWithParam<std::tuple<ops::Family, DType>> {
 protected:
  GridCheckpoint() : model_(model_of(std::get<0>(GetParam()))), dtype_(std::get<1>(GetParam())) {}

  /// Runs `body` on every rank of a grid; returns the message of the first that failed.
  std::string on(const Layout& layout, const Rank& body) const {
    ops::validate_grid(model_, layout.grid);
    return testing::end_of_ranks(static_cast<int>(layout.grid.ranks()),
                                 [&](comm::World& world) {
                                   testing::GridArrays arrays(model_, layout.grid, world.rank(), dtype_, layout.zero1,
                                                              testing::GridArrays::Fill::values);
                                   body(world, arrays);
                                 })
        .errors;
  }
  fs::path save(const Layout& layout, std::int64_t step = 200) const {
    const std::string fault = on(layout, [&](comm::World& world, testing::GridArrays& arrays) {
      CheckpointWriter(world, folder_.path(), {})
          .save_now(testing::checkpoint_info(model_, dtype_, step), arrays.states());
      world.barrier();
    });
    EXPECT_EQ(fault, "");
    return checkpoint_path(folder_.path(), step);
  }
  /// The error of loading on the first rank that refuses, or the element that differs on a rank.
  std::string load(const fs::path& path, const Layout& layout, std::uint64_t seed = 1) const {
    ops::validate_grid(model_, layout.grid);
    std::string result;
    for (std::int64_t rank = 0; rank < layout.grid.ranks() && result.empty(); ++rank) {
      testing::GridArrays arrays(model_, layout.grid, rank, dtype_, layout.zero1, testing::GridArrays::Fill::rubbish,
                                 seed);
      result = testing::message_of<UserError>([&] { load_checkpoint(path, arrays.states()); });
      if (result.empty()) result = arrays.difference();
    }
    return result;
  }
  /// The weights of the folder load on each rank.
  void expect_weights_on(const Layout& layout) const {
    for (std::int64_t rank = 0; rank < layout.grid.ranks(); ++rank) {
      testing::GridArrays arrays(model_, layout.grid, rank, dtype_, layout.zero1, testing::GridArrays::Fill::rubbish);
      load_parameters(folder_.path(), model_, arrays.states());
      EXPECT_EQ(arrays.difference(false), "") << name_of(layout);
    }
  }
  static Manifest manifest_of(const fs::path& path) {
    return parse_manifest(testing::TemporaryFolder::read(path / "manifest.json"), "manifest");
  }

  testing::TemporaryFolder folder_;
  ops::ModelConfig model_;
  DType dtype_;
};

INSTANTIATE_TEST_SUITE_P(All, GridCheckpoint, testing::kSavedModels, testing::kNameOfSavedModel);

// For each grid the third and the fifth after it, and one rank: all pairs of grids would take a minute. In bf16, which
// differs by the parameters' type and their masters alone, fewer.
TEST_P(GridCheckpoint, OfEveryGridLoadsOnOthers) {
  const std::size_t count = layouts().size();
  for (std::size_t i = 0; i < count; ++i) {
    const fs::path path = save(layouts()[i]);
    std::set<std::size_t> others = {0, (i + 3) % count};
    if (dtype_ == DType::f32) others.insert({i, (i + 5) % count});
    for (const std::size_t j : others) {
      EXPECT_EQ(load(path, layouts()[j]), "") << name_of(layouts()[i]) << " on " << name_of(layouts()[j]);
      if (HasFailure()) return;
    }
  }
}

// Of a model with adapters: the frozen weights without moments or masters, the adapters with theirs.
TEST_P(GridCheckpoint, AdaptersOfAGridLoadOnOthers) {
  model_.lora = {.rank = 3};
  for (const std::size_t i : {0U, 5U, 7U, 10U}) {
    const fs::path path = save(layouts()[i]);
    for (const std::size_t j : {0U, 1U, 6U, 7U}) {
      EXPECT_EQ(load(path, layouts()[j]), "") << name_of(layouts()[i]) << " on " << name_of(layouts()[j]);
    }
    const Manifest manifest = manifest_of(path);
    EXPECT_EQ(manifest.info.model.lora, model_.lora);
    for (const StoredShard& shard : manifest.shards) {
      EXPECT_TRUE(shard.content == "parameter" || shard.tensor.find(".lora_") != std::string::npos) << shard.entry;
    }
  }
}

TEST_P(GridCheckpoint, ItsWeightsLoadAloneInEitherType) {
  for (const Layout& from : {layouts()[1], layouts()[4], layouts()[7]}) {
    save(from);
    for (const Layout& to : {layouts()[0], layouts()[6], layouts()[7]}) expect_weights_on(to);
  }
}

// Hugging Face's own layout, on any grid.
TEST_P(GridCheckpoint, WeightsOfHuggingFaceLoadOnEveryGrid) {
  const testing::GridArrays whole(model_, {}, 0, dtype_, false, testing::GridArrays::Fill::values);
  save_weights(folder_.path(), model_, whole.states());
  for (const Layout& to : layouts()) expect_weights_on(to);
}

TEST_P(GridCheckpoint, OneRankOrDataRanksAloneWriteWholeTensors) {
  const fs::path one = save({{1, 1, 1, 1}}, 1), data = save({{1, 1, 1, 3}}, 2);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "config.json"}) {
    EXPECT_EQ(testing::TemporaryFolder::read(one / name), testing::TemporaryFolder::read(data / name)) << name;
  }
  for (const StoredShard& shard : manifest_of(data).shards) EXPECT_TRUE(shard.whole()) << shard.entry;
  // ZeRO-1 without another axis shards no parameter, so the model is one file.
  const fs::path zero1 = save({{1, 1, 1, 2}, true}, 3);
  EXPECT_EQ(testing::TemporaryFolder::read(one / "model.safetensors"),
            testing::TemporaryFolder::read(zero1 / "model.safetensors"));
  EXPECT_TRUE(fs::exists(zero1 / "optimizer-00001.safetensors"));
}

TEST_P(GridCheckpoint, EachRankWritesItsElementsOnce) {
  const Layout layout{{2, 1, 2, 2}};
  const Manifest manifest = manifest_of(save(layout));
  std::set<std::string> files;
  for (const auto& [name, summary] : manifest.files) files.insert(name);
  std::set<std::string> expected = {"config.json"};
  for (std::int64_t rank = 0; rank < layout.grid.ranks(); ++rank) {
    if (graph::coordinates_of(layout.grid, rank).data > 0) continue;  // replicas
    expected.insert(fmt::format("model-{:05}.safetensors", rank));
    expected.insert(fmt::format("optimizer-{:05}.safetensors", rank));
  }
  EXPECT_EQ(files, expected);
  std::uint64_t elements = 0;
  for (const StoredShard& shard : manifest.shards) elements += shard.range_end - shard.range_begin;
  const std::uint64_t contents = dtype_ == DType::bf16 ? 4 : 3;
  EXPECT_EQ(elements, contents * static_cast<std::uint64_t>(model_.parameters()));
}

TEST_P(GridCheckpoint, IsWrittenBehindTheSteps) {
  const Layout layout{{2, 1, 1, 2}, true};
  const std::string fault = on(layout, [&](comm::World& world, testing::GridArrays&) {
    CheckpointWriter writer(world, folder_.path(), {.keep_last = 2});
    std::set<std::string> told;
    const auto ask = [&] {
      if (const auto path = writer.written()) told.insert(path->filename().string());
    };
    std::vector<std::unique_ptr<testing::GridArrays>> kept;  // the writer refers to their shards
    for (std::int64_t step = 1; step <= 4; ++step) {
      // As if another model had been saved after each step.
      kept.push_back(std::make_unique<testing::GridArrays>(model_, layout.grid, world.rank(), dtype_, true,
                                                           testing::GridArrays::Fill::values,
                                                           static_cast<std::uint64_t>(step)));
      writer.save(testing::checkpoint_info(model_, dtype_, step), kept.back()->states());
      for (int i = 0; i < 3; ++i) ask();
    }
    writer.finish();
    ask();
    world.barrier();
    if (world.rank() == 0) {
      EXPECT_TRUE(told.contains("step_00000004"));
    } else {
      EXPECT_TRUE(told.empty());
    }
  });
  EXPECT_EQ(fault, "");
  const auto found = complete_checkpoints(folder_.path());
  ASSERT_EQ(found.size(), 2U);
  for (const CheckpointFolder& checkpoint : found) {
    EXPECT_EQ(load(checkpoint.path, {{1, 2, 1, 1}}, static_cast<std::uint64_t>(checkpoint.step)), "");
  }
}

TEST_P(GridCheckpoint, TheSpaceItTakesIsKnownToAllRanks) {
  const Layout layout{{2, 1, 2, 1}};
  std::vector<std::uint64_t> needed(4);
  EXPECT_EQ(on(layout,
               [&](comm::World& world, testing::GridArrays& arrays) {
                 CheckpointWriter writer(world, folder_.path(), {});
                 needed[static_cast<std::size_t>(world.rank())] =
                     writer.space(testing::checkpoint_info(model_, dtype_, 12), arrays.states()).needed;
               }),
            "");
  std::vector<std::uint64_t> sizes;
  for (const auto& file : fs::directory_iterator(save(layout, 12))) sizes.push_back(file.file_size());
  const std::uint64_t exact = check_space(folder_.path(), sizes).needed;
  for (const std::uint64_t rank : needed) {
    EXPECT_GE(rank, exact);
    EXPECT_LT(rank, exact + (1U << 20));  // each rank's part of the manifest in blocks of its own
  }
}

TEST_P(GridCheckpoint, APartThatCannotBeWrittenLeavesTheLastCheckpoint) {
  const Layout layout{{2, 1, 2, 1}};
  const fs::path good = save(layout, 1);
  const auto poisoned = [&](bool now) {
    return on(layout, [&](comm::World& world, testing::GridArrays& arrays) {
      if (world.rank() == 3) {
        const ParameterState& embedding = arrays.states().at(0);
        embedding.v[0] = std::numeric_limits<float>::infinity();
      }
      CheckpointWriter writer(world, folder_.path(), {});
      const CheckpointInfo info = testing::checkpoint_info(model_, dtype_, 2);
      if (now) {
        writer.save_now(info, arrays.states());
      } else {
        writer.save(info, arrays.states());
        writer.finish();
      }
      world.barrier();
    });
  };
  for (const bool now : {true, false}) {
    EXPECT_TRUE(has_parts(poisoned(now), {"rank 3", "after step 2", "v of wte.weight holds", "at [", "--check-nan"}));
    EXPECT_EQ(load(good, {{1, 1, 1, 1}}), "");
    EXPECT_EQ(complete_checkpoints(folder_.path()).size(), 1U);
  }
}

class GridDamage : public GridCheckpoint {
 protected:
  GridDamage() : path_(save({{2, 2, 1, 1}}, 1)) {}

  /// The error of loading after `change` of the manifest.
  template <class Change>
  std::string refusal(const Change& change) const {
    Manifest manifest = manifest_of(path_);
    const std::string good = to_json(manifest);
    change(manifest);
    folder_.write("checkpoints/step_00000001/manifest.json", to_json(manifest));
    std::string found = load(path_, {{1, 1, 2, 1}});
    folder_.write("checkpoints/step_00000001/manifest.json", good);
    EXPECT_EQ(load(path_, {{1, 1, 2, 1}}), "");
    return found;
  }
  static StoredShard& shard(Manifest& manifest, const std::string& tensor) {
    for (StoredShard& shard : manifest.shards) {
      if (shard.tensor == tensor && shard.content == "v") return shard;
    }
    throw std::logic_error("no shard of " + tensor);
  }
  fs::path path_;
};

INSTANTIATE_TEST_SUITE_P(Gpt2, GridDamage, ::testing::Values(std::tuple(ops::Family::gpt2, DType::f32)));

TEST_P(GridDamage, ToWhatTheShardsCoverIsRefused) {
  const std::string tensor = "h.0.mlp.c_proj.weight";
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) { shard(m, tensor).range_end -= 1; }),
                        {"tensor 'h.0.mlp.c_proj.weight.v' miss 1 of its 432 elements"}));
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) {
                          StoredShard copy = shard(m, tensor);
                          copy.file = "config.json";  // the same elements from elsewhere
                          m.shards.push_back(copy);
                        }),
                        {tensor, "overlap at [0, 0]"}));
  EXPECT_TRUE(has_parts(
      refusal([&](Manifest& m) { std::erase_if(m.shards, [&](const StoredShard& s) { return s.tensor == tensor; }); }),
      {"has no tensor 'h.0.mlp.c_proj.weight'"}));
  EXPECT_TRUE(
      has_parts(refusal([&](Manifest& m) { shard(m, tensor).tensor = "h.9.attn.bias"; }), {"miss 108 of its 432"}));
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) { shard(m, tensor).content = "w"; }), {"miss 108 of its 432"}));
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) {
                          StoredShard other = shard(m, tensor);
                          other.content = "momentum", other.entry = "x";
                          m.shards.push_back(other);
                        }),
                        {"lists 'momentum' of a tensor 'h.0.mlp.c_proj.weight' that the model doesn't have (1 such"}));
}

TEST_P(GridDamage, ToWhatAShardIsIsRefused) {
  const std::string tensor = "h.0.mlp.c_proj.weight";
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) { shard(m, tensor).global_shape[1] += 1; }),
                        {"has shape [24, 19] (out, in)", "[24, 18] (out, in) for this model"}));
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) { shard(m, tensor).layout = "in, out"; }),
                        {"has shape [24, 18] (in, out)", "[18, 24]"}));
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) { shard(m, tensor).layout = "sideways"; }), {"(sideways)"}));
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) { shard(m, tensor).dtype = "BF16"; }), {"is stored as BF16", "F32"}));
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) { shard(m, tensor).entry = "x"; }), {"has no tensor 'x'"}));
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) {
                          StoredShard &one = shard(m, tensor), &two = shard(m, "h.0.attn.c_proj.weight");
                          std::swap(one.entry, two.entry);
                        }),
                        {"h.0.", "elements of F32", "as the manifest says"}));
  EXPECT_TRUE(has_parts(refusal([&](Manifest& m) { m.files.begin()->second.bytes += 1; }), {"bytes"}));
}

TEST_P(GridDamage, ToAnyRanksFileIsRefused) {
  for (const auto& [name, summary] : manifest_of(path_).files) {
    const std::string inside = "checkpoints/step_00000001/" + name, good = testing::TemporaryFolder::read(path_ / name);
    std::string bad = good;
    bad.back() = static_cast<char>(bad.back() ^ 4);
    folder_.write(inside, bad);
    EXPECT_TRUE(has_parts(load(path_, {{1, 1, 1, 1}}), {name + "' has the checksum", "it was damaged"}));
    fs::remove(path_ / name);
    EXPECT_TRUE(has_parts(load(path_, {{1, 1, 1, 1}}), {name + "' is missing"}));
    folder_.write(inside, good);
  }
  EXPECT_EQ(load(path_, {{1, 1, 1, 1}}), "");
}

// Ranks share the check of sums: a single rank reads each file.
TEST_P(GridDamage, IsFoundByOneOfTheRanksThatLoad) {
  const std::string name = "optimizer-00002.safetensors";
  std::string bad = testing::TemporaryFolder::read(path_ / name);
  bad.back() = static_cast<char>(bad.back() ^ 4);
  folder_.write("checkpoints/step_00000001/" + name, bad);
  const Layout layout{{1, 1, 1, 3}};
  int found = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const testing::GridArrays arrays(model_, layout.grid, rank, dtype_, false, testing::GridArrays::Fill::rubbish);
    const std::string text = testing::message_of<UserError>([&] {
      load_checkpoint(path_, arrays.states(), {rank, 3});
    });
    found += text.find("it was damaged") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(found, 1);
}

TEST_P(GridDamage, AnotherModelIsRefusedByTensor) {
  ops::ModelConfig other = model_;
  other.vocab = 12;
  const testing::GridArrays arrays(other, {}, 0, dtype_, false, testing::GridArrays::Fill::rubbish);
  EXPECT_TRUE(refuses([&] { load_checkpoint(path_, arrays.states()); },
                      {"tensor 'wte.weight' has shape [11, 24] (out, in)", "[12, 24]"}));
}

}  // namespace
}  // namespace weft::train
