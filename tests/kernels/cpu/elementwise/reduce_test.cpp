// Sums in rank order: order, single rounding, aliasing, divided messages.
#include "kernels/cpu/elementwise/reduce.h"

#include <gtest/gtest.h>

#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

std::vector<const void*> addresses(std::vector<Tensor>& tensors, std::size_t offset_bytes = 0) {
  std::vector<const void*> result;
  for (Tensor& tensor : tensors) result.push_back(tensor.bytes().data() + offset_bytes);
  return result;
}

// The sum by its definition, one element at a time.
Values in_order(std::vector<Tensor>& tensors) {
  Values totals;
  for (std::size_t i = 0; i < tensors[0].values().size(); ++i) {
    auto total = static_cast<float>(tensors[0].values()[i]);
    for (std::size_t r = 1; r < tensors.size(); ++r) total += static_cast<float>(tensors[r].values()[i]);
    totals.push_back(tensors[0].dtype() == DType::bf16 ? static_cast<float>(bf16(total)) : total);
  }
  return totals;
}

class RankOrderSum : public testing::ForFloatTypes {};

TEST_P(RankOrderSum, IsExactlyTheSequentialSumRoundedOnce) {
  const DType dtype = GetParam();
  for (std::int64_t ranks : {1, 2, 5}) {
    std::vector<Tensor> sources;
    for (std::int64_t r = 0; r < ranks; ++r) {
      sources.push_back(Tensor::random(dtype, 1, 101, static_cast<std::uint32_t>(r), r == 1 ? 1000.0 : 1.0));
    }
    const Values expected = in_order(sources);
    Tensor out(dtype, 1, 101);
    sum_in_rank_order(addresses(sources), out.bytes().data(), 101, dtype);
    EXPECT_EQ(out.values(), expected);
    // Divided in two at an odd position, with one of the sources as the output.
    const std::size_t cut = 37 * size_of(dtype);
    std::vector<std::byte>& last = sources.back().bytes();
    sum_in_rank_order(addresses(sources), last.data(), 37, dtype);
    sum_in_rank_order(addresses(sources, cut), last.data() + cut, 64, dtype);
    EXPECT_EQ(last, out.bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RankOrderSum, testing::both_float_types(), testing::type_name);

// This includes subnormal numbers and signalling NaNs, which arithmetic would change.
TEST(RankOrderSumBf16, OfOneRankIsItsCopy) {
  const std::vector<std::uint16_t> one = {0x0001, 0x807f, 0x7f81, 0x3f80};
  std::vector<std::uint16_t> out(one.size());
  const std::vector<const void*> sources = {one.data()};
  sum_in_rank_order(sources, out.data(), 4, DType::bf16);
  EXPECT_EQ(out, one);
}

TEST(RankOrderSumIntegers, AddAndWrap) {
  const std::vector<std::int32_t> a = {1, -5, INT32_MAX}, b = {2, 3, 1};
  std::vector<std::int32_t> out(3);
  const std::vector<const void*> sources = {a.data(), b.data()};
  sum_in_rank_order(sources, out.data(), 3, DType::i32);
  EXPECT_EQ(out, (std::vector<std::int32_t>{3, -2, INT32_MIN}));
  std::vector<std::int64_t> c = {std::int64_t{1} << 40, -1}, d = {5, -1};
  const std::vector<const void*> wide = {c.data(), d.data()};
  sum_in_rank_order(wide, d.data(), 2, DType::i64);
  EXPECT_EQ(d, (std::vector<std::int64_t>{(std::int64_t{1} << 40) + 5, -2}));
}

}  // namespace
}  // namespace weft::cpu
