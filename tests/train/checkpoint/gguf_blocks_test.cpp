// Values and blocks of the package gguf, to the bit (see ../../reference/make_gguf).
#include "train/checkpoint/gguf_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/gguf_writer.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::train {
namespace {

class GgufBlocks : public ::testing::TestWithParam<const char*> {
 protected:
  const GgufTensor& tensor(const std::string& name) const {
    const GgufTensor* found = file_.find(name);
    if (found == nullptr) throw std::runtime_error("no " + name);
    return *found;
  }
  std::vector<float> values(const GgufTensor& of) const {
    std::vector<float> all(of.elements());
    read_elements(file_, of, 0, all);
    return all;
  }

  const GgufFile file_{std::string(WEFT_SOURCE_DIR) + "/tests/reference/golden/gguf/blocks.gguf"};
};

std::uint32_t bits_of(float value) {
  return std::isnan(value) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(value);
}

const auto kNameOfType = [](const auto& info) { return std::string(info.param); };

using GgufReading = GgufBlocks;
INSTANTIATE_TEST_SUITE_P(Types, GgufReading,
                         ::testing::Values("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K"), kNameOfType);

TEST_P(GgufReading, HasTheValuesOfThePackage) {
  const std::vector<float> found = values(tensor(GetParam()));
  const std::vector<float> expected = values(tensor(std::string(GetParam()) + ".values"));
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GE(found.size(), 512U);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(bits_of(found[i]), bits_of(expected[i])) << i;
}

TEST_P(GgufReading, ReadsAnyPart) {
  const GgufTensor& from = tensor(GetParam());
  const std::vector<float> whole = values(from);
  for (const std::uint64_t first : {0, 1, 31, 32, 200, 256, 300}) {
    for (const std::uint64_t count : {0, 1, 30, 33, 200, 212}) {
      std::vector<float> part(count);
      read_elements(file_, from, first, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first),
                             [](float a, float b) { return bits_of(a) == bits_of(b); }))
          << first << ", " << count;
    }
  }
  std::vector<float> beyond(2);
  EXPECT_THROW(read_elements(file_, from, whole.size() - 1, beyond), std::invalid_argument);
}

using GgufWriting = GgufBlocks;
INSTANTIATE_TEST_SUITE_P(Types, GgufWriting, ::testing::Values("F16", "BF16", "Q8_0"), kNameOfType);

TEST_P(GgufWriting, HasTheBlocksOfThePackage) {
  const GgufTensor& expected = tensor(std::string(GetParam()) + ".of_source");
  const std::vector<float> source = values(tensor("source"));
  std::vector<std::byte> made(expected.end - expected.begin), read(made.size());
  quantize(expected.type, source, made);
  file_.read_bytes(expected, 0, read);
  EXPECT_EQ(made, read);
}

TEST(GgufReadable, OtherTypesAreRefusedByName) {
  const testing::TemporaryFolder folder;
  for (const GgufType& type : gguf_types()) {
    const std::vector<GgufTensorToWrite> tensors = {
        {"w", type, {1, type.block}, [&](auto& scratch) -> std::span<const std::byte> {
           scratch.assign(type.bytes, std::byte{0});
           return scratch;
         }}};
    write_gguf(folder.path("model.gguf"), {}, tensors);
    const GgufFile file(folder.path("model.gguf"));
    std::vector<float> out(type.block);
    const auto read = [&] { read_elements(file, file.tensors().front(), 0, out); };
    if (is_readable(type)) {
      read();
    } else {
      EXPECT_TRUE(refuses(read, {"tensor 'w' has the type " + std::string(type.name), "Q4_K, Q5_K, Q6_K"}));
    }
  }
  EXPECT_EQ(readable_gguf_types(), "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K, Q6_K");
  std::vector<std::byte> blocks(18);
  EXPECT_THROW(quantize(gguf_type("Q4_0"), std::vector<float>(32), blocks), std::invalid_argument);
}

TEST(GgufQuantize, NumbersWithoutAMeaningBecomeZero) {
  std::vector<float> values(32, 1.0F), back(32);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::byte> blocks(34);
  quantize(gguf_type("Q8_0"), values, blocks);
  dequantize(gguf_type("Q8_0"), blocks, back);
  EXPECT_EQ(back[3], 0);
  EXPECT_NEAR(back[4], 1, 1e-3);
}

}  // namespace
}  // namespace weft::train
