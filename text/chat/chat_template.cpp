#include "text/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/text/json_object.h"
#include "text/formats/tokenizer_file.h"

namespace weft::text {
namespace {

constexpr const char *kSettingsFile = "tokenizer_config.json", *kMapFile = "special_tokens_map.json",
                     *kGenerationFile = "generation_config.json", *kDefault = "default";
constexpr std::string_view kTurnEnd = "<|im_end|>";
constexpr std::array kTokenNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token", "mask_token"};

const std::string* content_of(const TokenizerFacts& facts, std::string_view name) {
  const auto found = std::ranges::find(facts.files, name, &TokenizerFile::name);
  return found == facts.files.end() ? nullptr : &found->content;
}

void add_special_tokens(const DocumentValue& settings, std::map<std::string, std::string>& tokens) {
  for (const char* name : kTokenNames) {
    auto value = settings.given(name);
    if (value && value->is_object()) value = value->given("content");
    if (value) tokens.emplace(name, value->text());
  }
}

void add_sources(const DocumentValue& settings, std::map<std::string, std::string>& sources) {
  const auto given = settings.given("chat_template");
  if (!given) return;
  if (given->is_text()) {
    sources.emplace(kDefault, given->text());
    return;
  }
  for (const DocumentValue& named : given->items("a template, or a list of named ones")) {
    sources.insert_or_assign(named["name"].text(), named["template"].text());
  }
}

/// A tokenizer with other files beside it.
class WithFiles : public Tokenizer {
 public:
  WithFiles(TokenizerFacts facts, TokenizerPointer inner) : Tokenizer(std::move(facts)), inner_(std::move(inner)) {}

  void append(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const override {
    inner_->append(text, options, ids);
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    return inner_->decode(ids, skip_special);
  }
  std::optional<std::string> token_text(std::int32_t id) const override { return inner_->token_text(id); }
  std::optional<std::int32_t> token_id(std::string_view text) const override { return inner_->token_id(text); }
  std::size_t cut_after(std::string_view text, std::size_t from) const override {
    return inner_->cut_after(text, from);
  }

 private:
  TokenizerPointer inner_;
};

TokenizerFile generation_config_of(const TokenizerFacts& facts) {
  JsonObject generation;
  if (facts.begin) generation.add("bos_token_id", *facts.begin);
  generation.add("eos_token_id", facts.ends);
  return {kGenerationFile, generation.text() + "\n"};
}

std::string chatml_of(const Tokenizer& tokenizer) {
  const std::string end = tokenizer.token_id(kTurnEnd) ? "'" + std::string(kTurnEnd) + "'" : "eos_token";
  return "{%- for message in messages -%}\n"
         "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + " +
         end +
         " + '\\n' }}\n"
         "{%- endfor -%}\n"
         "{%- if add_generation_prompt -%}\n"
         "{{ '<|im_start|>assistant\\n' }}\n"
         "{%- endif -%}\n";
}

}  // namespace

std::optional<ChatTemplate> chat_template_of(const Tokenizer& tokenizer) {
  const TokenizerFacts& facts = tokenizer.facts();
  ChatTemplate found;
  if (const std::string* own = content_of(facts, kChatTemplateFile)) found.sources[kDefault] = *own;
  const bool of_files = !found.sources.empty();
  for (const char* name : {kSettingsFile, kMapFile}) {
    const std::string* content = content_of(facts, name);
    if (content == nullptr) continue;
    const Document document = read_tokenizer_json(*content, name);
    add_special_tokens(document.root(), found.special_tokens);
    if (!of_files && name == kSettingsFile) add_sources(document.root(), found.sources);
  }
  if (found.sources.empty()) return std::nullopt;
  const auto add_end = [&](const char* name, std::optional<std::int32_t> id) {
    const auto text = id ? tokenizer.token_text(*id) : std::nullopt;
    if (text && content_of(facts, kSettingsFile) == nullptr) found.special_tokens.emplace(name, *text);
  };
  add_end("bos_token", facts.begin), add_end("eos_token", facts.end);
  for (const std::int32_t id : facts.ends) {
    if (const auto text = tokenizer.token_text(id)) found.stops.push_back(*text);
  }
  if (const auto end = found.special_tokens.find("eos_token"); end != found.special_tokens.end()) {
    found.stops.push_back(end->second);
  }
  for (const std::string_view usual : {kTurnEnd, std::string_view("<|eot_id|>"), std::string_view("<|end|>"),
                                       std::string_view("<end_of_turn>"), std::string_view("<|end_of_role|>")}) {
    if (tokenizer.token_id(usual)) found.stops.emplace_back(usual);
  }
  return found;
}

std::string chat_template_source(const Tokenizer& tokenizer, const std::string& named) {
  if (named == "chatml") return chatml_of(tokenizer);
  if (is_file(named)) return read_tokenizer_file(named);
  throw UserError("--chat-template " + named, "chatml, or a file with a Jinja template", "check the path");
}

TokenizerPointer with_template(TokenizerPointer tokenizer, std::string source, std::vector<std::int32_t> ends) {
  TokenizerFacts facts = tokenizer->facts();
  facts.ends = std::move(ends);
  std::erase_if(facts.files, [](const TokenizerFile& file) {
    return file.name == kChatTemplateFile || file.name == kGenerationFile;
  });
  facts.files.push_back({kChatTemplateFile, std::move(source)});
  facts.files.push_back(generation_config_of(facts));
  return std::make_shared<WithFiles>(std::move(facts), std::move(tokenizer));
}

std::vector<TokenizerFile> files_to_export(const Tokenizer& tokenizer) {
  std::vector<TokenizerFile> files = tokenizer.facts().files;
  if (content_of(tokenizer.facts(), kGenerationFile) == nullptr && chat_template_of(tokenizer)) {
    files.push_back(generation_config_of(tokenizer.facts()));
  }
  return files;
}

}  // namespace weft::text
