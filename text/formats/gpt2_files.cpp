// GPT-2's vocab.json and merges.txt.
#include <fmt/format.h>

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
    const std::string_view line = next_line(text);
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
  std::string json = read_tokenizer_file(vocabulary), lines = read_tokenizer_file(merges);
  const Document document = read_tokenizer_json(json, vocabulary);
  std::vector<std::string> texts;
  std::vector<BpeToken> tokens;
  std::vector<AddedToken> specials;
  for (const auto& [text, number] : document.root().members()) {
    const std::int32_t id = id_of(number);
    set_text(texts, id, text, in_quotes(vocabulary));
    if (text == kEndOfText) specials.push_back({.text = text, .id = id, .special = true});
    // Tokens of another alphabet, such as "<pad>" in other models' files, are never made of a text.
    if (auto bytes = bytes_of_alphabet(text); bytes && !text.empty()) tokens.push_back({std::move(*bytes), id});
  }
  BpeModel model(std::move(tokens), read_merge_lines(lines, merges),
                 {.place = in_quotes(merges), .bytes = true, .unknown = std::nullopt});
  return byte_tokenizer(vocabulary, "GPT-2's BPE of vocab.json and merges.txt",
                        {{"vocab.json", std::move(json)}, {"merges.txt", std::move(lines)}},
                        {std::move(model), std::move(specials), SplitByLexer{lexer_named("gpt2")}, std::move(texts)});
}

}  // namespace weft::text
