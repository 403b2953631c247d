// GPT-2's vocab.json and merges.txt.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "text/bpe/byte_alphabet.h"
#include "text/formats/tokenizer_file.h"

namespace weft::text {
namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

std::string bytes_or_refuse(std::string_view text, const std::string& place) {
  auto bytes = bytes_of_alphabet(text);
  if (!bytes) {
    throw UserError(fmt::format("{}: '{}'", place, text), "a token of GPT-2's alphabet of bytes", kTokenizerFix);
  }
  return std::move(*bytes);
}

/// Lines of two tokens; the first line may be a comment about the version.
Merges read_merge_lines(std::string_view text, const std::filesystem::path& path) {
  Merges merges;
  std::size_t number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (line.empty() || line.starts_with("#version")) continue;
    const std::string place = fmt::format("{} line {}", in_quotes(path), number);
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) {
      throw UserError(fmt::format("{}: '{}'", place, line), "two tokens with a space between them", kTokenizerFix);
    }
    merges.emplace_back(bytes_or_refuse(line.substr(0, blank), place), bytes_or_refuse(line.substr(blank + 1), place));
  }
  return merges;
}

}  // namespace

TokenizerPointer load_gpt2_files(const std::filesystem::path& vocabulary, const std::filesystem::path& merges) {
  constexpr std::string_view kEndOfText = "<|endoftext|>";
  std::string json = read_tokenizer_file(vocabulary), lines = read_tokenizer_file(merges);
  const Document document = read_tokenizer_json(json, vocabulary);
  std::vector<std::string> texts;
  std::vector<BpeToken> tokens;
  std::vector<AddedToken> specials;
  for (const auto& [text, number] : document.root().members()) {
    const auto id = static_cast<std::int32_t>(number.integer(0, std::numeric_limits<std::int32_t>::max()));
    set_text(texts, id, text, in_quotes(vocabulary));
    if (text == kEndOfText) specials.push_back({.text = text, .id = id, .special = true});
    // Tokens of another alphabet, such as "<pad>" in other models' files, are never made of a text.
    if (auto bytes = bytes_of_alphabet(text); bytes && !text.empty()) tokens.push_back({std::move(*bytes), id});
  }
  PreTokenizer pre_tokenizer;
  pre_tokenizer.steps.emplace_back(SplitByLexer{lexer_named("gpt2")});
  pre_tokenizer.bytes = true;
  Decoder decoder;
  decoder.steps.emplace_back(DecodeByteLevel{});

  TokenizerFacts facts;
  facts.kind = "GPT-2's BPE of vocab.json and merges.txt";
  facts.vocabulary = static_cast<std::int32_t>(texts.size());
  BpeModel model(std::move(tokens), read_merge_lines(lines, merges),
                 {.place = in_quotes(merges), .bytes = true, .unknown = std::nullopt});
  AddedTokens added(std::move(specials), [](std::string_view text) { return std::string(text); });
  const TextEnds ends = find_ends(vocabulary.parent_path(), [&](std::string_view name) -> std::optional<std::int32_t> {
    const AddedToken* token = added.find(name);
    return token == nullptr ? std::nullopt : std::optional(token->id);
  });
  facts.begin = ends.begin ? ends.begin : ends.end, facts.end = ends.end;
  facts.digest = digest_of(std::to_string(digest_of(json)) + std::to_string(digest_of(lines)));
  facts.files = with_files_beside(vocabulary, std::move(json));
  facts.files.front().name = "vocab.json";
  facts.files.insert(facts.files.begin() + 1, {"merges.txt", std::move(lines)});
  return std::make_shared<BpeTokenizer>(std::move(facts), BpeParts{.normalizer = {},
                                                                   .pre_tokenizer = std::move(pre_tokenizer),
                                                                   .model = std::move(model),
                                                                   .added = std::move(added),
                                                                   .before = {},
                                                                   .after = {},
                                                                   .decoder = std::move(decoder),
                                                                   .texts = std::move(texts)});
}

}  // namespace weft::text
