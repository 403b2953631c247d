// Sharding of parameters: no element is lost or counted twice, and grids that don't fit are refused by name.
#include "ops/sharding.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"

namespace weft::ops {
namespace {

/// Sizes that x, y and z of 1, 2, 3 and 4 divide, except the vocabulary.
ModelConfig model_of(Family family, std::int64_t kv_heads, std::int64_t vocab, bool tied) {
  ModelConfig model =
      testing::of_family(family, {.layers = 2, .hidden = 48, .heads = 12, .ffn = 36, .vocab = vocab, .context = 10});
  model.kv_heads = kv_heads;
  model.tied = tied;
  return model;
}

/// With heads wider than hidden / heads, all biases, or norms of heads.
ModelConfig with_additions(ModelConfig model, bool norms) {
  model.head_size = 6;
  model.qk_norm = norms;
  model.qkv_bias = model.out_bias = model.mlp_bias = !norms;
  return model;
}

ModelConfig with_adapters(ModelConfig model) {
  model.lora = {.rank = 5};
  return model;
}

std::vector<ModelConfig> models() {
  return {with_adapters(model_of(Family::gpt2, 12, 48, true)),
          with_adapters(model_of(Family::llama, 4, 48, true)),
          with_additions(model_of(Family::llama, 4, 48, true), false),
          with_additions(model_of(Family::llama, 2, 31, false), true),
          model_of(Family::gpt2, 12, 53, true),
          model_of(Family::gpt2, 12, 48, false),
          model_of(Family::llama, 12, 48, true),
          model_of(Family::llama, 4, 257, false),
          model_of(Family::llama, 2, 31, true),
          model_of(Family::llama, 6, 1, false)};
}

std::vector<graph::Grid> grids() {
  std::vector<graph::Grid> all;
  for (std::int64_t x : {1, 2, 3, 4}) {
    for (std::int64_t y : {1, 2, 3}) {
      for (std::int64_t z : {1, 2, 3}) {
        for (std::int64_t data : {1, 2}) all.push_back({x, y, z, data});
      }
    }
  }
  all.push_back({6, 2, 1, 1});
  all.push_back({1, 1, 5, 3});
  all.push_back({2, 3, 2, 2, {graph::Axis::data, graph::Axis::z, graph::Axis::x, graph::Axis::y}});
  return all;
}

bool fits(const ModelConfig& model, const graph::Grid& grid) {
  try {
    validate_grid(model, grid);
  } catch (const UserError&) {
    return false;
  }
  return true;
}

std::string refusal(const ModelConfig& model, const graph::Grid& grid) {
  return testing::message_of<UserError>([&] { validate_grid(model, grid); });
}

std::vector<std::int64_t> elements_of(const std::vector<ElementRun>& runs) {
  std::vector<std::int64_t> elements;
  for (const ElementRun& run : runs) {
    EXPECT_EQ(run.local, static_cast<std::int64_t>(elements.size()));
    EXPECT_GT(run.count, 0);
    for (std::int64_t i = 0; i < run.count; ++i) elements.push_back(run.global < 0 ? -1 : run.global + i);
  }
  return elements;
}

/// Properties of every pair of a model and a grid; `zero1` as in shard_parameters().
class EveryGrid : public ::testing::TestWithParam<bool> {
 protected:
  template <class Check>
  void for_each_pair(const Check& check) const {
    int pairs = 0;
    for (const ModelConfig& model : models()) {
      const std::vector<ParameterSpec> specs = model_parameters(model);
      for (const graph::Grid& grid : grids()) {
        if (!fits(model, grid)) continue;
        ++pairs;
        std::vector<std::vector<ParameterShard>> ranks;
        for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
          ranks.push_back(shard_parameters(model, specs, grid, graph::coordinates_of(grid, rank), GetParam()));
        }
        SCOPED_TRACE(fmt::format("{} kv-heads {} vocab {}, {}", to_string(model.family), model.kv_heads, model.vocab,
                                 graph::to_string(grid)));
        check(specs, grid, ranks);
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(pairs, 150);
  }
};

INSTANTIATE_TEST_SUITE_P(Zero1, EveryGrid, ::testing::Bool());

TEST_P(EveryGrid, EachElementIsStoredOnceAndUpdatedOnce) {
  for_each_pair([](const auto& specs, const graph::Grid&, const auto& ranks) {
    for (std::size_t p = 0; p < specs.size(); ++p) {
      std::vector<int> stored(static_cast<std::size_t>(specs[p].rows * specs[p].cols)), updated = stored;
      for (const auto& shards : ranks) {
        const ParameterShard& shard = shards[p];
        if (shard.replica == 0) {
          for (const std::int64_t element : elements_of(shard.runs_within(shard.begin, shard.end))) {
            if (element >= 0) ++stored.at(static_cast<std::size_t>(element));
          }
        }
        if (shard.update_replica == 0) {
          for (const std::int64_t element : elements_of(shard.runs_within(shard.update_begin, shard.update_end))) {
            if (element >= 0) ++updated.at(static_cast<std::size_t>(element));
          }
        }
      }
      EXPECT_EQ(std::count(stored.begin(), stored.end(), 1), std::ssize(stored)) << specs[p].name;
      EXPECT_EQ(std::count(updated.begin(), updated.end(), 1), std::ssize(updated)) << specs[p].name;
    }
  });
}

TEST_P(EveryGrid, RanksRunOneGraph) {
  for_each_pair([](const auto& specs, const graph::Grid& grid, const auto& ranks) {
    for (std::size_t p = 0; p < specs.size(); ++p) {
      const ParameterShard& first = ranks.front()[p];
      EXPECT_EQ(first.spec, &specs[p]);
      for (const auto& shards : ranks) {
        const ParameterShard& shard = shards[p];
        EXPECT_EQ(shard.rows, first.rows) << specs[p].name;
        EXPECT_EQ(shard.cols, first.cols) << specs[p].name;
        EXPECT_EQ(shard.end - shard.begin, first.end - first.begin) << specs[p].name;
        EXPECT_EQ(shard.update_end - shard.update_begin, first.update_end - first.update_begin) << specs[p].name;
        EXPECT_GE(shard.update_begin, shard.begin);
        EXPECT_LE(shard.update_end, shard.end);
        EXPECT_EQ(std::ssize(elements_of(shard.runs)), shard.elements()) << specs[p].name;
      }
      EXPECT_EQ((first.end - first.begin) * (is_cut_over_z(first.sharding) ? grid.z : 1), first.elements());
      const bool cut = GetParam() && zero1_cuts(first, grid);
      EXPECT_EQ((first.update_end - first.update_begin) * (cut ? grid.data : 1), first.end - first.begin);
    }
  });
}

TEST_P(EveryGrid, OnlyTheVocabularyIsPadded) {
  for_each_pair([](const auto& specs, const graph::Grid& grid, const auto& ranks) {
    for (std::size_t p = 0; p < specs.size(); ++p) {
      std::int64_t padding = 0;
      for (const auto& shards : ranks) {
        if (shards[p].replica != 0) continue;
        const auto elements = elements_of(shards[p].runs_within(shards[p].begin, shards[p].end));
        padding += std::count(elements.begin(), elements.end(), -1);
      }
      const bool vocabulary = specs[p].name == "wte.weight" || specs[p].name == "head.weight";
      const std::int64_t most = vocabulary ? grid.y * grid.z * specs[p].cols - 1 : 0;
      EXPECT_LE(padding, most) << specs[p].name;
    }
  });
}

ParameterShard shard_of(const ModelConfig& model, const graph::Grid& grid, const graph::Coordinates& at,
                        const std::string& name) {
  static std::vector<ParameterSpec> specs;  // outlives the shard
  specs = model_parameters(model);
  for (ParameterShard& shard : shard_parameters(model, specs, grid, at)) {
    if (shard.spec->name == name) return shard;
  }
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

/// Rows of the whole matrix in the block, in the block's order.
std::vector<std::int64_t> rows_of(const ParameterShard& shard) {
  const std::vector<std::int64_t> elements = elements_of(shard.runs);
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < shard.rows; ++row) {
    const std::int64_t first = elements.at(static_cast<std::size_t>(row * shard.cols));
    rows.push_back(first < 0 ? -1 : first / shard.spec->cols);
  }
  return rows;
}

// 4 query heads of 2 elements each; [Q 0-7 | K | V].
TEST(QkvRows, AreGroupedByTheRanksThatAttendToThem) {
  ModelConfig model = model_of(Family::llama, 4, 9, true);
  model.hidden = 8;
  model.heads = 4;
  const graph::Grid grid{2, 2, 1, 1};
  const auto block = shard_of(model, grid, {.x = 1, .y = 1}, "L0.attn.qkv.weight");
  // Heads 2 and 3: rank x = 0 attends with head 2, x = 1 with head 3.
  EXPECT_EQ(rows_of(block), (std::vector<std::int64_t>{4, 5, 12, 13, 20, 21, 6, 7, 14, 15, 22, 23}));
  EXPECT_EQ(block.cols, 4);
  EXPECT_EQ(block.runs.front().global, 4 * 8 + 4);
}

TEST(QkvRows, OfSharedKeyValueHeadsStandBehindAllQueries) {
  ModelConfig model = model_of(Family::llama, 2, 9, true);
  model.hidden = 8;
  model.heads = 4;
  const graph::Grid grid{2, 2, 1, 1};  // one KV head a y block, two ranks of x
  EXPECT_EQ(rows_of(shard_of(model, grid, {.x = 0, .y = 1}, "L0.attn.qkv.weight")),
            (std::vector<std::int64_t>{4, 5, 6, 7, 10, 11, 14, 15}));
  const LocalHeads local = local_heads(model, grid);
  EXPECT_TRUE(local.kv_shared);
  EXPECT_EQ(std::tie(local.heads, local.kv_heads, local.ranks_per_kv_head), std::tuple(1, 1, 2));
}

TEST(Shards, OfTransposedLayersSwapXAndY) {
  const ModelConfig model = model_of(Family::gpt2, 12, 9, true);
  const graph::Grid grid{3, 2, 1, 1};
  const auto up = shard_of(model, grid, {.x = 2, .y = 1}, "L1.mlp.up.weight");
  EXPECT_EQ(std::tie(up.rows, up.cols), std::tuple(18, 16));
  EXPECT_EQ(up.runs.front().global, 18 * 48 + 32);
  const auto down = shard_of(model, grid, {.x = 2, .y = 1}, "L1.mlp.down.weight");
  EXPECT_EQ(std::tie(down.rows, down.cols), std::tuple(16, 18));
  EXPECT_EQ(down.runs.front().global, 32 * 36 + 18);
}

TEST(Shards, TheVocabularyIsPaddedUntilYAndZDivideIt) {
  ModelConfig model = model_of(Family::gpt2, 12, 50257, true);
  EXPECT_EQ(local_vocab(model, {1, 2, 1, 1}), 25129);
  EXPECT_EQ(local_vocab(model, {1, 1, 1, 4}), 50257);
  EXPECT_EQ(local_vocab(model, {1, 1, 5, 1}), 50260);  // 5 and hidden = 48 have no common divisor
  EXPECT_EQ(local_vocab(model, {2, 1, 3, 1}), 50257);  // 24 columns divide by 3
  model.vocab = 5;
  const auto last = shard_of(model, {1, 3, 1, 1}, {.y = 2}, "wte.weight");
  EXPECT_EQ(rows_of(last), (std::vector<std::int64_t>{4, -1}));
}

TEST(Shards, OnOneRankAreTheWholeParameter) {
  for (const ModelConfig& model : models()) {
    const std::vector<ParameterSpec> specs = model_parameters(model);
    for (const ParameterShard& shard : shard_parameters(model, specs, {}, {}, true)) {
      ASSERT_EQ(shard.runs.size(), 1U) << shard.spec->name;
      EXPECT_EQ(shard.runs[0].global, 0);
      EXPECT_EQ(shard.runs[0].count, shard.spec->rows * shard.spec->cols);
      EXPECT_EQ(std::tie(shard.begin, shard.update_begin), std::tuple(0, 0));
      EXPECT_EQ(shard.end, shard.update_end);
    }
  }
}

TEST(RunsWithin, CutsTheFirstAndTheLast) {
  ParameterShard shard;
  shard.runs = {{0, 10, 4}, {4, -1, 2}, {6, 30, 4}};
  const auto within = shard.runs_within(1, 8);
  ASSERT_EQ(within.size(), 3U);
  EXPECT_EQ(std::tie(within[0].local, within[0].global, within[0].count), std::tuple(0, 11, 3));
  EXPECT_EQ(std::tie(within[1].local, within[1].global, within[1].count), std::tuple(3, -1, 2));
  EXPECT_EQ(std::tie(within[2].local, within[2].global, within[2].count), std::tuple(5, 30, 2));
  EXPECT_TRUE(shard.runs_within(4, 4).empty());
}

TEST(ValidateGrid, NamesTheDimensionAndTheNearestSizes) {
  const auto has = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    EXPECT_TRUE(has_parts(text, parts));
  };
  const ModelConfig gpt2 = model_of(Family::gpt2, 12, 53, true);
  has(refusal(gpt2, {5, 1, 1, 1}), {"x=5,y=1,z=1,data=1", "model.hidden = 48", "x = 5", "x=4 or x=6"});
  has(refusal(gpt2, {1, 5, 1, 1}), {"model.heads = 12", "y = 5", "y=4 or y=6"});
  has(refusal(gpt2, {8, 3, 1, 1}), {"model.heads = 12, 4 of them on each of y = 3", "x = 8", "x=4"});
  has(refusal(gpt2, {1, 1, 7, 1}), {"z = 7", "z=6 or z=8"});
  const ModelConfig grouped = model_of(Family::llama, 4, 53, true);
  has(refusal(grouped, {1, 3, 1, 1}), {"model.kv-heads = 4", "y = 3", "y=2 or y=4"});
  has(refusal(grouped, {3, 1, 1, 1}), {"model.kv-heads = 4, 4 of them on each of y = 1", "x = 3", "x=2 or x=4"});
  ModelConfig odd = gpt2;
  odd.ffn = 35;
  has(refusal(odd, {1, 2, 1, 1}), {"model.ffn = 35", "y = 2", "choose y=1"});
  ModelConfig prime = gpt2;  // wpe has 7 · 48 elements, z of 16 divides it and up's 48 · 36, but not 17
  prime.context = 7;
  has(refusal(prime, {1, 1, 17, 1}), {"z = 17", "z=16"});
  EXPECT_EQ(refusal(gpt2, {2, 3, 2, 5}), "");
}

TEST(ValidateGrid, WhatItRecommendsFits) {
  for (const ModelConfig& model : models()) {
    for (std::int64_t x = 1; x <= 8; ++x) {
      for (std::int64_t y = 1; y <= 8; ++y) {
        const graph::Grid grid{x, y, 1, 1};
        const std::string text = refusal(model, grid);
        for (const graph::Axis axis : {graph::Axis::x, graph::Axis::y}) {
          for (std::int64_t size = 1; size <= 32; ++size) {
            const std::string offer = fmt::format("{}={}", graph::to_string(axis), size);
            const auto choose = text.find("choose ");
            if (choose == std::string::npos) continue;
            const std::string offers = text.substr(choose) + " ";
            if (offers.find(" " + offer + " ") == std::string::npos) continue;
            graph::Grid other = grid;
            other.on(axis) = size;
            EXPECT_EQ(refusal(model, other), "") << text;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::ops
