// Elements out of files into arrays: types, transposition, and regions that overlap in part.
#include "train/checkpoint/tensor_source.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/checkpoint/packed_spec.h"
#include "train/checkpoint/parameter_state.h"

namespace weft::train {
namespace {

TEST(TensorSource, UndoesPackInBothTypesAcrossTiles) {
  const testing::TemporaryFolder folder;
  const ops::ParameterSpec spec = testing::packed_spec(75, 41, {{"a", 0, 30, false}, {"b", 30, 45, true}});
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
  const ops::ParameterSpec spec = testing::packed_spec(2, 3, {{"w", 0, 2, true}});
  std::vector<float> data(6);
  std::vector<TensorToWrite> tensors = {
      {"w", StoredType::f32, {2, 3}, [&](std::vector<std::byte>&) { return std::as_bytes(std::span(data)); }}};
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
  write_safetensors(folder.path("t"), {{"r", StoredType::f32, {by_row.size()}, bytes(by_row)},
                                       {"c", StoredType::f32, {by_column.size()}, bytes(by_column)}});
  const SafetensorsFile file(folder.path("t"));
  const ops::StoredTensor stored{"w", 0, rows, false};
  const ParameterPiece piece{&stored, {0, 100, 50, 90, 17, 100 * 40 - 11}, 3};
  for (const bool transposed : {false, true}) {
    const TensorSource source{&file, file.find(transposed ? "c" : "r"), transposed ? columns : have, transposed};
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
