// Hugging Face's tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "text/bpe/bpe_trainer.h"
#include "text/bpe/byte_alphabet.h"
#include "text/formats/json_components.h"
#include "text/formats/tokenizer_file.h"

namespace weft::text {
namespace {

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
    const auto id = static_cast<std::int32_t>(number.integer(0, kMostIds));
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

std::vector<std::pair<std::string, std::string>> read_merges(const DocumentValue& value, const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string, std::string>> merges;
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
  if (const auto value = given(model, key); value && !value->text().empty()) value->refuse("null");
}

BpeModel read_model(const DocumentValue& model, Vocabulary& vocabulary) {
  static const std::vector<std::string> known{"BPE"};
  model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (const auto type = given(model, "type")) type->name_of(known);
  if (const auto dropout = given(model, "dropout")) dropout->number({.least = 0, .most = 0}, "no dropout: null");
  refuse_text(model, "continuing_subword_prefix");
  refuse_text(model, "end_of_word_suffix");
  const auto flag = [&](const char* key) {
    const auto value = given(model, key);
    return value && value->boolean();
  };
  BpeOptions options{.place = model.where(),
                     .bytes = vocabulary.bytes,
                     .byte_fallback = flag("byte_fallback") && !vocabulary.bytes,
                     .ignore_merges = flag("ignore_merges"),
                     .fuse_unknown = flag("fuse_unk"),
                     .unknown = std::nullopt};
  if (const auto unknown = given(model, "unk_token"); unknown && !has_all_bytes(vocabulary)) {
    options.unknown = unknown->text();
  }
  const auto merges = read_merges(model["merges"], vocabulary);
  return {vocabulary.tokens, merges, std::move(options)};
}

AddedToken read_added(const DocumentValue& value) {
  value.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  const auto flag = [&](const char* key) {
    const auto given_flag = given(value, key);
    return given_flag && given_flag->boolean();
  };
  return {.text = value["content"].text(),
          .id = static_cast<std::int32_t>(value["id"].integer(0, kMostIds)),
          .special = flag("special"),
          .single_word = flag("single_word"),
          .strip_left = flag("lstrip"),
          .strip_right = flag("rstrip"),
          .normalized = flag("normalized")};
}

std::vector<AddedToken> read_all_added(const DocumentValue& root, Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  const auto list = given(root, "added_tokens");
  if (!list) return added;
  for (const DocumentValue& item : list->items()) {
    AddedToken token = read_added(item);
    if (token.text.empty()) continue;
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

TokenizerPointer load_tokenizer_json(const std::filesystem::path& path, std::string content, const Document& document) {
  const DocumentValue root = document.root();
  root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
             "decoder", "model"});
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TextFrame frame;
  Decoder decoder;
  const DocumentValue model = root["model"];
  if (const auto type = given(model, "type")) type->name_of(std::vector<std::string>{"BPE"});
  if (const auto part = given(root, "normalizer")) add_normalizer(*part, normalizer);
  if (const auto part = given(root, "pre_tokenizer")) add_pre_tokenizer(*part, pre_tokenizer);
  if (const auto part = given(root, "post_processor")) add_post_processor(*part, frame);
  if (const auto part = given(root, "decoder")) {
    add_decoder(*part, decoder);
  } else {
    decoder.separator = " ";
  }
  Vocabulary vocabulary = read_vocabulary(model["vocab"], pre_tokenizer.bytes);
  BpeModel bpe = read_model(model, vocabulary);
  AddedTokens added(read_all_added(root, vocabulary), normalizer);
  expect_tokens(frame, vocabulary, path);

  TokenizerFacts facts;
  facts.kind = fmt::format("{} BPE of a tokenizer.json", pre_tokenizer.bytes ? "byte-level" : "character");
  facts.vocabulary = static_cast<std::int32_t>(vocabulary.texts.size());
  const auto id_of = [&](std::string_view text) -> std::optional<std::int32_t> {
    if (const AddedToken* token = added.find(text)) return token->id;
    return bpe.find(text);
  };
  const TextEnds ends = find_ends(path.parent_path(), id_of);
  facts.begin = ends.begin, facts.end = ends.end;
  facts.digest = digest_of(content);
  facts.files = with_files_beside(path, std::move(content));
  facts.files.front().name = "tokenizer.json";
  const auto text_of = [&](const std::optional<std::int32_t>& id) {
    const bool known = id && *id >= 0 && *id < facts.vocabulary;
    return known ? std::string_view(vocabulary.texts[static_cast<std::size_t>(*id)]) : std::string_view();
  };
  if (std::ranges::find(facts.files, kConfigFile, &TokenizerFile::name) == facts.files.end()) {
    facts.files.push_back({kConfigFile, tokenizer_config_json(text_of(facts.begin), text_of(facts.end))});
  }
  return std::make_shared<BpeTokenizer>(std::move(facts), BpeParts{.normalizer = std::move(normalizer),
                                                                   .pre_tokenizer = std::move(pre_tokenizer),
                                                                   .model = std::move(bpe),
                                                                   .added = std::move(added),
                                                                   .before = std::move(frame.before),
                                                                   .after = std::move(frame.after),
                                                                   .decoder = std::move(decoder),
                                                                   .texts = std::move(vocabulary.texts)});
}

}  // namespace weft::text
