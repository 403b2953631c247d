#include "text/corpus/text_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/input_file.h"
#include "tests/base/files/zstd_packed.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
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
  folder.write("d.txt.zst", testing::zstd_packed("three"));
  TextFiles files(files_of({folder.path().string()}), {}, nowhere);
  const auto parts = parts_of(std::move(files));
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[2].text, "three");
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

// A packed file of some kilobytes may hold a line of gigabytes.
TEST(TextFiles, WhatCannotBeCutIsReadUpToALimit) {
  const testing::TemporaryFolder folder;
  const std::string long_line(5U << 20U, 'a');
  const TextFileOptions options{.part_bytes = 1U << 20U, .most_uncut_bytes = 2U << 20U};
  const auto refusal = [&](const std::filesystem::path& path) {
    return testing::message_of<UserError>([&] { parts_of(TextFiles({path}, options, nowhere)); });
  };
  const std::string record = R"({"text": ")" + long_line + "\"}\n";
  EXPECT_TRUE(has_parts(refusal(folder.write("a.jsonl.gz", packed("{\"text\": \"b\"}\n" + record))),
                        {"a.jsonl.gz'", "line 2", "2097152 bytes"}));
  EXPECT_TRUE(has_parts(refusal(folder.write("b.jsonl", record)), {"b.jsonl'", "line 1"}));
  EXPECT_TRUE(has_parts(refusal(folder.write("c.txt.gz", packed(long_line + long_line))), {"c.txt.gz'", "the text"}));
  // As much text as one likes, in lines of some length.
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += R"({"text": ")" + std::string(1U << 20U, 'b') + "\"}\n";
  EXPECT_EQ(parts_of(TextFiles({folder.write("d.jsonl.gz", packed(lines))}, options, nowhere)).size(), 8U);
  EXPECT_EQ(parts_of(TextFiles({folder.write("d.jsonl.zst", testing::zstd_packed(lines))}, options, nowhere)).size(),
            8U);
  EXPECT_TRUE(
      has_parts(refusal(folder.write("e.txt.zst", testing::zstd_packed(long_line))), {"e.txt.zst'", "the text"}));
}

TEST(TextFiles, EachLineOfJsonIsADocument) {
  const testing::TemporaryFolder folder;
  const std::vector<std::filesystem::path> files = {
      folder.write("a.jsonl", "{\"text\": \"o\\u00e9\\n\"}\n\n{\"text\": \"two\", \"n\": 1}"),
      folder.write("b.json.gz", packed("{\"body\": \"x\"}\n"))};
  const TextFiles plain({files[0]}, {}, nowhere), other({files[1]}, {.field = "body", .all_json = true}, nowhere);
  const auto parts = parts_of(plain);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(plain.text(parts[0]), "o\xC3\xA9\n");
  EXPECT_EQ(plain.text(parts[1]), "two");
  EXPECT_EQ(parts[1].line, 3U);
  EXPECT_EQ(other.text(parts_of(other).at(0)), "x");
}

using PieceList = std::vector<TextPiece>;

PieceList pieces_of(const std::string& line) {
  return std::get<PieceList>(
      TextFiles({"a.jsonl"}, {}, nowhere).content({.text = line, .json = true, .file = 0, .line = 7}));
}

TEST(TextPieces, ATextIsOnePiece) {
  EXPECT_EQ(TextFiles({}, {}, nowhere).content({.text = "{}"}), TextContent(PieceList{{.text = "{}"}}));
  // Its name was given: nothing else is meant.
  const TextFiles named({"a.jsonl"}, {.field = "text", .all_json = true}, nowhere);
  EXPECT_EQ(named.content({.text = R"({"text": "a", "prompt": "p", "completion": "c", "weight": 2})", .json = true}),
            TextContent(PieceList{{.text = "a"}}));
}

TEST(TextPieces, APromptIsReadAndItsCompletionLearnt) {
  EXPECT_EQ(
      pieces_of(R"({"prompt": "2 + 2 =", "completion": " 4"})"),
      (std::vector<TextPiece>{{.text = "2 + 2 =", .learnt = false}, {.text = " 4", .learnt = true, .ends = true}}));
}

TEST(TextPieces, ADialogueNeedsATemplate) {
  for (const char* line :
       {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
        R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})",
        R"({"instruction": "q", "output": "a"})",
        R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant"}]})"}) {
    const std::string refused = testing::message_of<UserError>([&] { pieces_of(line); });
    EXPECT_TRUE(has_parts(refused, {"'a.jsonl' line 7", "no chat template", "--chat-template chatml"})) << line;
  }
  ChatTemplate source{.sources = {{"default", "{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}"}}};
  const TextFiles files({"a.jsonl"}, {.chat = std::make_shared<ChatRenderer>(std::move(source))}, nowhere);
  const TextContent made = files.content(
      {.text = R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
       .json = true});
  EXPECT_EQ(std::get<RenderedChat>(made), (RenderedChat{"user: q;assistant: a;", {{8, 21}}}));
}

TEST(TextPieces, AVocabularyIsLearntFromTheTextsOfDialogues) {
  const TextFiles files({"a.jsonl"}, {}, nowhere);
  const auto text = [&](const char* line) { return files.text({.text = line, .json = true}); };
  EXPECT_EQ(
      text(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"text": "a"}]}]})"),
      "q\na\n");
  EXPECT_EQ(text(R"({"conversations": [{"from": "human", "value": "q"}]})"), "q\n");
  EXPECT_EQ(text(R"({"instruction": "q", "output": "a"})"), "q\na\n");
}

TEST(TextPieces, RefusesLinesWithoutTheText) {
  const auto refusal = [](const char* line) { return testing::message_of<UserError>([&] { pieces_of(line); }); };
  EXPECT_TRUE(has_parts(refusal("{\"body\": \"x\"}"), {"'a.jsonl' line 7", "\"text\"", "\"body\"", "--field"}));
  EXPECT_TRUE(has_parts(refusal("{\"text\": 3}"), {"'a.jsonl' line 7", "no text"}));
  EXPECT_TRUE(has_parts(refusal("plain"), {"'a.jsonl' line 7", "isn't valid JSON"}));
  EXPECT_TRUE(has_parts(refusal("{\"prompt\": \"x\"}"), {"'a.jsonl' line 7", "no text", "\"prompt\""}));
}

TEST(TextPieces, RefusesMembersThatChangeWhatIsLearnt) {
  const std::string said = R"({"role": "user", "content": "q"}, {"role": "assistant", "content": "a")";
  const auto chat = [&](const std::string& of_answer, const std::string& of_line = "") {
    return "{\"messages\": [" + said + of_answer + "}]" + of_line + "}";
  };
  struct Case {
    std::string line, named;
  };
  const std::vector<Case> cases = {
      {chat(R"(, "train": false)"), "messages[1].train"},
      {R"({"prompt": "p", "completion": "q", "tools": [{"type": "function"}]})", "tools"},
      {chat("", R"(, "system": "Be brief.")"), "system"},
      {chat("", R"(, "prompt": "p", "completion": "q")"), R"("prompt" with "completion" and "messages")"},
      {chat("", R"(, "text": "aa")"), R"("text" and "messages")"},
      {R"({"text": "aa", "prompt": "p", "completion": "c"})", R"("text" and "prompt" with "completion")"},
      {R"({"text": "aa", "weight": 0.5})", "weight"},
      {R"({"prompt": "p", "completion": "q", "suffix": "s"})", "suffix"},
      {R"({"prompt": "p", "completion": "q", "label": false})", "label"},
      {R"({"prompt": "p", "completion": "q", "completion": "z"})", "\"completion\" twice"},
      {R"({"messages": [{"role": "assistant", "content": "a", "content": "b"}]})", "\"content\" twice"},
  };
  for (const Case& each : cases) {
    const std::string refused = testing::message_of<UserError>([&] { pieces_of(each.line); });
    EXPECT_TRUE(has_parts(refused, {"'a.jsonl' line 7", each.named})) << each.line;
  }
  // Exports write members that say nothing.
  EXPECT_EQ(pieces_of(R"({"text": "a", "prompt": "p", "label": 0, "messages": null})"),
            std::vector<TextPiece>{{.text = "a"}});
}

// Forms of other programs, and values of other kinds.
TEST(TextPieces, RefusesWhatIsNoTextOfItsForm) {
  struct Case {
    std::string line, named;
  };
  const std::vector<Case> cases = {
      {R"({"prompt": ["p"], "completion": "c"})", "no text"},
      {R"({"prompt": "p", "completion": null})", "no text"},
      {R"({"prompt": "p", "completion": 4})", "no text"},
      {R"({"prompt": "p", "completion": {"text": "c"}})", "no text"},
      {R"({"completion": "c"})", "\"completion\""},
      {R"({"prompt": "p", "chosen": "c", "rejected": "r"})", "chosen"},
      {R"({"instruction": "i", "input": ""})", "\"instruction\""},
      {R"({"messages": {"role": "assistant", "content": "a"}})", "dialogue"},
      {R"({"messages": [{"role": "assistant", "role": "user", "content": "a"}]})", "\"role\" twice"},
      {R"({"text": {"text": "a"}})", "no text"},
      {R"({"text": ["a", "b"]})", "no text"},
      {R"({"text": "a", "text": "b"})", "\"text\" twice"},
      {R"({"text": "a"} {"text": "b"})", "isn't valid JSON"},
      {R"({"text": "a",})", "isn't valid JSON"},
      {R"({'text': 'a'})", "isn't valid JSON"},
      {R"({"text": "a", "score": NaN})", "isn't valid JSON"},
      {"{\"text\": \"a\tb\"}", "isn't valid JSON"},
      {"{\"text\": \"caf\xE9\"}", "line 7"},
      {R"({"text": "a\x41"})", "isn't valid JSON"},
  };
  for (const Case& each : cases) {
    const std::string refused = testing::message_of<UserError>([&] { pieces_of(each.line); });
    EXPECT_TRUE(has_parts(refused, {"'a.jsonl' line 7", each.named})) << each.line << ": " << refused;
  }
}

TEST(TextPieces, RefusesLinesByTheirForm) {
  struct Case {
    std::string line, named;
  };
  const std::vector<Case> cases = {
      {"[", "begins a JSON array"},
      {R"([{"text": "a"}, {"text": "b"}])", "begins a JSON array"},
      {"\xef\xbb\xbf [1]", "begins a JSON array"},
      {"{", "goes on in the next line"},
      {R"({"messages": [{"role": "user",)", "goes on in the next line"},
      {R"({"text": "ab\ud83d"})", "a lone surrogate, \\ud83d, at byte 12"},
      {R"({"text": "\ud83d\ude00 \udE00"})", "a lone surrogate, \\udE00, at byte 23"},
      {R"({"text": "\ud83d\ud83d\ude00"})", "a lone surrogate, \\ud83d, at byte 10"},
      {std::string("\xff\xfe{\0\"\0", 6), "is UTF-16"},
      {std::string("\0{\0\"\0t", 6), "is UTF-16"},
      {R"({"text": "cut o)", "isn't valid JSON"},
      {"\"text\"", "an object"},
  };
  for (const Case& each : cases) {
    const std::string refused = testing::message_of<UserError>([&] { pieces_of(each.line); });
    EXPECT_TRUE(has_parts(refused, {"'a.jsonl' line 7", each.named})) << each.line;
  }
  EXPECT_EQ(pieces_of(R"({"text": "\\ud83d \ud83d\ude00"})").front().text, "\\ud83d \xF0\x9F\x98\x80");
}

TEST(TextFiles, ACardIsNoPartOfItsDataSet) {
  const auto files_in = [](const std::vector<std::string>& names, const std::string& readme) {
    const testing::TemporaryFolder folder;
    for (const std::string& name : names) folder.write(name, name.ends_with("README.md") ? readme : "x");
    std::string all;
    for (const auto& file : files_of({folder.path().string()})) {
      all += file.lexically_relative(folder.path()).string() + " ";
    }
    return all;
  };
  const std::string card = "---\nlicense: mit\n---\n# Data\n";
  EXPECT_EQ(files_in({"README.md", ".gitattributes", "data/train.jsonl"}, "# Data"), "data/train.jsonl ");
  EXPECT_EQ(files_in({"README.md", "train.jsonl.gz", ".git/config"}, "# Data"), "train.jsonl.gz ");
  EXPECT_EQ(files_in({"README.md", "train.txt"}, card), "train.txt ");
  EXPECT_EQ(files_in({"README.md", "b.md"}, "# Texts"), "README.md b.md ");
  std::vector<std::filesystem::path> alone = {"readme.txt"};
  EXPECT_EQ(take_cards(alone, true).size(), 1U);
  EXPECT_TRUE(alone.empty());
}

}  // namespace
}  // namespace weft::text
