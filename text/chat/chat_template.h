// Chat templates: the Jinja texts by which a model writes a dialogue as one text, and the names of the special tokens
// in them. A model's own stand beside its tokenizer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace weft::text {

inline constexpr const char* kChatTemplateFile = "chat_template.jinja";

struct ChatTemplate {
  std::map<std::string, std::string> sources;              // by name; a model with one template names it "default"
  std::map<std::string, std::string> special_tokens = {};  // "eos_token": "<|im_end|>"
  std::vector<std::string> stops = {};                     // texts of the tokens that may end a turn
};

/// The template of a tokenizer's files: chat_template.jinja, else chat_template of tokenizer_config.json, a text or a
/// list of named ones. nullopt: there is none. Throws UserError if a file can't be read.
std::optional<ChatTemplate> chat_template_of(const Tokenizer& tokenizer);

/// The text of a template. `named`: "chatml", or a file. ChatML ends a turn by <|im_end|> where the tokenizer has this
/// token, else by the end of a text. Throws UserError.
std::string chat_template_source(const Tokenizer& tokenizer, const std::string& named);

/// The same tokenizer with a template among its files, and other ends of texts.
TokenizerPointer with_template(TokenizerPointer tokenizer, std::string source, std::vector<std::int32_t> ends);

/// The tokenizer's files for a folder of Hugging Face. With a template they tell the ends of a turn by a
/// generation_config.json, where transformers looks for them.
std::vector<TokenizerFile> files_to_export(const Tokenizer& tokenizer);

}  // namespace weft::text
