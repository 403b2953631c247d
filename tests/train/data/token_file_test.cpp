#include "train/data/token_file.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
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
  EXPECT_EQ(description_of(checked_file(path)).ignored, Ranges{});
  const auto describe = [&](const std::string& tokens, const std::string& ranges) {
    folder.write("x.bin.json",
                 R"({"format":"weft tokens","version":1,"tokens":)" + tokens + R"(,"ignored":)" + ranges + "}\n");
    return testing::message_of<UserError>([&] { description_of(checked_file(path)).ignored; });
  };
  EXPECT_EQ(describe("6", "[[0,2],[2,2],[5,6]]"), "");
  EXPECT_EQ(description_of(checked_file(path)).ignored, (Ranges{{0, 2}, {2, 2}, {5, 6}}));
  EXPECT_TRUE(has_parts(describe("7", "[[0,2]]"), {"x.bin.json", "tokens is 7", "6, the number of tokens in"}));
  EXPECT_TRUE(has_parts(describe("6", "[[0,2],[1,3]]"), {"ignored[1][0] is 1", "2 to 6"}));
  EXPECT_TRUE(has_parts(describe("6", "[[3,7]]"), {"ignored[0][1] is 7", "3 to 6"}));
  EXPECT_TRUE(has_parts(describe("6", "[[3]]"), {"ignored[0]", "[begin, end]"}));
}

TEST(TokenDescriptions, OfAnotherFileAreRefusedByTheirMember) {
  const testing::TemporaryFolder folder;
  const text::ByteTokenizer bytes;
  text::TokenFileWriter writer(folder.path("x.bin"), bytes, 256);
  for (const std::vector<std::int32_t>& ids : {std::vector<std::int32_t>{1, 2}, {3}}) {
    writer.begin_document();
    writer.add(ids, ids.size());
  }
  writer.commit();
  const std::string path = folder.path("x.bin").string(), good = testing::TemporaryFolder::read(path + ".json");
  const TokenDescription read = description_of(checked_file(path));
  EXPECT_EQ(read.tokenizer, bytes.facts().digest);
  EXPECT_EQ(read.vocabulary, 257);
  EXPECT_EQ(read.separator, 256);
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    folder.write("x.bin.json", text);
    return testing::message_of<UserError>([&] { description_of(checked_file(path)); });
  };
  const std::string digest = hex_fingerprint(bytes.facts().digest);
  for (const auto& [from, to, member] :
       std::vector<std::array<std::string, 3>>{{"\"tokens\":5", "\"tokens\":4", "tokens is 4"},
                                               {"\"width\":\"u16\"", "\"width\":\"u32\"", "width is"},
                                               {"\"documents\":2", "\"documents\":3", "documents is 3"},
                                               {digest, digest.substr(2), "tokenizer.digest is"},
                                               {"\"vocabulary\":257", "\"vocabulary\":0", "vocabulary is 0"},
                                               {"\"vocabulary\":257", "\"vocabulary\":256", "separator is 256"},
                                               {"\"separator\":256", "\"separator\":255", "document_begins[0] is 0"},
                                               {"[0,3]", "[0,2]", "document_begins[1] is 2"},
                                               {"[0,3]", "[0,5]", "document_begins[1] is 5"},
                                               {"[0,3]", "[0,\"3\"]", "document_begins[1] is"},
                                               {"[0,3]", "[0,-3]", "document_begins[1] is -3"},
                                               {"[0,3]", "{\"0\":3}", "document_begins is"},
                                               {"[0,3]", "[0,3],\"document_begins\":[0]", "\"document_begins\" twice"},
                                               {"\"tokens\":5", "\"tokens\":5.0", "tokens is 5.0"},
                                               {"\"tokens\":5", "\"tokens\":\"5\"", "tokens is \"5\""},
                                               {"\"version\":1", "\"version\":2", "version 2"},
                                               {"\"version\":1", "\"version\":\"1\"", "version \"1\""},
                                               {"\"width\":\"u16\"", "\"width\":16", "width is"},
                                               {"\"documents\":2", "\"documents\":-2", "documents is -2"},
                                               {digest, "\",\"x\":\"" + digest, "tokenizer.digest is"},
                                               {digest, digest.substr(0, 15) + "g", "tokenizer.digest is"},
                                               {"\"vocabulary\":257", "\"vocabulary\":\"257\"", "vocabulary is"},
                                               {"\"separator\":256", "\"separator\":-1", "separator is -1"},
                                               {"\"separator\":256", "\"separator\":[256]", "separator is"}}) {
    EXPECT_TRUE(has_parts(refused(from, to), {"x.bin.json", member}));
  }
  EXPECT_EQ(refused("weft tokens", "tokens of others"), "");  // no description
}

TEST(TokenDescriptions, OfSeveralFilesHaveOneTokenizer) {
  const testing::TemporaryFolder folder;
  const text::ByteTokenizer bytes;
  const auto described = [&](std::optional<std::uint64_t> tokenizer, std::int32_t vocabulary,
                             std::optional<std::int32_t> separator) {
    CheckedTokens file{{std::make_shared<const InputFile>(folder.write("x.bin", "0101"))}, 0};
    file.described = {tokenizer, vocabulary, separator};
    return file;
  };
  std::vector<std::string> notes;
  const auto refused = [&](const std::vector<CheckedTokens>& files, const std::optional<ExpectedTokenizer>& expected,
                           bool accepts = false) {
    return testing::message_of<UserError>([&] { one_tokenizer(files, expected, accepts, notes); });
  };
  const CheckedTokens one = described(1, 300, 5), other = described(2, 300, 5);
  const ExpectedTokenizer model{2, 300, "'model'"};
  EXPECT_EQ(refused({one, one}, std::nullopt), "");
  EXPECT_TRUE(has_parts(refused({one, other}, std::nullopt), {hex_fingerprint(1), hex_fingerprint(2)}));
  EXPECT_TRUE(has_parts(refused({one}, model), {hex_fingerprint(1), hex_fingerprint(2), "'model'"}));
  EXPECT_TRUE(has_parts(refused({other, described(2, 301, 5)}, std::nullopt), {"vocabulary of 301", "300"}));
  EXPECT_TRUE(has_parts(refused({described(2, 301, 5)}, model), {"vocabulary of 301", "300"}));
  EXPECT_TRUE(has_parts(refused({one, described(1, 300, 6)}, std::nullopt), {"separator 6", "5"}));
  EXPECT_TRUE(has_parts(refused({one, described(1, 300, std::nullopt)}, std::nullopt), {"separator none", "5"}));
  EXPECT_EQ(refused({one, other}, model, true), "");
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(one_tokenizer(std::vector{described(std::nullopt, 1, 1), one}, std::nullopt, false, notes), 1U);
  EXPECT_EQ(notes.size(), 1U);
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
