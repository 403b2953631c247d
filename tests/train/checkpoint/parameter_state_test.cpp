// Stored tensors out of rows, columns and pieces of arrays, and regions that make up a matrix.
#include "train/checkpoint/parameter_state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/philox.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/model_arrays.h"

namespace weft::train {
namespace {

/// A matrix made of several stored tensors.
ops::ParameterSpec packed_spec(std::int64_t rows, std::int64_t cols, std::vector<ops::StoredTensor> stored) {
  ops::ParameterSpec spec;
  spec.name = "packed";
  spec.rows = rows;
  spec.cols = cols;
  spec.matrix = true;
  spec.stored = std::move(stored);
  return spec;
}

TEST(Region, KnowsTheColumnsOfItsRows) {
  const Region region{2, 5, 10, 14, 3, 9};  // of a block 3 × 4: one element, a row, one element
  EXPECT_EQ(region.elements(), 6);
  EXPECT_EQ(region.columns_of(2), std::pair(std::int64_t{13}, std::int64_t{14}));
  EXPECT_EQ(region.columns_of(3), std::pair(std::int64_t{10}, std::int64_t{14}));
  EXPECT_EQ(region.columns_of(4), std::pair(std::int64_t{10}, std::int64_t{11}));
  EXPECT_EQ(region.columns_of(5).first, region.columns_of(5).second);
  EXPECT_EQ(region.index(2, 13), 0);
  EXPECT_EQ(region.index(4, 10), 5);
  EXPECT_FALSE(region.whole_block());
  EXPECT_TRUE(whole_region(3, 4).whole_block());
}

TEST(CoverFault, NamesGapsAndOverlaps) {
  const auto fault = [](std::vector<Region> regions) { return cover_fault(4, 6, regions); };
  EXPECT_EQ(fault({whole_region(4, 6)}), "");
  EXPECT_EQ(fault({{0, 4, 0, 3, 0, 12}, {0, 4, 3, 6, 0, 12}}), "");
  // A block in three ranges that end within rows, another block beside it.
  EXPECT_EQ(fault({{0, 4, 0, 4, 6, 11}, {0, 4, 4, 6, 0, 8}, {0, 4, 0, 4, 11, 16}, {0, 4, 0, 4, 0, 6}}), "");
  EXPECT_EQ(fault({{0, 4, 0, 4, 6, 11}, {0, 4, 4, 6, 0, 8}, {0, 4, 0, 4, 12, 16}, {0, 4, 0, 4, 0, 6}}),
            "miss 1 of its 24 elements");
  EXPECT_EQ(fault({{0, 4, 0, 4, 6, 12}, {0, 4, 4, 6, 0, 8}, {0, 4, 0, 4, 11, 16}, {0, 4, 0, 4, 0, 6}}),
            "overlap at [2, 3]");
  EXPECT_EQ(fault({whole_region(4, 6), {1, 2, 1, 2, 0, 1}}), "overlap at [1, 1]");
  EXPECT_EQ(fault({{0, 2, 0, 6, 0, 12}, {1, 4, 0, 6, 0, 18}}), "overlap at [1, 0]");
  EXPECT_EQ(fault({{0, 4, 0, 6, 5, 5}}), "miss 24 of its 24 elements");
  EXPECT_EQ(fault({}), "miss 24 of its 24 elements");
}

// Against counting, over random lists of regions.
TEST(CoverFault, AgreesWithCounting) {
  constexpr std::int64_t kRows = 4, kCols = 5;
  std::uint64_t draw = 0;
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(philox_quad(3, 0, 0, draw++)[0] % static_cast<std::uint64_t>(n));
  };
  int covers = 0, faults = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<Region> regions;
    // Cut the matrix into columns and ranges, then spoil some.
    for (std::int64_t col = 0; col < kCols;) {
      const std::int64_t width = 1 + below(kCols - col);
      for (std::int64_t at = 0; at < kRows * width;) {
        const std::int64_t count = 1 + below(kRows * width - at);
        regions.push_back({0, kRows, col, col + width, at, at + count});
        at += count;
      }
      col += width;
    }
    if (below(2) == 0) {
      Region& spoilt = regions.at(static_cast<std::size_t>(below(std::ssize(regions))));
      if (below(2) == 0 && spoilt.range_begin > 0) --spoilt.range_begin;
      if (below(2) == 0 && spoilt.elements() > 1) ++spoilt.range_begin;
    }
    std::vector<int> counts(kRows * kCols);
    for (const Region& region : regions) {
      for (std::int64_t row = 0; row < kRows; ++row) {
        const auto [first, last] = region.columns_of(row);
        for (std::int64_t col = first; col < last; ++col) ++counts.at(static_cast<std::size_t>(row * kCols + col));
      }
    }
    const bool overlap = std::any_of(counts.begin(), counts.end(), [](int n) { return n > 1; });
    const bool gap = std::find(counts.begin(), counts.end(), 0) != counts.end();
    const std::string found = cover_fault(kRows, kCols, regions);
    EXPECT_EQ(found.empty(), !overlap && !gap);
    EXPECT_EQ(found.starts_with("overlap"), overlap);
    ++(found.empty() ? covers : faults);
  }
  EXPECT_GT(covers, 500);
  EXPECT_GT(faults, 500);
}

TEST(Pieces, OfAWholeParameterAreItsTensors) {
  const auto specs = ops::model_parameters(testing::small_model(ops::Family::llama, true));
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [](const ops::ParameterSpec& spec) { return spec.name == "L0.attn.qkv.weight"; });
  const auto pieces = pieces_of(*found);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[1].stored->name, "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(pieces[1].region, whole_region(4, 8));
  EXPECT_EQ(pieces[1].local, 8 * 8);
}

// Every element of every array is in one piece, at its place; nothing else is.
TEST(Pieces, HoldTheElementsOfTheirRuns) {
  for (const ops::Family family : {ops::Family::gpt2, ops::Family::llama}) {
    const ops::ModelConfig model = testing::small_model(family, false);
    const auto specs = ops::model_parameters(model);
    for (const graph::Grid& grid : {graph::Grid{}, graph::Grid{2, 1, 1, 1}, graph::Grid{2, 2, 2, 1},
                                    graph::Grid{1, 2, 4, 2}, graph::Grid{4, 1, 1, 1}}) {
      for (std::int64_t rank = 0; rank < grid.ranks(); ++rank) {
        for (const ops::ParameterShard& shard :
             ops::shard_parameters(model, specs, grid, graph::coordinates_of(grid, rank), true)) {
          std::vector<std::int64_t> expected(static_cast<std::size_t>(shard.update_end - shard.update_begin), -1);
          std::vector<std::int64_t> found = expected;
          for (const ops::ElementRun& run : shard.runs_within(shard.update_begin, shard.update_end)) {
            for (std::int64_t i = 0; run.global >= 0 && i < run.count; ++i) {
              expected.at(static_cast<std::size_t>(run.local + i)) = run.global + i;
            }
          }
          for (const ParameterPiece& piece : pieces_of(shard, shard.update_begin, shard.update_end)) {
            for (std::int64_t row = piece.region.row_begin; row < piece.region.row_end; ++row) {
              const auto [first, last] = piece.region.columns_of(row);
              EXPECT_LT(first, last);
              for (std::int64_t col = first; col < last; ++col) {
                const std::int64_t begin = piece.stored->row_begin;
                const std::int64_t global =
                    shard.spec->matrix ? (begin + row) * shard.spec->cols + col : begin + row + col;
                found.at(static_cast<std::size_t>(piece.local + piece.region.index(row, col))) = global;
              }
            }
          }
          ASSERT_EQ(found, expected) << shard.spec->name << " " << graph::to_string(grid) << " rank " << rank;
        }
      }
    }
  }
}

TEST(Pieces, AreAsFewAsTheBlockAllows) {
  const ops::ModelConfig model = testing::small_model(ops::Family::gpt2, true);
  const auto specs = ops::model_parameters(model);
  const auto shards = ops::shard_parameters(model, specs, {2, 2, 1, 1}, {.x = 1, .y = 1});
  for (const ops::ParameterShard& shard : shards) {
    const bool qkv = shard.spec->name.find("qkv") != std::string::npos;
    EXPECT_EQ(pieces_of(shard, shard.begin, shard.end).size(), qkv ? 6U : 1U) << shard.spec->name;
  }
}

TEST(TensorSource, UndoesPackInBothTypesAcrossTiles) {
  const testing::TemporaryFolder folder;
  const ops::ParameterSpec spec = packed_spec(75, 41, {{"a", 0, 30, false}, {"b", 30, 45, true}});
  std::vector<float> data(75 * 41);
  std::vector<bf16> half(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<float>(i) / 8;
    half[i] = bf16(data[i]);
  }
  const auto check = [&](DType dtype, const void* from, void* to) {
    std::vector<TensorToWrite> tensors;
    for (const ops::StoredTensor& piece : spec.stored) {
      tensors.push_back(
          {piece.name, stored_type(dtype), stored_shape(spec, piece),
           [&, from, dtype](std::vector<std::byte>& scratch) { return pack(spec, piece, dtype, from, scratch); }});
    }
    write_safetensors(folder.path("t"), std::move(tensors));
    const SafetensorsFile file(folder.path("t"));
    const auto pieces = pieces_of(spec);
    for (const ops::StoredTensor& stored : spec.stored) {
      copy(whole_source(file, *file.find(stored.name), spec, stored), stored, pieces, dtype, to);
    }
    EXPECT_EQ(std::memcmp(from, to, data.size() * size_of(dtype)), 0);
  };
  std::vector<float> data_again(data.size());
  std::vector<bf16> half_again(half.size());
  check(DType::f32, data.data(), data_again.data());
  check(DType::bf16, half.data(), half_again.data());
  // The file holds bf16 now: read as f32, and f32 rounded to bf16 on the way in.
  const SafetensorsFile file(folder.path("t"));
  copy(whole_source(file, *file.find("b"), spec, spec.stored[1]), pieces_of(spec)[1], DType::f32, data_again.data());
  EXPECT_EQ(data_again[74 * 41 + 40], static_cast<float>(half[74 * 41 + 40]));
}

TEST(TensorSource, RefusesAnotherShapeByName) {
  const testing::TemporaryFolder folder;
  const ops::ParameterSpec spec = packed_spec(2, 3, {{"w", 0, 2, true}});
  std::vector<float> data(6);
  std::vector<TensorToWrite> tensors = {
      {"w", stored_type(DType::f32), {2, 3}, [&](std::vector<std::byte>&) { return std::as_bytes(std::span(data)); }}};
  write_safetensors(folder.path("t"), std::move(tensors));
  const SafetensorsFile file(folder.path("t"));
  EXPECT_TRUE(refuses([&] { whole_source(file, *file.find("w"), spec, spec.stored[0]); },
                      {"t': tensor 'w' has shape [2, 3]", "[3, 2] for this model"}));
}

// A piece of a block, from a range of another block, and from a block stored by columns.
TEST(TensorSource, CopiesWhatRegionsHaveInCommon) {
  const testing::TemporaryFolder folder;
  const std::int64_t rows = 150, cols = 90;
  const auto value = [&](std::int64_t row, std::int64_t col) { return static_cast<float>(row * cols + col); };
  const Region have{10, 140, 5, 80, 20, 130 * 75 - 30};
  const Region columns{10, 140, 5, 80, 0, 130 * 75};
  std::vector<float> by_row, by_column;
  for (std::int64_t row = have.row_begin; row < have.row_end; ++row) {
    const auto [first, last] = have.columns_of(row);
    for (std::int64_t col = first; col < last; ++col) by_row.push_back(value(row, col));
  }
  for (std::int64_t col = columns.col_begin; col < columns.col_end; ++col) {
    for (std::int64_t row = columns.row_begin; row < columns.row_end; ++row) by_column.push_back(value(row, col));
  }
  const auto bytes = [](const std::vector<float>& values) {
    return [&values](std::vector<std::byte>&) { return std::as_bytes(std::span(values)); };
  };
  write_safetensors(folder.path("t"), {{"r", stored_type(DType::f32), {by_row.size()}, bytes(by_row)},
                                       {"c", stored_type(DType::f32), {by_column.size()}, bytes(by_column)}});
  const SafetensorsFile file(folder.path("t"));
  const ops::StoredTensor stored{"w", 0, rows, false};
  const ParameterPiece piece{&stored, {0, 100, 50, 90, 17, 100 * 40 - 11}, 3};
  for (const bool transposed : {false, true}) {
    const TensorSource source{elements_of(file, *file.find(transposed ? "c" : "r")), transposed ? columns : have,
                              transposed};
    std::vector<float> array(static_cast<std::size_t>(piece.region.elements()) + 6, -1.0F), expected = array;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto [first, last] = piece.region.columns_of(row);
      const auto [from, to] = source.region.columns_of(row);
      for (std::int64_t col = std::max(first, from); col < std::min(last, to); ++col) {
        expected.at(static_cast<std::size_t>(3 + piece.region.index(row, col))) = value(row, col);
      }
    }
    copy(source, piece, DType::f32, array.data());
    EXPECT_EQ(array, expected) << transposed;
  }
}

}  // namespace
}  // namespace weft::train
