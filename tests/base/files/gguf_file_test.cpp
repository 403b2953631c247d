// Files that the writer made come back; damaged ones are refused by the name of what is wrong.
#include "base/files/gguf_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/gguf_writer.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft {
namespace {

std::string bytes_of(std::uint64_t number, std::size_t size) {
  return {reinterpret_cast<const char*>(&number), size};
}
std::string u32(std::uint64_t number) {
  return bytes_of(number, 4);
}
std::string u64(std::uint64_t number) {
  return bytes_of(number, 8);
}
std::string text(const std::string& content) {
  return u64(content.size()) + content;
}
std::string header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  return "GGUF" + u32(version) + u64(tensors) + u64(keys);
}
std::string tensor(const std::string& name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                   std::uint64_t offset) {
  std::string info = text(name) + u32(sizes.size());
  for (const std::uint64_t size : sizes) info += u64(size);
  return info + u32(type) + u64(offset);
}
/// Up to a multiple of 32 bytes.
std::string padded(std::string bytes, std::size_t more = 0) {
  bytes.resize((bytes.size() + 31) / 32 * 32 + more, '\0');
  return bytes;
}

class GgufFileTest : public ::testing::Test {
 protected:
  /// The reason why a file of these bytes is refused; "" if it isn't.
  std::string refusal(const std::string& bytes) const {
    const std::string path = folder_.write("model.gguf", bytes);
    return testing::message_of<UserError>([&] { GgufFile file(path); });
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(GgufFileTest, WhatIsWrittenIsRead) {
  GgufMetadata metadata;
  metadata.text("general.architecture", "llama").integer("llama.block_count", 7).number("llama.eps", 1e-5F);
  metadata.flag("yes", true).texts("words", std::vector<std::string>{"a", "", "é"});
  metadata.integers("types", std::vector<std::int32_t>{1, -3}).numbers("scores", std::vector<float>{0.5F, -2.0F});
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::vector<std::byte> blocks(2 * 34, std::byte{9});
  const std::vector<GgufTensorToWrite> tensors = {
      {"plain", gguf_type("F32"), {2, 3}, [&](auto&) { return std::as_bytes(std::span(values)); }},
      {"blocks", gguf_type("Q8_0"), {2, 32}, [&](auto& scratch) -> std::span<const std::byte> {
         scratch = blocks;
         return scratch;
       }}};
  const FileSummary written = write_gguf(folder_.path("model.gguf"), metadata, tensors);
  EXPECT_EQ(written.bytes, gguf_bytes(metadata, tensors));

  EXPECT_TRUE(is_gguf(folder_.path("model.gguf")));
  const GgufFile file(folder_.path("model.gguf"));
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("llama.block_count", 1, 9), 7);
  EXPECT_EQ(file.number("llama.eps"), static_cast<double>(1e-5F));
  EXPECT_TRUE(file.flag("yes"));
  EXPECT_EQ(file.texts("words"), (std::vector<std::string>{"a", "", "é"}));
  EXPECT_EQ(file.integers("types"), (std::vector<std::int64_t>{1, -3}));
  EXPECT_EQ(file.numbers("scores"), (std::vector<double>{0.5, -2}));
  ASSERT_EQ(file.tensors().size(), 2U);
  const GgufTensor& plain = *file.find("plain");
  EXPECT_EQ(plain.shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(plain.elements(), 6U);
  EXPECT_EQ(plain.begin % 32, 0U);
  std::vector<float> read(2);
  file.read_bytes(plain, 4 * sizeof(float), std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, (std::vector<float>{5, 6}));
  EXPECT_EQ(file.find("blocks")->elements(), 64U);
  EXPECT_EQ(file.find("other"), nullptr);
  EXPECT_FALSE(is_gguf(folder_.path()));
}

TEST_F(GgufFileTest, AnotherKindOfValueIsRefusedByItsKey) {
  GgufMetadata metadata;
  metadata.text("word", "loom").integer("number", 7).texts("words", {});
  write_gguf(folder_.path("model.gguf"), metadata, {});
  const GgufFile file(folder_.path("model.gguf"));
  EXPECT_TRUE(refuses([&] { (void)file.integer("word", 0, 9); }, {"word is loom", "an integer from 0 to 9"}));
  EXPECT_TRUE(refuses([&] { (void)file.integer("number", 0, 6); }, {"number is 7", "from 0 to 6"}));
  EXPECT_TRUE(refuses([&] { (void)file.text("words"); }, {"words is a list of 0", "a text"}));
  EXPECT_TRUE(refuses([&] { (void)file.numbers("none"); }, {"has no none", "a list of numbers"}));
}

TEST_F(GgufFileTest, ReadsIntegersOfAllWidthsAndVersion2) {
  std::string bytes = header(0, 4, 2);
  bytes += text("a") + u32(0) + std::string("\xff", 1);      // u8
  bytes += text("b") + u32(3) + std::string("\xfe\xff", 2);  // i16
  bytes += text("c") + u32(11) + u64(~std::uint64_t{0});     // i64
  bytes += text("d") + u32(9) + u32(1) + u64(2) + "\x01\x80";
  folder_.write("model.gguf", bytes);
  const GgufFile file(folder_.path("model.gguf"));
  EXPECT_EQ(file.integer("a", 0, 255), 255);
  EXPECT_EQ(file.integer("b", -9, 9), -2);
  EXPECT_EQ(file.integer("c", -9, 9), -1);
  EXPECT_EQ(file.integers("d"), (std::vector<std::int64_t>{1, -128}));
}

TEST_F(GgufFileTest, RefusesOtherFilesAndVersions) {
  EXPECT_TRUE(has_parts(refusal("GGML" + std::string(40, '\0')), {"its first bytes aren't GGUF"}));
  EXPECT_TRUE(has_parts(refusal(header(0, 0, 1)), {"its version is 1", "version 2 or 3"}));
  EXPECT_TRUE(has_parts(refusal(header(0, 0, 0x03000000)), {"big-endian"}));
  EXPECT_EQ(refusal(header(0, 0)), "");
}

TEST_F(GgufFileTest, RefusesFilesThatBreakOff) {
  const std::string whole = padded(header(1, 2) + text("word") + u32(8) + text("loom") + text("list") + u32(9) +
                                       u32(4) + u64(2) + u32(1) + u32(2) + tensor("t", {32, 2}, 8, 0),
                                   68);
  ASSERT_EQ(refusal(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
}

TEST_F(GgufFileTest, RefusesCountsBeyondTheFile) {
  const std::uint64_t huge = std::uint64_t{1} << 60;
  EXPECT_TRUE(has_parts(refusal(header(huge, 0) + std::string(64, '\0')), {"the number of tensors claims"}));
  EXPECT_TRUE(has_parts(refusal(header(0, huge) + std::string(64, '\0')), {"the number of keys claims"}));
  EXPECT_TRUE(has_parts(refusal(header(0, 1) + u64(huge) + "a key of this file"), {"a key claims"}));
  EXPECT_TRUE(has_parts(refusal(header(0, 1) + text("key") + u32(8) + u64(huge)), {"key claims"}));
  EXPECT_TRUE(has_parts(refusal(header(0, 1) + text("key") + u32(9) + u32(8) + u64(huge)), {"key claims"}));
  EXPECT_TRUE(has_parts(refusal(padded(header(1, 0) + tensor("t", {huge, huge}, 0, 0))), {"tensor 't'", "2^64"}));
}

TEST_F(GgufFileTest, RefusesWhatHasNoMeaning) {
  const std::string flag = text("key") + u32(7) + std::string("\x01", 1);
  EXPECT_TRUE(has_parts(refusal(header(0, 2) + flag + flag), {"key comes twice"}));
  EXPECT_TRUE(has_parts(refusal(header(0, 1) + text("key") + u32(13) + u64(0)), {"key is of the kind 13"}));
  EXPECT_TRUE(has_parts(refusal(header(0, 1) + text("key") + u32(9) + u32(9) + u64(0)), {"key is a list of lists"}));
  EXPECT_TRUE(has_parts(refusal(header(0, 1) + text("key") + u32(10) + u64(~std::uint64_t{0})), {"below 2^63"}));
  const std::string alignment = text("general.alignment") + u32(4);
  EXPECT_TRUE(has_parts(refusal(header(0, 1) + alignment + u32(24)), {"general.alignment is 24", "a power of two"}));
  EXPECT_TRUE(has_parts(refusal(header(0, 1) + alignment + u32(0)), {"general.alignment is 0"}));
}

TEST_F(GgufFileTest, RefusesTensorsOutOfPlace) {
  const auto with = [&](const std::vector<std::string>& tensors) {
    std::string bytes = header(tensors.size(), 0);
    for (const std::string& info : tensors) bytes += info;
    return refusal(padded(bytes, 128));
  };
  EXPECT_EQ(with({tensor("a", {16}, 0, 64), tensor("b", {16}, 0, 0)}), "");
  EXPECT_TRUE(has_parts(with({tensor("a", {16}, 0, 0), tensor("b", {16}, 0, 32)}), {"tensor 'b'", "no overlap"}));
  EXPECT_TRUE(has_parts(with({tensor("a", {16}, 0, 0), tensor("a", {16}, 0, 64)}), {"tensor 'a' comes twice"}));
  EXPECT_TRUE(has_parts(with({tensor("a", {16}, 0, 8)}), {"begins at byte 8", "multiples of 32"}));
  EXPECT_TRUE(has_parts(with({tensor("a", {16}, 0, 96)}), {"ends at byte 160", "at most 128"}));
  EXPECT_TRUE(has_parts(with({tensor("a", {33}, 8, 0)}), {"rows of 33 elements", "32 elements of Q8_0"}));
  EXPECT_TRUE(has_parts(with({tensor("a", {16}, 5, 0)}), {"has the type 5"}));
  EXPECT_TRUE(has_parts(with({tensor("a", {1, 1, 1, 1, 1}, 0, 0)}), {"has 5 dimensions"}));
  EXPECT_TRUE(has_parts(with({tensor("a", {}, 0, 0)}), {"has 0 dimensions"}));
}

}  // namespace
}  // namespace weft
