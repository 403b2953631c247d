#include "text/chat/chat_template.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/text/formats/small_tokenizers.h"
#include "text/chat/chat_renderer.h"

namespace weft::text {
namespace {

class ChatTemplates : public ::testing::Test {
 protected:
  ChatTemplates() { folder_.write("tokenizer.json", testing::SmallJson{}.text()); }

  void write_config(const std::string& chat_template) const {
    folder_.write(
        "tokenizer_config.json",
        R"({"eos_token": "<end>", "pad_token": {"content": "<end>"}, "chat_template": )" + chat_template + "}");
  }
  std::optional<ChatTemplate> found() const { return chat_template_of(*load_tokenizer(folder_.path())); }

  const testing::TemporaryFolder folder_;
};

TEST_F(ChatTemplates, StandBesideTheTokenizer) {
  EXPECT_EQ(found(), std::nullopt);
  write_config(R"("one {{ eos_token }}")");
  EXPECT_EQ(found()->sources, (std::map<std::string, std::string>{{"default", "one {{ eos_token }}"}}));
  EXPECT_EQ(found()->special_tokens,
            (std::map<std::string, std::string>{{"eos_token", "<end>"}, {"pad_token", "<end>"}}));
  write_config(R"([{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}])");
  EXPECT_EQ(found()->sources, (std::map<std::string, std::string>{{"default", "a"}, {"tool_use", "b"}}));
  folder_.write("chat_template.jinja", "own");
  EXPECT_EQ(found()->sources, (std::map<std::string, std::string>{{"default", "own"}}));
}

TEST_F(ChatTemplates, AreRefusedInOtherForms) {
  for (const char* form : {"3", R"({"default": "a"})", R"([{"name": "a"}])", R"(["a"])"}) {
    write_config(form);
    EXPECT_THROW(found(), UserError) << form;
  }
}

TEST_F(ChatTemplates, AnotherOneIsWrittenBack) {
  write_config(R"("one")");
  const TokenizerPointer own = load_tokenizer(folder_.path()), made = with_chat_template(own, "chatml");
  EXPECT_EQ(with_chat_template(own, ""), own);
  EXPECT_EQ(made->facts().digest, own->facts().digest);
  const testing::TemporaryFolder other;
  for (const TokenizerFile& file : made->facts().files) other.write(file.name, file.content);
  const TokenizerPointer again = load_tokenizer(other.path());
  EXPECT_EQ(chat_template_of(*again)->sources, chat_template_of(*made)->sources);
  EXPECT_NE(chat_template_of(*again)->sources, chat_template_of(*own)->sources);
  EXPECT_EQ(again->facts().ends, made->facts().ends);
  // A tokenizer without <|im_end|> ends a turn by its end of a text.
  EXPECT_EQ(chat_renderer_of(*again)->turn_end(), "<end>\n");
  EXPECT_THROW(with_chat_template(own, "nowhere.jinja"), UserError);
}

TEST_F(ChatTemplates, TheEndOfATurnBecomesAnEnd) {
  testing::SmallJson json;
  json.added =
      R"([{"id": 9, "content": "<end>", "special": true}, {"id": 10, "content": "<|im_end|>", "special": true}])";
  folder_.write("tokenizer.json", json.text());
  write_config("null");
  const TokenizerPointer made = with_chat_template(load_tokenizer(folder_.path()), "chatml");
  EXPECT_EQ(made->facts().ends, (std::vector<std::int32_t>{9, 10}));
  const testing::TemporaryFolder other;
  for (const TokenizerFile& file : made->facts().files) other.write(file.name, file.content);
  EXPECT_EQ(load_tokenizer(other.path())->facts().ends, (std::vector<std::int32_t>{9, 10}));
}

}  // namespace
}  // namespace weft::text
