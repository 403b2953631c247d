// Dialogues as texts, and what is learnt of them. Needs Python's jinja2 (Debian: python3-jinja2).
#include "text/chat/chat_renderer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::text {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* kChatml =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
/// Thoughts of earlier turns are taken out.
constexpr const char* kThoughts =
    "{% for message in messages %}{% set content = message.content %}"
    "{% if message.role == 'assistant' and not loop.last %}{% set content = content.split('</think>')[-1] %}{% endif %}"
    "[{{ message.role }}]{{ content }}</s>\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

ChatTemplate template_of(std::string source) {
  return {.sources = {{"default", std::move(source)}},
          .special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
          .stops = {"</s>", "<|im_end|>"}};
}

Texts learnt_by(const std::string& source, const std::string& record, ChatForm form = ChatForm::messages) {
  const RenderedChat made = ChatRenderer(template_of(source)).learnt(record, form, "line 1");
  Texts parts;
  for (const IdRange& range : made.learnt) parts.push_back(made.text.substr(range.begin, range.end - range.begin));
  return parts;
}

std::string refusal_of(const std::string& source, const std::string& record, ChatForm form = ChatForm::messages) {
  return testing::message_of<UserError>([&] { learnt_by(source, record, form); });
}

std::string messages(const std::string& list) {
  return R"({"messages": [)" + list + "]}";
}

const std::string kTwoTurns = messages(R"({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yés?"},
    {"role": "user", "content": "No"}, {"role": "assistant", "content": "Bye"})");

TEST(ChatRenderer, LearnsTheAnswersWithTheTokensThatEndThem) {
  EXPECT_EQ(learnt_by(kChatml, kTwoTurns), (Texts{"Yés?<|im_end|>", "Bye<|im_end|>"}));
}

TEST(ChatRenderer, LearnsWhatATemplateMarks) {
  const std::string marked =
      "{% for message in messages %}{% if message.role == 'assistant' %}A: {% generation %}{{ message.content }}."
      "{% endgeneration %}{% else %}Q: {{ message.content }}{% endif %}\n{% endfor %}";
  EXPECT_EQ(learnt_by(marked, kTwoTurns), (Texts{"Yés?.", "Bye."}));
  EXPECT_EQ(learnt_by(marked, messages(R"({"role": "user", "content": "q"},
                {"role": "assistant", "content": "BAD", "weight": 0}, {"role": "user", "content": "q"},
                {"role": "assistant", "content": "GOOD", "weight": 1})")),
            Texts{"GOOD."});
}

TEST(ChatRenderer, LearnsTurnsThatTheWholeTextKeeps) {
  EXPECT_EQ(learnt_by(kThoughts, messages(R"({"role": "user", "content": "a"},
                {"role": "assistant", "content": "<think>x</think>b"}, {"role": "user", "content": "c"},
                {"role": "assistant", "content": "plain"}, {"role": "user", "content": "e"},
                {"role": "assistant", "content": "<think>y</think>f"})")),
            (Texts{"plain</s>", "<think>y</think>f</s>"}));
  // The generation prompt has more than the text: what it has is not learnt.
  const std::string begun =
      "{% for message in messages %}[{{ message.role }}]{{ message.content }}</s>{% endfor %}"
      "{% if add_generation_prompt %}[assistant]<think>\n{% endif %}";
  EXPECT_EQ(learnt_by(begun, kTwoTurns), (Texts{"Yés?</s>", "Bye</s>"}));
  // The system's text moves to the last question, so that no text begins as the whole does.
  const std::string moved =
      "{% for message in messages %}{% if message.role == 'user' %}[{% if loop.index0 + 2 >= messages|length %}Be "
      "brief. {% endif %}{{ message.content }}]{% else %}{{ message.content }}</s>{% endif %}{% endfor %}";
  EXPECT_EQ(learnt_by(moved, kTwoTurns), (Texts{"Yés?</s>", "Bye</s>"}));
}

TEST(ChatRenderer, RefusesATurnThatTheTextChanges) {
  const std::string upper =
      "{% for message in messages %}\n{% if message.role == 'assistant' and messages|length > 1 %}\n"
      "{{ message.content | upper if messages|length == 3 else message.content }}\n"
      "{% endif %}{% endfor %}";
  const std::string refused = refusal_of(upper, messages(R"({"role": "user", "content": "a"},
      {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"})"));
  EXPECT_TRUE(testing::has_parts(refused, {"line 1", "template's line 3", "messages[1]", "generation"})) << refused;
}

TEST(ChatRenderer, ReadsFourForms) {
  const Texts answer = {"b<|im_end|>"};
  EXPECT_EQ(learnt_by(kChatml, R"({"system": "s", "conversations": [{"from": "human", "value": "a"},
                                  {"from": "gpt", "value": "b"}]})",
                      ChatForm::sharegpt),
            answer);
  EXPECT_EQ(learnt_by(kChatml, R"({"instruction": "a", "input": "c", "output": "b"})", ChatForm::alpaca), answer);
  EXPECT_EQ(learnt_by(kChatml, R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "x"},
                                  {"role": "user", "content": "a"}],
                                  "completion": [{"role": "assistant", "content": "b"}]})",
                      ChatForm::halves),
            answer);
  const ChatRenderer chat(template_of(kChatml));
  EXPECT_EQ(chat.learnt(R"({"instruction": "a", "input": "c", "output": "b", "history": [["q", "r"]], "system": "s"})",
                        ChatForm::alpaca, "")
                .text,
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nr<|im_end|>\n"
            "<|im_start|>user\na\nc<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n");
}

TEST(ChatRenderer, AsksByTheGenerationPrompt) {
  const ChatRenderer chat(template_of(kChatml));
  EXPECT_EQ(chat.prompt(messages(R"({"role": "user", "content": "Hi"})"), ""),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(chat.turn_end(), "<|im_end|>\n");
}

TEST(ChatRenderer, RefusesMembersThatTheTemplateDoesntRead) {
  struct Case {
    std::string record, named;
  };
  const std::string said = R"({"role": "user", "content": "q"}, {"role": "assistant", "content": "a")";
  const std::vector<Case> cases = {
      {messages(said + R"(, "tool_calls": [{"type": "function"}]})"), "messages[1].tool_calls"},
      {messages(said + R"(, "function_call": {"name": "f"}})"), "messages[1].function_call"},
      {messages(said + R"(, "reasoning_content": "thus"})"), "messages[1].reasoning_content"},
      {messages(said + R"(, "thinking": "thus"})"), "messages[1].thinking"},
      {messages(said + R"(, "weight": 0.5})"), "messages[1].weight"},
      {messages(said + R"(, "weight": true})"), "messages[1].weight"},
      {R"({"tools": [{"type": "function"}], "messages": [)" + said + "}]}", "tools"},
      {messages(R"({"role": "user", "content": [{"type": "image", "url": "x"}]},
                   {"role": "assistant", "content": "a"})"),
       "messages[0].content"},
      {messages(R"({"role": "user", "content": "x"})"), "no message of the assistant"},
      {messages(""), "messages is []"},
      {messages("3"), "messages[0] has no role"},
      {messages(R"({"role": "assistant"})"), "the chat template, line "},
  };
  for (const Case& each : cases) {
    const std::string refused = refusal_of(kChatml, each.record);
    EXPECT_TRUE(testing::has_parts(refused, {"line 1", each.named})) << each.record << "\n" << refused;
  }
  // A text of parts for a template that writes any content as it is.
  const std::string any = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
  EXPECT_TRUE(
      testing::has_parts(refusal_of(any, messages(R"({"role": "user", "content": [{"type": "text", "text": "b"}]},
                                  {"role": "assistant", "content": "a"})")),
                         {"messages[0].content is a list"}));
  EXPECT_TRUE(testing::has_parts(
      refusal_of(kChatml, R"({"conversations": [{"from": "bot", "value": "b"}]})", ChatForm::sharegpt),
      {"conversations[0].from", "bot"}));
}

TEST(ChatRenderer, TellsTheLineOfATemplateThatRefuses) {
  const std::string picky =
      "{% for message in messages %}\n{% if message.role == 'user' %}\n"
      "{{ raise_exception('no users here') }}\n{% endif %}{% endfor %}";
  EXPECT_TRUE(testing::has_parts(refusal_of(picky, kTwoTurns), {"line 3", "no users here"}));
  EXPECT_TRUE(testing::has_parts(refusal_of("\n{% if %}", kTwoTurns), {"line 2"}));
}

// A template comes from elsewhere: it reaches nothing but the record, and not for long.
TEST(ChatRenderer, HostileTemplatesAreRefused) {
  const Texts hostile = {
      "{{ ''.__class__.__mro__[1].__subclasses__() }}",
      "{{ cycler.__init__.__globals__.os.system('true') }}",
      "{{ messages.append(1) }}",
      "{% set ns = namespace(__class__=1) %}",
      "{% include '/etc/passwd' %}",
      "{{ ('x' * 1000000000) * 4 }}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% for i in range(999999999) %}{% endfor %}",
      "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
      "{{ '%999999999d' % 1 }}{{ '%999999999d' % 1 }}",
  };
  for (const std::string& source : hostile) {
    const ChatRenderer chat(template_of(source), 1);
    EXPECT_THROW((void)chat.prompt(kTwoTurns, "line 1"), UserError) << source;
    EXPECT_THROW((void)chat.prompt(kTwoTurns, "line 1"), UserError) << source;
  }
  // Python's own attributes are as if they weren't there.
  for (const char* source : {"{{ raise_exception.__globals__ }}", "{{ self._TemplateReference__context }}"}) {
    EXPECT_EQ(ChatRenderer(template_of(source)).prompt(kTwoTurns, ""), "") << source;
  }
}

}  // namespace
}  // namespace weft::text
