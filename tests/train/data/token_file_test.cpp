#include "train/data/token_file.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/train/data/written_tokens.h"

namespace weft::train {
namespace {

CheckedTokens checked_file(const std::string& path) {
  return check_token_file(std::make_shared<const InputFile>(path), TokenWidth::automatic, 257);
}

TEST(Documents, ADescriptionTellsWhereTheyBegin) {
  const testing::TemporaryFolder folder;
  const std::string path = testing::write_documents(folder, "x.bin", {{1, 2, 3}, {4}, {5, 6}});
  EXPECT_EQ(document_begins(checked_file(path), ""), (std::vector<std::uint64_t>{0, 3, 4}));
  const auto text = std::make_shared<const InputFile>(folder.write("t.txt", "text"));
  EXPECT_EQ(document_begins({{text, TokenEncoding::bytes, 0, 4, true}, 0}, ""), std::vector<std::uint64_t>{0});
}

TEST(Documents, RefusesAFileWithoutBordersByName) {
  const testing::TemporaryFolder folder;
  const std::string path = testing::write_documents(folder, "x.bin", {{1, 2, 3}, {4}, {5, 6}});
  const auto refused = [&] {
    return testing::message_of<UserError>([&] { document_begins(checked_file(path), "wait"); });
  };
  const auto describe = [&](const std::string& tokens, const std::string& begins) {
    folder.write("x.bin.json", R"({"format":"weft tokens","version":1,"tokens":)" + tokens + R"(,"document_begins":)" +
                                   begins + "}\n");
    return refused();
  };
  EXPECT_EQ(describe("6", "[0,3,6]"), "");
  EXPECT_EQ(describe("6", "[]"), "");
  EXPECT_TRUE(has_parts(describe("7", "[0,3]"), {"x.bin.json", "tokens is 7", "6, the number of tokens in"}));
  EXPECT_TRUE(has_parts(describe("6", "[1,3]"), {"document_begins[0] is 1", "0 to 0"}));
  EXPECT_TRUE(has_parts(describe("6", "[0,4,3]"), {"document_begins[2] is 3", "4 to 6"}));
  EXPECT_TRUE(has_parts(describe("6", "[0,7]"), {"document_begins[1] is 7", "0 to 6"}));
  std::filesystem::remove(folder.path("x.bin.json"));
  EXPECT_TRUE(has_parts(refused(), {"x.bin' has no description", "x.bin.json'", "weft tokenize", "or wait"}));
}

TEST(Documents, ADescriptionTellsWhatIsNotLearnt) {
  const testing::TemporaryFolder folder;
  const std::string path = testing::write_documents(folder, "x.bin", {{1, 2, 3}, {4}, {5, 6}});
  using Ranges = std::vector<text::IdRange>;
  EXPECT_EQ(ignored_ranges(checked_file(path)), Ranges{});
  const auto describe = [&](const std::string& tokens, const std::string& ranges) {
    folder.write("x.bin.json",
                 R"({"format":"weft tokens","version":1,"tokens":)" + tokens + R"(,"ignored":)" + ranges + "}\n");
    return testing::message_of<UserError>([&] { ignored_ranges(checked_file(path)); });
  };
  EXPECT_EQ(describe("6", "[[0,2],[2,2],[5,6]]"), "");
  EXPECT_EQ(ignored_ranges(checked_file(path)), (Ranges{{0, 2}, {2, 2}, {5, 6}}));
  EXPECT_TRUE(has_parts(describe("7", "[[0,2]]"), {"x.bin.json", "tokens is 7", "6, the number of tokens in"}));
  EXPECT_TRUE(has_parts(describe("6", "[[0,2],[1,3]]"), {"ignored[1][0] is 1", "2 to 6"}));
  EXPECT_TRUE(has_parts(describe("6", "[[3,7]]"), {"ignored[0][1] is 7", "3 to 6"}));
  EXPECT_TRUE(has_parts(describe("6", "[[3]]"), {"ignored[0]", "[begin, end]"}));
}

// The numbers of the documentation, which others can compute.
TEST(Documents, OneOfTenIsHeldOut) {
  EXPECT_EQ(mixed_bits(0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(mixed_bits(1), 0x910a2dec89025cc1ULL);
  for (const std::uint64_t documents : {10, 11, 99, 1000}) {
    std::vector<std::uint64_t> held_out;
    for (std::uint64_t d = 0; d < documents; ++d) {
      if (is_held_out_document(d, documents)) held_out.push_back(d);
    }
    ASSERT_EQ(held_out.size(), documents / 10);
    for (std::uint64_t tens = 0; tens < held_out.size(); ++tens) {
      EXPECT_EQ(held_out[tens], 10 * tens + mixed_bits(tens) % 10);
    }
  }
  for (std::uint64_t documents = 2; documents < 10; ++documents) {
    std::uint64_t held_out = 0;
    for (std::uint64_t d = 0; d < documents; ++d) held_out += is_held_out_document(d, documents) ? 1 : 0;
    EXPECT_EQ(held_out, 1U) << documents;
  }
  EXPECT_FALSE(is_held_out_document(0, 1));
}

}  // namespace
}  // namespace weft::train
