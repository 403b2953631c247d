// Row ranges, transposition and conversion between parameters and stored tensors.
#include "train/parameter_state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "tests/train/temporary_folder.h"

namespace weft {
namespace {

ParameterSpec packed(std::int64_t rows, std::int64_t cols, std::vector<StoredTensor> stored) {
  ParameterSpec spec;
  spec.name = "packed";
  spec.rows = rows;
  spec.cols = cols;
  spec.matrix = true;
  spec.stored = std::move(stored);
  return spec;
}

template <class Element>
std::vector<Element> elements(std::span<const std::byte> bytes) {
  std::vector<Element> values(bytes.size() / sizeof(Element));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(StoredShape, OfMatricesTransposedOnesAndVectors) {
  const ParameterSpec spec = packed(5, 3, {{"a", 0, 2, false}, {"b", 2, 3, true}});
  EXPECT_EQ(stored_shape(spec, spec.stored[0]), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(stored_shape(spec, spec.stored[1]), (std::vector<std::uint64_t>{3, 3}));
  ParameterSpec vector = packed(1, 7, {{"v", 0, 1, false}});
  vector.matrix = false;
  EXPECT_EQ(stored_shape(vector, vector.stored[0]), (std::vector<std::uint64_t>{7}));
}

TEST(Pack, TakesRowsAndTransposesThem) {
  const ParameterSpec spec = packed(3, 2, {{"a", 0, 1, false}, {"b", 1, 2, true}});
  const std::vector<float> data = {0, 1, 10, 11, 20, 21};
  std::vector<std::byte> scratch;
  const auto a = pack(spec, spec.stored[0], DType::f32, data.data(), scratch);
  EXPECT_EQ(elements<float>(a), (std::vector<float>{0, 1}));
  EXPECT_TRUE(scratch.empty());  // rows that lie as they are stored aren't copied
  EXPECT_EQ(elements<float>(pack(spec, spec.stored[1], DType::f32, data.data(), scratch)),
            (std::vector<float>{10, 20, 11, 21}));
}

TEST(Unpack, UndoesPackInBothTypesAcrossTiles) {
  const TemporaryFolder folder;
  const ParameterSpec spec = packed(75, 41, {{"a", 0, 30, false}, {"b", 30, 45, true}});
  std::vector<float> data(75 * 41);
  std::vector<bf16> half(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<float>(i) / 8;
    half[i] = bf16(data[i]);
  }
  const auto check = [&](DType dtype, const void* from, void* to) {
    std::vector<TensorToWrite> tensors;
    for (const StoredTensor& piece : spec.stored) {
      tensors.push_back(
          {piece.name, stored_type(dtype), stored_shape(spec, piece),
           [&, from, dtype](std::vector<std::byte>& scratch) { return pack(spec, piece, dtype, from, scratch); }});
    }
    write_safetensors(folder.path("t"), std::move(tensors));
    const SafetensorsFile file(folder.path("t"));
    for (const StoredTensor& piece : spec.stored) unpack(file, *file.find(piece.name), spec, piece, dtype, to);
    EXPECT_EQ(std::memcmp(from, to, data.size() * size_of(dtype)), 0);
  };
  std::vector<float> data_again(data.size());
  std::vector<bf16> half_again(half.size());
  check(DType::f32, data.data(), data_again.data());
  check(DType::bf16, half.data(), half_again.data());
  // The file holds bf16 now: read as f32, and f32 rounded to bf16 on the way in.
  const SafetensorsFile file(folder.path("t"));
  unpack(file, *file.find("b"), spec, spec.stored[1], DType::f32, data_again.data());
  EXPECT_EQ(data_again[74 * 41 + 40], static_cast<float>(half[74 * 41 + 40]));
}

TEST(Unpack, RefusesAnotherShapeByName) {
  const TemporaryFolder folder;
  const ParameterSpec spec = packed(2, 3, {{"w", 0, 2, true}});
  std::vector<float> data(6);
  std::vector<TensorToWrite> tensors = {
      {"w", StoredType::f32, {2, 3}, [&](std::vector<std::byte>&) { return std::as_bytes(std::span(data)); }}};
  write_safetensors(folder.path("t"), std::move(tensors));
  const SafetensorsFile file(folder.path("t"));
  EXPECT_TRUE(has_parts(
      message_of<UserError>([&] { unpack(file, *file.find("w"), spec, spec.stored[0], DType::f32, data.data()); }),
      {"t': tensor 'w' has shape [2, 3]", "[3, 2] for this model"}));
}

}  // namespace
}  // namespace weft
