#include "text/corpus/text_pieces.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::text {
namespace {

std::vector<TextPiece> pieces_of(const std::string& line) {
  return part_pieces({.text = line, .json = true, .file = 0, .line = 7}, {"a.jsonl"}, "text");
}

TEST(TextPieces, ATextIsOnePiece) {
  EXPECT_EQ(part_pieces({.text = "{}"}, {}, "text"), std::vector<TextPiece>{{.text = "{}"}});
  EXPECT_EQ(pieces_of(R"({"text": "a", "prompt": "p", "completion": "c"})"), std::vector<TextPiece>{{.text = "a"}});
}

TEST(TextPieces, APromptIsReadAndItsCompletionLearnt) {
  EXPECT_EQ(
      pieces_of(R"({"prompt": "2 + 2 =", "completion": " 4"})"),
      (std::vector<TextPiece>{{.text = "2 + 2 =", .learnt = false}, {.text = " 4", .learnt = true, .ends = true}}));
}

TEST(TextPieces, TheContentsOfTheAssistantAreLearnt) {
  EXPECT_EQ(pieces_of(R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                          {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "No"},
                          {"role": "assistant", "content": "Bye"}]})"),
            (std::vector<TextPiece>{{.text = "<|system|>\nBe brief.\n<|user|>\nHi\n<|assistant|>\n", .learnt = false},
                                    {.text = "Yes?", .learnt = true, .ends = true},
                                    {.text = "\n<|user|>\nNo\n<|assistant|>\n", .learnt = false},
                                    {.text = "Bye", .learnt = true, .ends = true},
                                    {.text = "\n", .learnt = false}}));
}

TEST(TextPieces, RefusesLinesWithoutTheText) {
  const auto refusal = [](const char* line) {
    const TextPart part{.text = line, .json = true, .file = 0, .line = 7};
    return testing::message_of<UserError>([&] { part_text(part, {"a.jsonl"}, "text"); });
  };
  EXPECT_TRUE(has_parts(refusal("{\"body\": \"x\"}"), {"'a.jsonl' line 7", "\"text\"", "\"body\"", "--field"}));
  EXPECT_TRUE(has_parts(refusal("{\"text\": 3}"), {"'a.jsonl' line 7", "no text"}));
  EXPECT_TRUE(has_parts(refusal("plain"), {"'a.jsonl' line 7", "isn't valid JSON"}));
  EXPECT_TRUE(has_parts(refusal("{\"prompt\": \"x\"}"), {"'a.jsonl' line 7", "no text", "\"prompt\""}));
  const auto messages = [&](const std::string& list) { return refusal(("{\"messages\": " + list + "}").c_str()); };
  EXPECT_TRUE(has_parts(messages("[]"), {"'a.jsonl' line 7", "no message of the assistant"}));
  EXPECT_TRUE(has_parts(messages("3"), {"messages is 3", "a list"}));
  EXPECT_TRUE(has_parts(messages(R"([{"role": "user", "content": "x"}])"), {"no message of the assistant"}));
  EXPECT_TRUE(has_parts(messages(R"([{"role": "assistant"}])"), {"messages[0]", "has no content"}));
  EXPECT_TRUE(has_parts(messages("[3]"), {"messages[0] is 3", "an object"}));
  EXPECT_TRUE(has_parts(messages(R"([{"role": "tool", "content": "x"}])"), {"role is \"tool\"", "user, assistant"}));
}

}  // namespace
}  // namespace weft::text
