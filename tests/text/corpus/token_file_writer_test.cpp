// Texts encoded by several threads, and the files of their tokens.
#include "text/corpus/token_file_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "text/corpus/text_files.h"
#include "text/tokenizer.h"

namespace weft::text {
namespace {

/// The 32-bit words of a file's first kilobyte, and the ids behind it.
struct ReadTokens {
  std::vector<std::int32_t> header = std::vector<std::int32_t>(256);
  std::vector<std::uint16_t> ids;
};

ReadTokens read_tokens(const std::filesystem::path& path) {
  const std::string bytes = testing::TemporaryFolder::read(path);
  ReadTokens read;
  std::memcpy(read.header.data(), bytes.data(), 1024);
  read.ids.resize((bytes.size() - 1024) / 2);
  std::memcpy(read.ids.data(), bytes.data() + 1024, read.ids.size() * 2);
  return read;
}

TEST(TokenFileWriter, WritesLlmcsFormatAndADescription) {
  const testing::TemporaryFolder folder;
  const ByteTokenizer bytes;
  TokenFileWriter writer(folder.path("a.bin"), bytes, 256);
  const std::vector<std::int32_t> first{72, 105}, second{33};
  writer.begin_document();
  writer.add(first, 2);
  writer.begin_document();
  writer.add(second, 1);
  EXPECT_FALSE(std::filesystem::exists(folder.path("a.bin")));
  const TokenFileSummary made = writer.commit();
  EXPECT_EQ(made.tokens, 5U);
  EXPECT_EQ(made.documents, 2U);
  EXPECT_EQ(made.bytes, 1024U + 10);
  const ReadTokens read = read_tokens(folder.path("a.bin"));
  EXPECT_EQ(read.header[0], 20240520);
  EXPECT_EQ(read.header[1], 1);
  EXPECT_EQ(read.header[2], 5);
  EXPECT_EQ(read.ids, (std::vector<std::uint16_t>{256, 72, 105, 256, 33}));
  const auto json = nlohmann::json::parse(testing::TemporaryFolder::read(folder.path("a.bin.json")));
  EXPECT_EQ(json.at("width"), "u16");
  EXPECT_EQ(json.at("vocabulary"), 257);
  EXPECT_EQ(json.at("separator"), 256);
  EXPECT_EQ(json.at("document_begins"), (std::vector<int>{0, 3}));
}

TEST(TokenFileWriter, TellsWhichTokensAreNotLearnt) {
  const testing::TemporaryFolder folder;
  const ByteTokenizer bytes;
  TokenFileWriter writer(folder.path("a.bin"), bytes, 256);
  const std::vector<std::int32_t> ids{1, 2, 3, 4};
  const auto add = [&](const std::vector<IdRange>& ignored) {
    writer.begin_document();
    writer.add(ids, 4, ignored);
  };
  add({{0, 2}});  // with the separator before
  add({});
  add({{1, 2}, {3, 4}});
  add({{0, 4}});
  writer.commit();
  const auto json = nlohmann::json::parse(testing::TemporaryFolder::read(folder.path("a.bin.json")));
  EXPECT_EQ(json.at("ignored"), nlohmann::json::parse("[[0,3],[10,11],[12,13],[14,20]]"));
}

/// Calls `take` for the encoded lines of JSON, by several threads.
template <class Take>
void encode_lines(const std::string& lines, int threads, Take take) {
  const testing::TemporaryFolder folder;
  const ByteTokenizer bytes;
  TextFiles files({folder.write("a.jsonl", lines)}, {}, [](std::string_view text, std::size_t) { return text.size(); });
  encode_in_order({.tokenizer = bytes,
                   .options = {},
                   .threads = threads,
                   .verify = true,
                   .files = files,
                   .take = [&](const TextPart&, const EncodedPart& part) {
                     EXPECT_FALSE(part.differs);
                     take(part);
                   }});
}

TEST(ParallelEncode, MarksThePiecesOfALine) {
  std::vector<EncodedPart> parts;
  std::vector<std::int32_t> ids;
  encode_lines(R"({"prompt": "ab", "completion": "c"})"
               "\n"
               R"({"prompt": "", "completion": "d"})",
               1, [&](const EncodedPart& part) {
                 ids.insert(ids.end(), part.ids.begin(), part.ids.end());
                 parts.push_back(part);
               });
  EXPECT_EQ(ids, (std::vector<std::int32_t>{'a', 'b', 'c', 256, 'd', 256}));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].ignored, (std::vector<IdRange>{{0, 2}}));
  EXPECT_EQ(parts[0].text_bytes, 3U);
  EXPECT_TRUE(parts[1].ignored.empty());
}

// The ids are in the order of the texts, whichever thread is the fastest.
TEST(ParallelEncode, KeepsTheOrder) {
  std::string lines, all;
  for (std::size_t i = 1; i <= 500; ++i) {
    const std::string text = std::string(i * 37, 'a') + std::to_string(i);
    lines += "{\"text\": \"" + text + "\"}\n";
    all += text;
  }
  for (const int threads : {1, 4}) {
    std::string made;
    encode_lines(lines, threads, [&](const EncodedPart& part) {
      EXPECT_EQ(part.text_bytes, part.ids.size());
      made += ByteTokenizer().decode(part.ids);
    });
    EXPECT_EQ(made, all);
  }
}

TEST(ParallelEncode, ThrowsWhatAWorkerThrows) {
  EXPECT_TRUE(refuses([] { encode_lines("{\"text\": \"a\"}\nplain\n", 2, [](const EncodedPart&) {}); }, {"line 2"}));
}

}  // namespace
}  // namespace weft::text
