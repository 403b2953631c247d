// Text and token files: what is read, what is held out, what is refused.
#include "train/token_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "tests/train/temporary_folder.h"

namespace weft {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int32_t kEnd = 256;

Ids all(const TokenStream& stream) {
  Ids ids(stream.size());
  stream.copy(0, stream.size(), ids.data());
  return ids;
}

template <class Word>
std::string words(const std::vector<Word>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Word)};
}

std::string llmc_header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  std::vector<std::uint32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return words(header);
}

std::string refusal(const TokenSourceOptions& options) {
  return message_of<UserError>([&] { TokenSource::open(options); });
}

TEST(TokenStream, JoinsPartsOfEveryEncoding) {
  const std::string text = "ab", odd = "?" + words<std::uint16_t>({300, 65535}), wide = words<std::uint32_t>({70000});
  const auto at = [](const std::string& s, std::size_t offset) {
    return reinterpret_cast<const std::byte*>(s.data()) + offset;
  };
  TokenStream stream;
  stream.append({TokenEncoding::bytes, at(text, 0), 2, true});
  stream.append({TokenEncoding::u16, at(odd, 1), 2, false});
  stream.append({TokenEncoding::u32, at(wide, 0), 0, false});  // empty: no part
  stream.append({TokenEncoding::u32, at(wide, 0), 1, true});
  const Ids expected = {'a', 'b', kEnd, 300, 65535, 70000, kEnd};
  ASSERT_EQ(stream.size(), expected.size());
  for (std::size_t begin = 0; begin <= expected.size(); ++begin) {
    for (std::size_t count = 0; begin + count <= expected.size(); ++count) {
      Ids ids(count);
      stream.copy(begin, count, ids.data());
      EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
  }
  EXPECT_EQ(stream.at(4), 65535);
  EXPECT_THROW(stream.at(7), std::out_of_range);
  Ids ids(8);
  EXPECT_THROW(stream.copy(1, UINT64_MAX, ids.data()), std::out_of_range);
}

TEST(TokenSource, HoldsOutTheLastTenthOfEachTextFile) {
  const TemporaryFolder folder;
  folder.write("b.txt", "klmnopqrstuvwxyzABCDE");  // 21 bytes: 2 held out
  folder.write("a.txt", "0123456789");             // 10 bytes: 1
  const TokenSource source = TokenSource::open({folder.path(), "", 257, 4});
  Ids train, held_out;
  for (const char c : std::string_view("012345678")) train.push_back(c);
  train.push_back(kEnd);
  for (const char c : std::string_view("klmnopqrstuvwxyzABC")) train.push_back(c);
  train.push_back(kEnd);
  EXPECT_EQ(all(source.train()), train);
  EXPECT_EQ(all(source.held_out()), (Ids{'9', kEnd, 'D', 'E', kEnd}));
  EXPECT_EQ(source.description(), "2 text files, 30 tokens to train on, 5 held out");
  EXPECT_TRUE(source.is_text());
}

TEST(TokenSource, AValidationFileIsHeldOutWholly) {
  const TemporaryFolder folder;
  const TokenSource source =
      TokenSource::open({folder.write("t.txt", "0123456789"), folder.write("v.txt", "ab"), 257, 4});
  EXPECT_EQ(source.train().size(), 11U);
  EXPECT_EQ(all(source.held_out()), (Ids{'a', 'b', kEnd}));
}

TEST(TokenSource, TheDigestIsOfTheTokensAndOfWhatIsHeldOut) {
  const TemporaryFolder folder;
  const std::string text = "0123456789", other = "0123456780";
  const std::string a = folder.write("a.txt", text), same = folder.write("b.txt", text);
  const auto digest = [](const std::string& data, const std::string& val_data) {
    return TokenSource::open({data, val_data, 257, 4}).digest();
  };
  EXPECT_EQ(digest(a, ""), digest(same, ""));
  EXPECT_EQ(digest(a, a), digest(same, same));
  EXPECT_NE(digest(a, ""), digest(a, a));
  EXPECT_NE(digest(a, ""), digest(folder.write("c.txt", other), ""));
  EXPECT_NE(digest(a, ""), digest(folder.write("d.txt", text + "9"), ""));
  EXPECT_NE(digest(a, a), digest(a, folder.path("c.txt")));
}

TEST(TokenSource, BytesAbove127AreIdsAbove127) {
  const TemporaryFolder folder;
  EXPECT_EQ(TokenSource::open({folder.write("t", std::string(20, '\xE9')), "", 257, 4}).train().at(0), 0xE9);
}

TEST(TokenSource, AFolderLeavesOutLinksCopiesBinariesAndEmptyFiles) {
  const TemporaryFolder folder;
  folder.write("a.txt", "01234567890123456789");
  folder.write("copy.txt", "01234567890123456789");
  folder.write("empty.txt", "");
  folder.write("image.png", std::string("PNG\0\0", 5));
  folder.write("below/c.txt", "not read");
  std::filesystem::create_symlink(folder.path("a.txt"), folder.path("link.txt"));
  const TokenSource source = TokenSource::open({folder.path(), "", 257, 4});
  EXPECT_EQ(source.files(), 1U);
  EXPECT_EQ(source.train().size() + source.held_out().size(), 22U);
  EXPECT_EQ(source.notes(),
            (std::vector<std::string>{"copy.txt: left out, it equals a.txt", "empty.txt: left out, it is empty",
                                      "image.png: left out, it has a NUL byte at 3"}));
}

TEST(TokenSource, ReadsLlmcAndNanoGptFiles) {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> narrow;
  std::vector<std::uint32_t> wide;
  for (std::uint32_t i = 0; i < 20; ++i) {
    narrow.push_back(static_cast<std::uint16_t>(50256 - i));
    wide.push_back(128255 - i);
  }
  const TokenSource v1 =
      TokenSource::open({folder.write("1.bin", llmc_header(20240520, 1, 20) + words(narrow)), "", 50257, 4});
  const TokenSource v7 =
      TokenSource::open({folder.write("7.bin", llmc_header(20240801, 7, 20) + words(wide)), "", 128256, 4});
  const TokenSource raw = TokenSource::open({folder.write("raw.bin", words(narrow)), "", 50257, 4});
  for (const TokenSource* source : {&v1, &raw}) {
    EXPECT_EQ(source->train().size(), 18U);
    EXPECT_EQ(source->train().at(17), 50239);
    EXPECT_EQ(all(source->held_out()), (Ids{50238, 50237}));
    EXPECT_FALSE(source->is_text());
  }
  EXPECT_EQ(v7.train().at(0), 128255);
  EXPECT_EQ(all(v7.held_out()), (Ids{128237, 128236}));
}

TEST(TokenSource, AFolderOfTokenFiles) {
  const TemporaryFolder folder;
  folder.write("x_1.bin", words(std::vector<std::uint16_t>(10, 1)));
  folder.write("x_2.bin", words(std::vector<std::uint16_t>(10, 2)));
  EXPECT_EQ(TokenSource::open({folder.path(), "", 257, 4}).description(),
            "2 token files, 18 tokens to train on, 2 held out");
  folder.write("readme.txt", "text");
  EXPECT_TRUE(has_parts(refusal({folder.path(), "", 257, 4}), {"2 .bin files among 3 files", "--data"}));
}

TEST(TokenSource, RefusesIdsOutsideTheVocabularyByPosition) {
  const TemporaryFolder folder;
  std::vector<std::uint16_t> narrow(30, 5);
  narrow[17] = 257;
  EXPECT_TRUE(has_parts(refusal({folder.write("raw.bin", words(narrow)), "", 257, 4}),
                        {"raw.bin': token 17 has id 257", "below 257"}));
  std::vector<std::uint32_t> wide(30, 5);
  wide[29] = UINT32_MAX;
  EXPECT_TRUE(has_parts(refusal({folder.write("7.bin", llmc_header(20240801, 7, 30) + words(wide)), "", 128256, 4}),
                        {"token 29 has id 4294967295"}));
  EXPECT_TRUE(has_parts(refusal({folder.write("t.txt", std::string(40, 'a')), "", 256, 4}), {"vocabulary of 256"}));
}

TEST(TokenSource, RefusesDamagedAndForeignBinFiles) {
  const TemporaryFolder folder;
  const std::string body = words(std::vector<std::uint16_t>(30, 5));
  const auto bin = [&](const std::string& content) { return refusal({folder.write("t.bin", content), "", 257, 4}); };
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 1, 31) + body), {"1084 bytes", "1086 bytes for the 31 tokens"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 1, 29) + body), {"1082 bytes for the 29 tokens"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 1, UINT32_MAX) + body), {"8589935614 bytes"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 2, 30) + body), {"version 2", "version 1"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240801, 1, 30) + body), {"version 1", "version 7"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240326, 3, 30) + body), {"is an llm.c model"}));
  EXPECT_TRUE(has_parts(bin(llmc_header(20240520, 1, 30).substr(0, 500)), {"truncated: 500 bytes"}));
  EXPECT_TRUE(has_parts(bin(body + "x"), {"61 bytes, an odd number"}));
}

TEST(TokenSource, RefusesWhatCannotBeTrainedOn) {
  const TemporaryFolder folder;
  EXPECT_TRUE(has_parts(refusal({folder.path("none"), "", 257, 4}), {"none' doesn't exist"}));
  EXPECT_TRUE(has_parts(refusal({folder.path(), "", 257, 4}), {"holds no text and no tokens"}));
  EXPECT_TRUE(has_parts(refusal({folder.write("e.txt", ""), "", 257, 4}), {"e.txt' is empty"}));
  EXPECT_TRUE(has_parts(refusal({folder.write("n.txt", std::string("ab\0", 3)), "", 257, 4}), {"NUL byte at 2"}));
  const std::string text = folder.write("t.txt", std::string(1099, 'a'));
  EXPECT_TRUE(has_parts(refusal({text, "", 257, 1024}), {"991 tokens to train on", "1,025 or more", "--seq-len"}));
  EXPECT_TRUE(has_parts(refusal({folder.write("s.txt", "012345678"), "", 257, 4}), {"0 held-out tokens"}));
  const std::string bin = folder.write("t.bin", words(std::vector<std::uint16_t>(30, 5)));
  EXPECT_TRUE(has_parts(refusal({text, bin, 257, 4}), {"is text and", "is tokens"}));
  EXPECT_TRUE(has_parts(refusal({text, folder.path("none"), 257, 4}), {"none' doesn't exist"}));
}

TEST(TokenSource, TheDefaultIsTheLicencesOfTheSystem) {
  if (!std::filesystem::exists("/usr/share/common-licenses")) {
    EXPECT_TRUE(has_parts(refusal({"", "", 257, 64}), {"/usr/share/common-licenses", "give --data"}));
    return;
  }
  const TokenSource source = TokenSource::open({"", "", 257, 64});
  EXPECT_GT(source.train().size(), 50'000U);
  EXPECT_GT(source.files(), 3U);
}

}  // namespace
}  // namespace weft
