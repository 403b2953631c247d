// Hugging Face's tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/utf8.h"
#include "text/bpe/bpe_trainer.h"
#include "text/bpe/byte_alphabet.h"
#include "text/formats/tokenizer_file.h"
#include "text/split/lexer.h"
#include "text/unicode/characters.h"

namespace weft::text {
namespace {

using Names = std::vector<std::string>;

/// The ids around a text.
struct TextFrame {
  std::vector<std::int32_t> before, after;
};

/// A text that isn't empty.
std::string some_text(const DocumentValue& value) {
  std::string text = value.text();
  if (text.empty()) value.refuse("a text that isn't empty");
  return text;
}

/// A text of one character.
std::string one_character(const DocumentValue& value) {
  std::string text = value.text();
  if (text.empty() || first_character(text).length != text.size()) value.refuse("one character");
  return text;
}

/// A pattern is {"Regex": "…"} or {"String": "…"}.
struct JsonPattern {
  std::string text;
  bool regex = false;
};

JsonPattern pattern_of(const DocumentValue& value) {
  value.only({"Regex", "String"});
  if (value.members().size() > 1) value.refuse("a Regex or a String");
  if (const auto regex = value.find("Regex")) return {some_text(*regex), true};
  return {some_text(value["String"]), false};
}

Pattern compiled(const DocumentValue& owner, const JsonPattern& pattern) {
  return {pattern.text, RegexFlavour::oniguruma, owner.place()};
}

Matches matches_of(const DocumentValue& value) {
  static const Names names{"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  constexpr std::array kMatches{Matches::isolated, Matches::removed, Matches::merged_with_previous,
                                Matches::merged_with_next, Matches::contiguous};
  return kMatches.at(static_cast<std::size_t>(std::ranges::find(names, value.name_of(names)) - names.begin()));
}

void add_split(const DocumentValue& component, PreTokenizer& pre_tokenizer) {
  component.only({"type", "pattern", "behavior", "invert"});
  const JsonPattern pattern = pattern_of(component["pattern"]);
  const Matches matches = matches_of(component["behavior"]);
  const bool invert = flag(component, "invert", false);
  if (!pattern.regex) {
    pre_tokenizer.steps.emplace_back(SplitByText{pattern.text, matches, invert});
    return;
  }
  // The matches of a lexer's expression are the whole text, so that nothing is removed between them.
  const bool keeps_matches = (matches == Matches::isolated && !invert) || (matches == Matches::removed && invert);
  if (const Lexer* lexer = lexer_of(pattern.text); lexer != nullptr && !lexer->rust_alone && keeps_matches) {
    pre_tokenizer.steps.emplace_back(SplitByLexer{lexer});
    return;
  }
  pre_tokenizer.steps.emplace_back(SplitByPattern{compiled(component, pattern), matches, invert});
}

void add_byte_level(const DocumentValue& component, PreTokenizer& pre_tokenizer) {
  component.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (flag(component, "add_prefix_space", true)) pre_tokenizer.steps.emplace_back(SpaceBefore{});
  if (flag(component, "use_regex", true)) pre_tokenizer.steps.emplace_back(SplitByLexer{lexer_named("gpt2")});
  pre_tokenizer.bytes = true;
}

PrefixScheme scheme_of(const DocumentValue& component) {
  const bool prefix = flag(component, "add_prefix_space", true);
  const auto scheme = component.given("prepend_scheme");
  if (!scheme) return prefix ? PrefixScheme::always : PrefixScheme::never;
  const std::string name = scheme->name_of(Names{"always", "first", "never"});
  if (!prefix && name != "never") scheme->refuse("\"never\", as add_prefix_space is false");
  return name == "always" ? PrefixScheme::always : (name == "first" ? PrefixScheme::first : PrefixScheme::never);
}

std::string blank_of(const DocumentValue& component) {
  component.only({"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"});
  return one_character(component["replacement"]);
}

std::vector<DocumentValue> parts_of(const DocumentValue& sequence, std::string_view key) {
  sequence.only({"type", std::string(key)});
  return sequence[key].items();
}

/// Behind, then before the text: cls and sep of BertProcessing and RobertaProcessing.
void add_pair(const DocumentValue& component, TextFrame& frame) {
  component.only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  frame.before.push_back(id_of(component["cls"].items(2, "a token and its id")[1]));
  frame.after.push_back(id_of(component["sep"].items(2, "a token and its id")[1]));
}

void add_template(const DocumentValue& component, TextFrame& frame) {
  component.only({"type", "single", "pair", "special_tokens"});
  bool behind = false;
  for (const DocumentValue& piece : component["single"].items()) {
    piece.only({"SpecialToken", "Sequence"});
    if (const auto sequence = piece.find("Sequence")) {
      (*sequence)["id"].name_of(Names{"A"});
      if (behind) sequence->refuse("one text in the template");
      behind = true;
      continue;
    }
    const std::string name = piece["SpecialToken"]["id"].text();
    for (const DocumentValue& id : component["special_tokens"][name]["ids"].items()) {
      (behind ? frame.after : frame.before).push_back(id_of(id));
    }
  }
  if (!behind) component["single"].refuse("a template with the text");
}

// The components, each of which may be a "Sequence" of them, add their steps. What isn't known is refused by name.

void add_normalizer(const DocumentValue& component, Normalizer& normalizer) {
  // First the forms, in the order of NormalForm.
  static const Names known{"NFC",          "NFD",     "NFKC",    "NFKD",  "Lowercase",
                           "StripAccents", "Prepend", "Replace", "Strip", "Sequence"};
  const std::string type = component["type"].name_of(known);
  auto& steps = normalizer.steps;
  if (type == "Sequence") {
    for (const DocumentValue& part : parts_of(component, "normalizers")) add_normalizer(part, normalizer);
  } else if (type == "Prepend") {
    component.only({"type", "prepend"});
    steps.emplace_back(Prepend{component["prepend"].text()});
  } else if (type == "Replace") {
    component.only({"type", "pattern", "content"});
    const JsonPattern pattern = pattern_of(component["pattern"]);
    const std::string content = component["content"].text();
    if (pattern.regex) {
      steps.emplace_back(ReplaceMatches{compiled(component, pattern), content});
    } else {
      steps.emplace_back(ReplaceText{pattern.text, content});
    }
  } else if (type == "Strip") {
    component.only({"type", "strip_left", "strip_right"});
    steps.emplace_back(StripSpace{flag(component, "strip_left", true), flag(component, "strip_right", true)});
  } else {
    component.only({"type"});
    if (type == "Lowercase") {
      steps.emplace_back(Lowercase{});
    } else if (type == "StripAccents") {
      steps.emplace_back(StripAccents{});
    } else {
      steps.emplace_back(static_cast<NormalForm>(std::ranges::find(known, type) - known.begin()));
    }
  }
}

void add_pre_tokenizer(const DocumentValue& component, PreTokenizer& pre_tokenizer) {
  static const Names known{"ByteLevel", "Split",           "Digits",     "Metaspace",
                           "Sequence",  "WhitespaceSplit", "Whitespace", "CharDelimiterSplit"};
  const std::string type = component["type"].name_of(known);
  if (pre_tokenizer.bytes) component["type"].refuse("no other component behind ByteLevel");
  auto& steps = pre_tokenizer.steps;
  if (type == "Sequence") {
    for (const DocumentValue& part : parts_of(component, "pretokenizers")) add_pre_tokenizer(part, pre_tokenizer);
  } else if (type == "ByteLevel") {
    add_byte_level(component, pre_tokenizer);
  } else if (type == "Split") {
    add_split(component, pre_tokenizer);
  } else if (type == "Digits") {
    component.only({"type", "individual_digits"});
    steps.emplace_back(
        SplitByClass{kNumber, flag(component, "individual_digits", false) ? Matches::isolated : Matches::contiguous});
  } else if (type == "Metaspace") {
    steps.emplace_back(Metaspace{blank_of(component), scheme_of(component), flag(component, "split", true)});
  } else if (type == "WhitespaceSplit") {
    component.only({"type"});
    steps.emplace_back(SplitByClass{kSpace, Matches::removed});
  } else if (type == "Whitespace") {
    component.only({"type"});
    steps.emplace_back(
        SplitByPattern{Pattern(R"(\w+|[^\w\s]+)", RegexFlavour::rust, component.place()), Matches::removed, true});
  } else {
    component.only({"type", "delimiter"});
    steps.emplace_back(SplitByText{one_character(component["delimiter"]), Matches::removed, false});
  }
}

void add_post_processor(const DocumentValue& component, TextFrame& frame) {
  static const Names known{"ByteLevel", "TemplateProcessing", "BertProcessing", "RobertaProcessing", "Sequence"};
  const std::string type = component["type"].name_of(known);
  if (type == "Sequence") {
    for (const DocumentValue& part : parts_of(component, "processors")) add_post_processor(part, frame);
  } else if (type == "TemplateProcessing") {
    add_template(component, frame);
  } else if (type != "ByteLevel") {  // which changes offsets alone
    add_pair(component, frame);
  }
}

void add_decoder(const DocumentValue& component, Decoder& decoder) {
  static const Names known{"ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace", "Sequence"};
  const std::string type = component["type"].name_of(known);
  auto& steps = decoder.steps;
  if (type == "Sequence") {
    for (const DocumentValue& part : parts_of(component, "decoders")) add_decoder(part, decoder);
  } else if (type == "ByteLevel") {
    component.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    steps.emplace_back(DecodeByteLevel{});
  } else if (type == "ByteFallback") {
    component.only({"type"});
    steps.emplace_back(DecodeByteFallback{});
  } else if (type == "Fuse") {
    component.only({"type"});
    steps.emplace_back(DecodeFuse{});
  } else if (type == "Replace") {
    component.only({"type", "pattern", "content"});
    const JsonPattern pattern = pattern_of(component["pattern"]);
    if (pattern.regex) component["pattern"].refuse("a String");
    steps.emplace_back(DecodeReplace{pattern.text, component["content"].text()});
  } else if (type == "Strip") {
    component.only({"type", "content", "start", "stop"});
    steps.emplace_back(DecodeStrip{one_character(component["content"]),
                                   static_cast<std::size_t>(component["start"].integer(0, INT32_MAX)),
                                   static_cast<std::size_t>(component["stop"].integer(0, INT32_MAX))});
  } else {
    steps.emplace_back(DecodeMetaspace{blank_of(component), scheme_of(component)});
  }
}

const std::string kConfigFile = "tokenizer_config.json";

struct Vocabulary {
  std::vector<BpeToken> tokens;    // of the model
  std::vector<std::string> texts;  // by id
  bool bytes = false;
  std::size_t other_tokens = 0;  // tokens that aren't of the alphabet of bytes, which no word becomes
};

Vocabulary read_vocabulary(const DocumentValue& value, bool bytes) {
  Vocabulary vocabulary;
  vocabulary.bytes = bytes;
  for (const auto& [text, number] : value.members()) {
    const std::int32_t id = id_of(number);
    set_text(vocabulary.texts, id, text, value.where());
    auto token = bytes ? bytes_of_alphabet(text) : std::optional(text);
    if (token && !text.empty()) {
      vocabulary.tokens.push_back({std::move(*token), id});
    } else {
      ++vocabulary.other_tokens;
    }
  }
  return vocabulary;
}

/// A merge is "a b" or ["a", "b"].
std::pair<std::string, std::string> read_merge(const DocumentValue& value) {
  if (value.is_list()) {
    const auto items = value.items(2, "two tokens");
    return {items[0].text(), items[1].text()};
  }
  std::string text = value.text();
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos) {
    value.refuse("two tokens with a space between them");
  }
  return {text.substr(0, blank), text.substr(blank + 1)};
}

Merges read_merges(const DocumentValue& value, const Vocabulary& vocabulary) {
  Merges merges;
  for (const DocumentValue& item : value.items()) {
    auto merge = read_merge(item);
    if (vocabulary.bytes) {
      auto left = bytes_of_alphabet(merge.first), right = bytes_of_alphabet(merge.second);
      if (!left || !right) {
        if (vocabulary.other_tokens > 0) continue;  // of tokens that no word becomes
        item.refuse("tokens of the alphabet of bytes");
      }
      merge = {std::move(*left), std::move(*right)};
    }
    merges.push_back(std::move(merge));
  }
  return merges;
}

bool has_all_bytes(const Vocabulary& vocabulary) {
  std::size_t single = 0;
  for (const BpeToken& token : vocabulary.tokens) single += token.text.size() == 1 ? 1 : 0;
  return vocabulary.bytes && single == 256;
}

void refuse_text(const DocumentValue& model, std::string_view key) {
  if (const auto value = model.given(key); value && !value->text().empty()) value->refuse("null");
}

BpeModel read_model(const DocumentValue& model, Vocabulary& vocabulary) {
  model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const auto dropout = model.given("dropout")) dropout->number({.least = 0, .most = 0}, "no dropout: null");
  refuse_text(model, "continuing_subword_prefix");
  refuse_text(model, "end_of_word_suffix");
  BpeOptions options{.place = model.where(),
                     .bytes = vocabulary.bytes,
                     .byte_fallback = flag(model, "byte_fallback") && !vocabulary.bytes,
                     .ignore_merges = flag(model, "ignore_merges"),
                     .fuse_unknown = flag(model, "fuse_unk"),
                     .unknown = std::nullopt};
  if (const auto unknown = model.given("unk_token"); unknown && !has_all_bytes(vocabulary)) {
    options.unknown = unknown->text();
  }
  const auto merges = read_merges(model["merges"], vocabulary);
  return {vocabulary.tokens, merges, std::move(options)};
}

AddedToken read_added(const DocumentValue& value) {
  value.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  return {.text = value["content"].text(),
          .id = id_of(value["id"]),
          .special = flag(value, "special"),
          .single_word = flag(value, "single_word"),
          .strip_left = flag(value, "lstrip"),
          .strip_right = flag(value, "rstrip"),
          .normalized = flag(value, "normalized")};
}

std::vector<AddedToken> read_all_added(const DocumentValue& root, Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  const auto list = root.given("added_tokens");
  if (!list) return added;
  const DocumentValue model = root["model"]["vocab"];
  for (const DocumentValue& item : list->items()) {
    AddedToken token = read_added(item);
    if (token.text.empty()) continue;
    const auto same = std::ranges::find(added, token.text, &AddedToken::text);
    std::optional<std::int32_t> told;
    if (same != added.end()) told = same->id;
    if (const auto there = model.find(token.text)) told = id_of(*there);
    if (told && *told != token.id) {
      item["id"].refuse(fmt::format("{}, the id that the file also gives to '{}'", *told, token.text));
    }
    set_text(vocabulary.texts, token.id, token.text, item.place());
    added.push_back(std::move(token));
  }
  return added;
}

/// Refuses ids around a text that have no token.
void expect_tokens(const TextFrame& frame, const Vocabulary& vocabulary, const std::filesystem::path& path) {
  for (const auto* ids : {&frame.before, &frame.after}) {
    for (const std::int32_t id : *ids) {
      const auto index = static_cast<std::size_t>(id);
      if (index < vocabulary.texts.size() && !vocabulary.texts[index].empty()) continue;
      throw UserError(fmt::format("{}: the post_processor puts id {} beside texts", in_quotes(path), id),
                      "the id of a token", kTokenizerFix);
    }
  }
}

}  // namespace

TokenizerPointer load_tokenizer_json(const std::filesystem::path& path, std::string content, const Document& document,
                                     const std::optional<SettingFiles>& settings) {
  const SettingFiles beside = settings.value_or(path.parent_path());
  const DocumentValue root = document.root();
  root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
             "decoder", "model"});
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TextFrame frame;
  Decoder decoder;
  if (const auto version = root.given("version")) version->name_of(Names{"1.0"});
  const DocumentValue model = root["model"];
  if (const auto type = model.given("type")) type->name_of(std::vector<std::string>{"BPE"});
  if (const auto part = root.given("normalizer")) add_normalizer(*part, normalizer);
  if (const auto part = root.given("pre_tokenizer")) add_pre_tokenizer(*part, pre_tokenizer);
  if (const auto part = root.given("post_processor")) add_post_processor(*part, frame);
  if (const auto part = root.given("decoder")) {
    add_decoder(*part, decoder);
  } else {
    decoder.separator = " ";
  }
  Vocabulary vocabulary = read_vocabulary(model["vocab"], pre_tokenizer.bytes);
  BpeModel bpe = read_model(model, vocabulary);
  AddedTokens added(read_all_added(root, vocabulary), normalizer);
  expect_tokens(frame, vocabulary, path);

  TokenizerFacts facts = facts_of(beside,
                                  fmt::format("{} BPE of a {}", pre_tokenizer.bytes ? "byte-level" : "character",
                                              settings ? "GGUF file" : "tokenizer.json"),
                                  vocabulary.texts.size(), {{"tokenizer.json", std::move(content)}});
  const auto id_of_text = [&](std::string_view text) {
    const auto id = added.id_of(text);
    return id ? id : bpe.find(text);
  };
  find_ends(beside, id_of_text, facts);
  const auto text_of = [&](const std::optional<std::int32_t>& id) {
    const bool known = id && *id >= 0 && *id < facts.vocabulary;
    return known ? std::string_view(vocabulary.texts[static_cast<std::size_t>(*id)]) : std::string_view();
  };
  if (std::ranges::find(facts.files, kConfigFile, &TokenizerFile::name) == facts.files.end()) {
    facts.files.push_back({kConfigFile, tokenizer_config_json(text_of(facts.begin), text_of(facts.end))});
  }
  return bpe_tokenizer(std::move(facts), BpeParts{.normalizer = std::move(normalizer),
                                                  .pre_tokenizer = std::move(pre_tokenizer),
                                                  .model = std::move(bpe),
                                                  .added = std::move(added),
                                                  .before = std::move(frame.before),
                                                  .after = std::move(frame.after),
                                                  .decoder = std::move(decoder),
                                                  .texts = std::move(vocabulary.texts)});
}

}  // namespace weft::text
