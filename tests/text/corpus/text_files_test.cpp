#include "text/corpus/text_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files/byte_source.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "text/corpus/text_pieces.h"
#include "text/split/lexer.h"

namespace weft::text {
namespace {

std::size_t nowhere(std::string_view text, std::size_t) {
  return text.size();
}

std::vector<TextPart> parts_of(TextFiles files) {
  std::vector<TextPart> parts;
  while (auto part = files.next()) parts.push_back(std::move(*part));
  return parts;
}

std::string packed(std::string_view text) {
  std::string out;
  GzipPacker packer([&](std::string_view bytes) { out += bytes; });
  packer.write(text);
  packer.finish();
  return out;
}

TEST(TextFiles, AreFoundByFoldersAndPatterns) {
  const testing::TemporaryFolder folder;
  folder.write("b.txt", "b");
  folder.write("a.txt", "a");
  folder.write("in/c.md", "c");
  const auto names = [&](const std::vector<std::string>& paths) {
    std::string all;
    for (const auto& file : files_of(paths)) all += file.lexically_relative(folder.path()).string() + " ";
    return all;
  };
  EXPECT_EQ(names({folder.path().string()}), "a.txt b.txt in/c.md ");
  EXPECT_EQ(names({folder.path("*.txt").string()}), "a.txt b.txt ");
  EXPECT_EQ(names({folder.path("b.txt").string(), folder.path("in").string()}), "b.txt in/c.md ");
  EXPECT_TRUE(refuses([&] { names({folder.path("*.no").string()}); }, {"*.no' doesn't exist"}));
}

TEST(TextFiles, EachTextFileIsADocument) {
  const testing::TemporaryFolder folder;
  folder.write("a.txt", "one\n");
  folder.write("b.txt", "");
  folder.write("c.txt.gz", packed("two"));
  TextFiles files(files_of({folder.path().string()}), {}, nowhere);
  const auto parts = parts_of(std::move(files));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].text, "one\n");
  EXPECT_EQ(parts[1].text, "two");
  EXPECT_EQ(parts[1].file, 2U);
  EXPECT_TRUE(parts[1].begins);
}

TEST(TextFiles, LongTextsAreCutWhereTheyMayBe) {
  const testing::TemporaryFolder folder;
  std::string text;
  for (int line = 0; line < 200'000; ++line) text += "line " + std::to_string(line) + "\n";
  const std::string path = folder.write("a.txt", text);
  for (const std::size_t size : {std::size_t{1000}, std::size_t{700'000}}) {
    TextFiles files({path}, {.part_bytes = size},
                    [](std::string_view whole, std::size_t from) { return cut_after(whole, from); });
    std::string all;
    std::size_t begins = 0, count = 0;
    for (const TextPart& part : parts_of(std::move(files))) {
      all += part.text;
      begins += part.begins ? 1 : 0;
      ++count;
      EXPECT_TRUE(part.text.starts_with("line "));
      EXPECT_LE(part.text.size(), size + 100);
    }
    EXPECT_EQ(all, text);
    EXPECT_EQ(begins, 1U);
    EXPECT_GE(count, text.size() / (size + 100));
  }
  EXPECT_EQ(parts_of(TextFiles({path}, {.part_bytes = 1000}, nowhere)).size(), 1U);
}

TEST(TextFiles, EachLineOfJsonIsADocument) {
  const testing::TemporaryFolder folder;
  const std::vector<std::filesystem::path> files = {
      folder.write("a.jsonl", "{\"text\": \"o\\u00e9\\n\"}\n\n{\"text\": \"two\", \"n\": 1}"),
      folder.write("b.json.gz", packed("{\"body\": \"x\"}\n"))};
  const auto parts = parts_of(TextFiles({files[0]}, {}, nowhere));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(part_text(parts[0], files, "text"), "o\xC3\xA9\n");
  EXPECT_EQ(part_text(parts[1], files, "text"), "two");
  EXPECT_EQ(parts[1].line, 3U);
  const auto packed_parts = parts_of(TextFiles({files[1]}, {.field = "body", .all_json = true}, nowhere));
  EXPECT_EQ(part_text(packed_parts.at(0), {files[1]}, "body"), "x");
}

}  // namespace
}  // namespace weft::text
