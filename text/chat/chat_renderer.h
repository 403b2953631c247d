// Dialogues as the texts that a model reads and writes: a chat template, rendered as transformers renders it, by
// Python's jinja2 in a process of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/child_process.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace weft::text {

/// The forms in which records hold dialogues.
enum class ChatForm : std::uint8_t {
  messages,  // "messages": [{"role": …, "content": …}, …]
  sharegpt,  // "conversations": [{"from": "human", "value": …}, …]
  alpaca,    // "instruction", "input", "output"
  halves     // "prompt" and "completion", each a list of messages, of which the second is learnt
};

struct RenderedChat {
  std::string text;
  std::vector<IdRange> learnt;  // of its bytes

  friend bool operator==(const RenderedChat&, const RenderedChat&) = default;
};

/// Starts Python at the first call, and ends it with the object. Any number of threads may call it; they take turns. A
/// template may take 512 MiB, and 10 s of CPU time for each text.
///
///   ChatRenderer chat(*chat_template_of(tokenizer));
///   chat.prompt(R"({"messages": [{"role": "user", "content": "Hi"}]})")   // "<|im_start|>user\nHi<|im_end|>\n…"
class ChatRenderer {
 public:
  explicit ChatRenderer(ChatTemplate source, int cpu_seconds = 10);
  ~ChatRenderer();
  ChatRenderer(const ChatRenderer&) = delete;
  ChatRenderer& operator=(const ChatRenderer&) = delete;

  /// The text of a record, which is a line of JSON, and the parts of it that the assistant writes: those that the
  /// template's {% generation %} marks, else from each generation prompt to the end of the turn. `place` is the
  /// record's in messages. Throws UserError if Python has no jinja2, the template refuses the record or doesn't read a
  /// member that changes what is said, or takes too much.
  RenderedChat learnt(std::string_view record, ChatForm form, const std::string& place) const;
  /// The text of a record of messages with the begin of the assistant's answer.
  std::string prompt(std::string_view record, const std::string& place) const;
  /// The text after the assistant's content.
  std::string turn_end() const;

 private:
  std::string ask(const std::string& request, const std::string& place) const;

  ChatTemplate source_;
  int cpu_seconds_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<ChildProcess> child_;
};

/// Of the tokenizer's own template; null: it has none.
std::shared_ptr<const ChatRenderer> chat_renderer_of(const Tokenizer& tokenizer);

/// The same tokenizer with another template: its files have chat_template.jinja, and the token that ends a turn by it
/// is one of its ends. `named`: "chatml", or a file; empty: the tokenizer itself. ChatML ends a turn by <|im_end|>
/// where the tokenizer has this token, else by the end of a text. Throws UserError.
TokenizerPointer with_chat_template(TokenizerPointer tokenizer, const std::string& named);

/// The tokenizer's ends, and the token that ends a turn.
std::vector<std::int32_t> ends_of_turn(const Tokenizer& tokenizer, const ChatRenderer& chat);

}  // namespace weft::text
