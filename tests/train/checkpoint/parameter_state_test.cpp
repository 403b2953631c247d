// Row ranges and transposition of stored tensors.
#include "train/checkpoint/parameter_state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/train/checkpoint/packed_spec.h"

namespace weft::train {
namespace {

template <class Element>
std::vector<Element> elements(std::span<const std::byte> bytes) {
  std::vector<Element> values(bytes.size() / sizeof(Element));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(StoredShape, OfMatricesTransposedOnesAndVectors) {
  const ops::ParameterSpec spec = testing::packed_spec(5, 3, {{"a", 0, 2, false}, {"b", 2, 3, true}});
  EXPECT_EQ(stored_shape(spec, spec.stored[0]), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(stored_shape(spec, spec.stored[1]), (std::vector<std::uint64_t>{3, 3}));
  ops::ParameterSpec vector = testing::packed_spec(1, 7, {{"v", 0, 5, false}, {"w", 5, 2, false}});
  vector.matrix = false;
  EXPECT_EQ(stored_shape(vector, vector.stored[0]), (std::vector<std::uint64_t>{5}));
  EXPECT_EQ(stored_shape(vector, vector.stored[1]), (std::vector<std::uint64_t>{2}));
}

TEST(Pack, TakesRowsAndTransposesThem) {
  const ops::ParameterSpec spec = testing::packed_spec(3, 2, {{"a", 0, 1, false}, {"b", 1, 2, true}});
  const std::vector<float> data = {0, 1, 10, 11, 20, 21};
  std::vector<std::byte> scratch;
  const auto a = pack(spec, spec.stored[0], DType::f32, data.data(), scratch);
  EXPECT_EQ(elements<float>(a), (std::vector<float>{0, 1}));
  EXPECT_TRUE(scratch.empty());  // rows that lie as they are stored aren't copied
  EXPECT_EQ(elements<float>(pack(spec, spec.stored[1], DType::f32, data.data(), scratch)),
            (std::vector<float>{10, 20, 11, 21}));
}

TEST(Pack, TakesElementsOfAVector) {
  ops::ParameterSpec spec = testing::packed_spec(1, 5, {{"a", 0, 2, false}, {"b", 2, 3, false}});
  spec.matrix = false;
  const std::vector<float> data = {0, 1, 2, 3, 4};
  std::vector<std::byte> scratch;
  EXPECT_EQ(elements<float>(pack(spec, spec.stored[1], DType::f32, data.data(), scratch)),
            (std::vector<float>{2, 3, 4}));
}

}  // namespace
}  // namespace weft::train
