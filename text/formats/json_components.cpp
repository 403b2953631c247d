#include "text/formats/json_components.h"

#include <array>
#include <limits>
#include <string>

#include "base/utf8.h"
#include "text/formats/tokenizer_file.h"
#include "text/split/lexer.h"
#include "text/unicode/char_class.h"

namespace weft::text {
namespace {

using Names = std::vector<std::string>;

bool flag(const DocumentValue& object, std::string_view key, bool otherwise) {
  const auto value = given(object, key);
  return value ? value->boolean() : otherwise;
}

/// A text that isn't empty.
std::string some_text(const DocumentValue& value) {
  std::string text = value.text();
  if (text.empty()) value.refuse("a text that isn't empty");
  return text;
}

/// A pattern is {"Regex": "…"} or {"String": "…"}.
struct JsonPattern {
  std::string text;
  bool regex = false;
};

JsonPattern pattern_of(const DocumentValue& value) {
  value.only({"Regex", "String"});
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
  const std::string name = value.name_of(names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return kMatches[i];
  }
  return Matches::isolated;
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
  if (const Lexer* lexer = lexer_of(pattern.text); lexer != nullptr && keeps_matches) {
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
  const auto scheme = given(component, "prepend_scheme");
  if (!scheme) return prefix ? PrefixScheme::always : PrefixScheme::never;
  const std::string name = scheme->name_of(Names{"always", "first", "never"});
  return name == "always" ? PrefixScheme::always : (name == "first" ? PrefixScheme::first : PrefixScheme::never);
}

std::string blank_of(const DocumentValue& component) {
  component.only({"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"});
  return some_text(component["replacement"]);
}

std::vector<DocumentValue> parts_of(const DocumentValue& sequence, std::string_view key) {
  sequence.only({"type", std::string(key)});
  return sequence[key].items();
}

std::int32_t id_of(const DocumentValue& value) {
  return static_cast<std::int32_t>(value.integer(0, kMostIds));
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
      if (behind) sequence->refuse("one text in the template");
      behind = true;
      continue;
    }
    const std::string name = piece["SpecialToken"]["id"].text();
    for (const DocumentValue& id : component["special_tokens"][name]["ids"].items()) {
      (behind ? frame.after : frame.before).push_back(id_of(id));
    }
  }
}

}  // namespace

std::optional<DocumentValue> given(const DocumentValue& object, std::string_view key) {
  auto value = object.find(key);
  if (value && value->is_null()) return std::nullopt;
  return value;
}

void add_normalizer(const DocumentValue& component, Normalizer& normalizer) {
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
      steps.emplace_back(type == "NFC"    ? NormalForm::nfc
                         : type == "NFD"  ? NormalForm::nfd
                         : type == "NFKC" ? NormalForm::nfkc
                                          : NormalForm::nfkd);
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
    steps.emplace_back(SplitByText{some_text(component["delimiter"]), Matches::removed, false});
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
    steps.emplace_back(DecodeByteLevel{});
  } else if (type == "ByteFallback") {
    steps.emplace_back(DecodeByteFallback{});
  } else if (type == "Fuse") {
    steps.emplace_back(DecodeFuse{});
  } else if (type == "Replace") {
    component.only({"type", "pattern", "content"});
    const JsonPattern pattern = pattern_of(component["pattern"]);
    if (pattern.regex) component["pattern"].refuse("a String");
    steps.emplace_back(DecodeReplace{pattern.text, component["content"].text()});
  } else if (type == "Strip") {
    component.only({"type", "content", "start", "stop"});
    steps.emplace_back(DecodeStrip{some_text(component["content"]),
                                   static_cast<std::size_t>(component["start"].integer(0, kMostIds)),
                                   static_cast<std::size_t>(component["stop"].integer(0, kMostIds))});
  } else {
    steps.emplace_back(DecodeMetaspace{blank_of(component), scheme_of(component)});
  }
}

}  // namespace weft::text
