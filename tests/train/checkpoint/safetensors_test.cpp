// Round trips, known bytes, and every kind of invalid header.
#include "train/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"

namespace weft::train {
namespace {

template <class Element>
TensorToWrite tensor(std::string name, StoredType type, std::vector<std::uint64_t> shape,
                     const std::vector<Element>& values) {
  return {std::move(name), type, std::move(shape),
          [&values](std::vector<std::byte>&) { return std::as_bytes(std::span(values)); }};
}

/// A file with this header text and `data` zero bytes after it.
std::string file_of(std::string_view header, std::size_t data) {
  const std::uint64_t size = header.size();
  std::string content(reinterpret_cast<const char*>(&size), 8);
  return content.append(header).append(std::string(data, '\0'));
}

class Refusals : public ::testing::Test {
 protected:
  std::string open(std::string_view content) {
    const std::string path = folder_.write("t.safetensors", content);
    return testing::message_of<UserError>([&] { SafetensorsFile file(path); });
  }
  testing::TemporaryFolder folder_;
};

TEST(Safetensors, WritesAndReadsBack) {
  const testing::TemporaryFolder folder;
  const std::vector<float> f = {1.5F, -2.0F, 0.0F, 3.0F, 1e-40F, 6.0F};
  const std::vector<bf16> b = {bf16(1.5F), bf16(-0.25F)};
  const std::vector<std::int64_t> l = {-7};
  const std::vector<std::int32_t> i = {1, -2, 3};
  const auto path = folder.path("t.safetensors");
  write_safetensors(path,
                    {tensor("z", stored_type(DType::bf16), {2}, b), tensor("b", stored_type(DType::f32), {2, 3}, f),
                     tensor("scalar", stored_type(DType::i64), {}, l), tensor("a", stored_type(DType::i32), {3}, i),
                     tensor("empty", stored_type(DType::f32), {0, 4}, std::vector<float>())});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 5U);
  EXPECT_EQ(file.find("none"), nullptr);
  EXPECT_EQ(file.find("b")->shape, (std::vector<std::uint64_t>{2, 3}));
  const auto read = [&](const char* name) { return file.read(*file.find(name)); };
  EXPECT_EQ(read("b"), f);
  EXPECT_EQ(read("z"), (std::vector<float>{1.5F, -0.25F}));
  EXPECT_EQ(read("a"), (std::vector<float>{1, -2, 3}));
  EXPECT_EQ(read("scalar"), (std::vector<float>{-7}));
  EXPECT_TRUE(read("empty").empty());
  // The largest elements first, so that each tensor is aligned; the header too.
  EXPECT_EQ(file.find("scalar")->begin, 0U);
  EXPECT_EQ(file.find("a")->begin, 8U);
  EXPECT_EQ(file.find("z")->end, 8U + 12 + 24 + 4);
  const std::string bytes = testing::TemporaryFolder::read(path);
  EXPECT_EQ((bytes.size() - file.find("z")->end) % 8, 0U);
}

// A mapping would end the process by SIGBUS.
TEST(Safetensors, AFileThatIsTruncatedWhileItIsOpenIsRefused) {
  const testing::TemporaryFolder folder;
  const std::vector<float> f(1 << 16, 1.0F);
  write_safetensors(folder.path("t"), {tensor("w", stored_type(DType::f32), {1 << 16}, f)});
  const SafetensorsFile file(folder.path("t"));
  EXPECT_EQ(file.read(*file.find("w")), f);
  std::filesystem::resize_file(folder.path("t"), 4096);
  const std::string message = testing::message_of<RuntimeFault>([&] { (void)file.read(*file.find("w")); });
  EXPECT_TRUE(testing::has_parts(message, {folder.path("t").string(), "truncated", "4096 bytes"})) << message;
}

TEST(Safetensors, WritesTheBytesOfTheFormat) {
  const testing::TemporaryFolder folder;
  const std::vector<float> f = {1.0F};
  write_safetensors(folder.path("t"), {tensor("w", stored_type(DType::f32), {1}, f)});
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("t")),
            file_of(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   )", 0) +
                std::string("\x00\x00\x80\x3f", 4));
}

TEST(Safetensors, ReadsHalves) {
  const testing::TemporaryFolder folder;
  const std::vector<std::uint16_t> halves = {0x3C00, 0xC000, 0x0001, 0x8000, 0x7BFF,
                                             0x7C00, 0xFC00, 0x7E00, 0x03FF, 0x3555};
  write_safetensors(folder.path("t"), {tensor("h", StoredType{"F16", 2}, {10}, halves)});
  const SafetensorsFile file(folder.path("t"));
  const std::vector<float> values = file.read(*file.find("h"));
  EXPECT_EQ(values[0], 1.0F);
  EXPECT_EQ(values[1], -2.0F);
  EXPECT_EQ(values[2], 0x1p-24F);
  EXPECT_TRUE(values[3] == 0.0F && std::signbit(values[3]));
  EXPECT_EQ(values[4], 65504.0F);
  EXPECT_EQ(values[5], std::numeric_limits<float>::infinity());
  EXPECT_EQ(values[6], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(values[7]));
  EXPECT_EQ(values[8], 1023 * 0x1p-24F);
  EXPECT_EQ(values[9], 0.333251953125F);
}

TEST(Safetensors, DataNeedNotBeAligned) {
  const testing::TemporaryFolder folder;
  std::string content = file_of(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);  // 53 bytes of header
  const float value = 2.5F;
  std::memcpy(content.data() + content.size() - 4, &value, 4);
  const SafetensorsFile file(folder.write("t", content));
  EXPECT_EQ(file.read(*file.find("w")), std::vector<float>{2.5F});
}

TEST(Safetensors, ScratchIsSharedByTheTensorsOfAFile) {
  const testing::TemporaryFolder folder;
  std::vector<TensorToWrite> tensors;
  for (const char* name : {"a", "b"}) {
    tensors.push_back({name, StoredType{"U8", 1}, {2}, [name](std::vector<std::byte>& scratch) {
                         scratch.assign(2, std::byte(name[0]));
                         return std::span<const std::byte>(scratch);
                       }});
  }
  write_safetensors(folder.path("t"), std::move(tensors));
  const std::string content = testing::TemporaryFolder::read(folder.path("t"));
  EXPECT_EQ(content.substr(content.size() - 4), "aabb");
}

TEST(Safetensors, AWriterThatIsHandedNonsenseLeavesNoFile) {
  const testing::TemporaryFolder folder;
  const std::vector<float> f = {1.0F};
  EXPECT_THROW(write_safetensors(folder.path("t"), {tensor("w", stored_type(DType::f32), {2}, f)}),
               std::invalid_argument);
  EXPECT_THROW(write_safetensors(folder.path("t"), {tensor("w", stored_type(DType::f32), {1}, f),
                                                    tensor("w", stored_type(DType::f32), {1}, f)}),
               std::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, RefusesToReadMasksAsNumbers) {
  const testing::TemporaryFolder folder;
  const SafetensorsFile file(
      folder.write("t", file_of(R"({"m":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", 4)));
  std::vector<float> values(4);
  EXPECT_TRUE(refuses([&] { file.read(*file.find("m")); }, {"'m' has dtype BOOL"}));
  EXPECT_THROW(file.read(*file.find("m"), 1, values), std::invalid_argument);
}

TEST_F(Refusals, Sizes) {
  EXPECT_TRUE(has_parts(open("short"), {"t.safetensors' has 5 bytes"}));
  EXPECT_TRUE(has_parts(open(std::string(8, '\xff')), {"header of 18446744073709551615 bytes"}));
  EXPECT_TRUE(has_parts(open(std::string("\x10\0\0\0\0\0\0\0{}", 10)), {"header of 16 bytes", "at most 2"}));
  EXPECT_TRUE(has_parts(open(file_of("", 0)), {"no JSON header"}));
  EXPECT_TRUE(has_parts(open(file_of("[]", 0)), {"no JSON header"}));
  EXPECT_TRUE(has_parts(open(file_of("{\"a\":", 0)), {"isn't valid JSON"}));
  EXPECT_EQ(open(file_of("{}   ", 0)), "");
}

TEST_F(Refusals, AHeaderBeyond100Megabytes) {
  const std::string path = folder_.write("t.safetensors", std::string("\x01\xe1\xf5\x05\0\0\0\0{", 9));  // 100,000,001
  std::filesystem::resize_file(path, 200'000'000);                                                       // sparse
  EXPECT_TRUE(refuses([&] { SafetensorsFile file(path); }, {"header of 100000001 bytes", "at most 100000000"}));
}

TEST_F(Refusals, Descriptions) {
  const auto one = [&](std::string_view entry, std::size_t data) {
    return open(file_of("{\"w\":" + std::string(entry) + "}", data));
  };
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8), "");
  EXPECT_TRUE(has_parts(one("3", 0), {"t.safetensors': w is 3", "an object"}));
  EXPECT_TRUE(has_parts(one(R"({"shape":[2],"data_offsets":[0,8]})", 8), {"w has no dtype"}));
  EXPECT_TRUE(has_parts(one(R"({"dtype":"F4","shape":[2],"data_offsets":[0,8]})", 8), {"w.dtype is \"F4\"", "BF16"}));
  EXPECT_TRUE(has_parts(one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})", 8), {"w.shape is 2"}));
  EXPECT_TRUE(has_parts(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8), {"w.shape[0] is -2"}));
  EXPECT_TRUE(has_parts(one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", 8), {"w.shape[0] is 2.0"}));
  EXPECT_TRUE(has_parts(one(R"({"dtype":"F32","shape":[2]})", 8), {"w has no data_offsets"}));
  EXPECT_TRUE(has_parts(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", 8), {"data_offsets is [0]"}));
  EXPECT_TRUE(has_parts(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", 8), {"data_offsets is [8,0]"}));
  EXPECT_TRUE(has_parts(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8),
                        {"w has 8 bytes", "12 bytes for F32 [3]"}));
  EXPECT_TRUE(has_parts(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0),
                        {"more than 2^64 bytes for F32 [4294967296, 4294967296]"}));
  EXPECT_TRUE(
      has_parts(one(R"({"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]})", 8), {"\"shape\" twice"}));
}

TEST_F(Refusals, HolesOverlapsAndDuplicates) {
  const auto two = [&](const char* a, const char* b, std::size_t data) {
    return open(file_of(std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + a +
                            R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                        data));
  };
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "");
  EXPECT_TRUE(has_parts(two("[0,4]", "[5,9]", 9), {"'b' begins at byte 5", "4, where", "no holes"}));
  EXPECT_TRUE(has_parts(two("[0,4]", "[3,7]", 7), {"'b' begins at byte 3", "no overlap"}));
  EXPECT_TRUE(has_parts(two("[0,4]", "[0,4]", 4), {"no overlap"}));
  EXPECT_TRUE(has_parts(two("[1,5]", "[5,9]", 9), {"'a' begins at byte 1", "no holes"}));
  EXPECT_TRUE(has_parts(two("[0,4]", "[4,8]", 9), {"has 9 bytes of tensors", "8, where its last tensor ends"}));
  EXPECT_TRUE(has_parts(two("[0,4]", "[4,8]", 7), {"has 7 bytes of tensors"}));
  EXPECT_TRUE(has_parts(two("[18446744073709551612,18446744073709551616]", "[0,4]", 8),
                        {"a.data_offsets[1] is 1.8446744073709552e+19"}));
  EXPECT_TRUE(
      has_parts(open(file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}})", 0)), {"\"a\" twice"}));
}

TEST_F(Refusals, Metadata) {
  EXPECT_EQ(open(file_of(R"({"__metadata__":{"format":"pt"}})", 0)), "");
  EXPECT_TRUE(has_parts(open(file_of(R"({"__metadata__":[]})", 0)), {"__metadata__ is []", "an object"}));
  EXPECT_TRUE(has_parts(open(file_of(R"({"__metadata__":{"a":1}})", 0)), {"__metadata__.a is 1", "a text"}));
}

}  // namespace
}  // namespace weft::train
