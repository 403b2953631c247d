// Tokenizers of bytes: GPT-2's vocab.json and merges.txt, tiktoken's files of ranks, and Mistral's tekken.json, which
// holds ranks too.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/text/escape.h"
#include "base/units.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe_tokenizer.h"
#include "text/formats/tokenizer_file.h"

namespace weft::text {
namespace {

/// A tokenizer of bytes, whose texts begin with their begin or else with the end of the one before. A splitter makes
/// words of a text. `texts`: of each id.
struct ByteVocabulary {
  BpeModel model;
  std::vector<AddedToken> specials;
  SplitStep split;
  std::vector<std::string> texts;
  std::vector<std::int32_t> before = {};
};

TokenizerPointer byte_tokenizer(const std::filesystem::path& path, std::string kind, std::vector<TokenizerFile> own,
                                ByteVocabulary vocabulary) {
  AddedTokens added(std::move(vocabulary.specials));
  TokenizerFacts facts = facts_of(path.parent_path(), std::move(kind), vocabulary.texts.size(), std::move(own));
  const auto id_of_text = [&](std::string_view name) {
    const auto id = added.id_of(name);
    return id ? id : vocabulary.model.find(name);
  };
  find_ends(path.parent_path(), id_of_text, facts);
  if (!facts.begin) facts.begin = facts.end;
  return bpe_tokenizer(std::move(facts),
                       BpeParts{.normalizer = {},
                                .pre_tokenizer = {.steps = {std::move(vocabulary.split)}, .bytes = true},
                                .model = std::move(vocabulary.model),
                                .added = std::move(added),
                                .before = std::move(vocabulary.before),
                                .after = {},
                                .decoder = {.steps = {DecodeByteLevel{}}, .separator = ""},
                                .texts = std::move(vocabulary.texts)});
}

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

AddedToken special_token(std::string text, std::int32_t id) {
  return {.text = std::move(text), .id = id, .special = true};
}

/// Meta's tokenizer of Llama 3: ten named places among 256.
std::vector<AddedToken> llama3_specials() {
  constexpr std::int32_t kFirst = 128000, kCount = 256;
  constexpr std::array<std::string_view, 10> kNames = {
      "<|begin_of_text|>",   "<|end_of_text|>",   "", "",          "", "",
      "<|start_header_id|>", "<|end_header_id|>", "", "<|eot_id|>"};
  std::vector<AddedToken> tokens;
  int reserved = 0;
  for (std::int32_t i = 0; i < kCount; ++i) {
    const std::string_view name =
        static_cast<std::size_t>(i) < kNames.size() ? kNames[static_cast<std::size_t>(i)] : "";
    tokens.push_back(special_token(
        name.empty() ? fmt::format("<|reserved_special_token_{}|>", reserved++) : std::string(name), kFirst + i));
  }
  return tokens;
}

/// A file of ranks names neither its pattern nor its special tokens: the number of its ranks tells the vocabulary.
struct KnownRanks {
  std::size_t ranks;
  std::string_view name;
  std::string_view lexer;
  std::vector<AddedToken> specials;
  bool begins = false;  // the first of them comes before each text
};

const std::vector<KnownRanks>& known_ranks() {
  const auto end_of_text = [](std::int32_t id) { return special_token("<|endoftext|>", id); };
  static const std::vector<KnownRanks> known{
      {50256, "r50k_base", "gpt2", {end_of_text(50256)}},
      {50280, "p50k_base", "gpt2", {end_of_text(50256)}},
      {100256,
       "cl100k_base",
       "cl100k",
       {end_of_text(100257), special_token("<|fim_prefix|>", 100258), special_token("<|fim_middle|>", 100259),
        special_token("<|fim_suffix|>", 100260), special_token("<|endofprompt|>", 100276)}},
      {199998, "o200k_base", "o200k", {end_of_text(199999), special_token("<|endofprompt|>", 200018)}},
      {128000, "Llama 3", "llama3", llama3_specials(), true},  // as Meta's code does
      {151643,
       "Qwen",
       "qwen2",
       {end_of_text(151643), special_token("<|im_start|>", 151644), special_token("<|im_end|>", 151645)}},
  };
  return known;
}

std::optional<BpeToken> read_rank_line(std::string_view line) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  auto bytes = base64_decoded(line.substr(0, blank));
  if (!bytes || bytes->empty()) return std::nullopt;
  const auto rank = number_in<std::int32_t>(line.substr(blank + 1));
  return rank ? std::optional(BpeToken{std::move(*bytes), *rank}) : std::nullopt;
}

/// Ranks ascend; a special token may stand between two of them.
std::vector<BpeToken> read_ranks(std::string_view text, const std::filesystem::path& path) {
  std::vector<BpeToken> ranks;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    ++number;
    if (line.empty()) continue;
    auto read = read_rank_line(line);
    if (!read || read->id < 0 || (!ranks.empty() && read->id <= ranks.back().id)) {
      throw UserError(fmt::format("{} line {}: '{}'", in_quotes(path), number, line),
                      "a token's bytes in base64, a space, and its rank, which is above those before", kTokenizerFix);
    }
    ranks.push_back(std::move(*read));
  }
  return ranks;
}

/// The special tokens that tekken.json of the first version doesn't list.
constexpr std::string_view kTekkenSpecials =
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] "
    "[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]";

std::vector<AddedToken> tekken_specials(const DocumentValue& root, std::int32_t count) {
  std::vector<AddedToken> tokens;
  for (std::int32_t id = 0; id < count; ++id) {
    tokens.push_back(special_token(fmt::format("<SPECIAL_{}>", id), id));
  }
  if (const auto listed = root.given("special_tokens")) {
    std::unordered_set<std::int64_t> ranks;
    std::unordered_set<std::string> texts;
    for (const DocumentValue& item : listed->items()) {
      const std::int64_t rank = item["rank"].integer(0, count - 1);
      const std::string text = item["token_str"].text();
      if (!ranks.insert(rank).second) item["rank"].refuse("another rank than those above");
      if (!texts.insert(text).second) item["token_str"].refuse("another text than those above");
      tokens[static_cast<std::size_t>(rank)].text = text;
    }
    return tokens;
  }
  std::istringstream names{std::string(kTekkenSpecials)};
  std::string name;
  for (std::size_t id = 0; id < tokens.size() && names >> name; ++id) tokens[id].text = name;
  return tokens;
}

/// tiktoken's rule for tokens of bytes in the order of their ranks, which `specials` follow or precede.
ByteVocabulary ranked(std::vector<BpeToken> tokens, std::vector<AddedToken> specials, SplitStep split,
                      const std::string& place) {
  std::vector<std::string> texts;
  std::unordered_set<std::string_view> seen;
  for (const BpeToken& token : tokens) {
    if (!seen.insert(token.text).second) {
      throw UserError(
          fmt::format("{}: '{}' has rank {}, and one before", place, in_byte_alphabet(token.text), token.id),
          "each token once", kTokenizerFix);
    }
    set_text(texts, token.id, in_byte_alphabet(token.text), place);
  }
  for (int byte = 0; byte < 256 && tokens.size() >= 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (seen.contains(std::string_view(&text, 1))) continue;
    throw UserError(fmt::format("{} has no token for the byte 0x{:02X}", place, byte),
                    "a token for each byte: texts with it would lose it", kTokenizerFix);
  }
  for (const AddedToken& special : specials) set_text(texts, special.id, special.text, place);
  BpeModel model = BpeModel::of_ranks(std::move(tokens),
                                      {.place = place, .bytes = true, .ignore_merges = true, .unknown = std::nullopt});
  return {std::move(model), std::move(specials), std::move(split), std::move(texts)};
}

}  // namespace

TokenizerPointer load_gpt2_files(const std::filesystem::path& vocabulary, const std::filesystem::path& merges) {
  std::string json = read_tokenizer_file(vocabulary), lines = read_tokenizer_file(merges);
  const Document document = read_tokenizer_json(json, vocabulary);
  expect_none_added(vocabulary.parent_path(), [&](std::string_view text) {
    const auto number = document.root().find(text);
    return number ? std::optional(id_of(*number)) : std::nullopt;
  });
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

bool is_tiktoken(std::string_view content) {
  const auto line = read_rank_line(next_line(content));
  return line && line->id == 0;
}

TokenizerPointer load_tiktoken(const std::filesystem::path& path, std::string content) {
  std::vector<BpeToken> tokens = read_ranks(content, path);
  const auto& all = known_ranks();
  const auto known = std::ranges::find(all, tokens.size(), &KnownRanks::ranks);
  if (known == all.end()) {
    std::vector<std::string> names;
    for (const KnownRanks& each : all) names.push_back(fmt::format("{} ({})", each.ranks, each.name));
    throw UserError(fmt::format("{} has {} ranks", in_quotes(path), tokens.size()),
                    "a file whose number of ranks tells its pattern and special tokens: " + join(names),
                    "use the tokenizer.json of this model");
  }
  const std::int64_t between =
      std::ranges::count_if(known->specials, [&](const AddedToken& token) { return token.id < tokens.back().id; });
  if (const auto last = static_cast<std::int64_t>(tokens.size()) - 1 + between; tokens.back().id != last) {
    throw UserError(
        fmt::format("{} has {} ranks, and {} is the last", in_quotes(path), tokens.size(), tokens.back().id),
        fmt::format("each rank up to {}", last), "copy or make the file again");
  }
  ByteVocabulary vocabulary =
      ranked(std::move(tokens), known->specials, SplitByLexer{lexer_named(known->lexer)}, in_quotes(path));
  if (known->begins) vocabulary.before.push_back(known->specials.front().id);
  return byte_tokenizer(path, fmt::format("tiktoken's BPE of {}", known->name),
                        {{path.filename().string(), std::move(content)}}, std::move(vocabulary));
}

TokenizerPointer load_tekken(const std::filesystem::path& path, std::string content, const Document& document) {
  constexpr std::int64_t kMostTokens = 1 << 22;
  const DocumentValue root = document.root(), config = root["config"];
  if (const auto version = config.given("version")) {
    version->name_of(std::vector<std::string>{"v1", "v2", "v3", "v7", "v11", "v13", "v15"});
  }
  const std::int64_t size = config["default_vocab_size"].integer(1, kMostTokens);
  const std::int64_t specials = config["default_num_special_tokens"].integer(3, size);
  const auto listed = root["vocab"].items();
  const auto ranks = static_cast<std::size_t>(size - specials);
  if (listed.size() < ranks) root["vocab"].refuse(fmt::format("{} tokens", ranks));
  std::vector<BpeToken> tokens;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const DocumentValue& token = listed[rank];
    const auto expected = static_cast<std::int64_t>(rank);
    token["rank"].integer(expected, expected);
    auto bytes = base64_decoded(token["token_bytes"].text());
    if (!bytes || bytes->empty()) token["token_bytes"].refuse("a token's bytes in base64");
    tokens.push_back({std::move(*bytes), static_cast<std::int32_t>(specials + expected)});
  }
  const std::string expression = config["pattern"].text();
  SplitStep split = SplitByLexer{lexer_of(expression)};
  if (lexer_of(expression) == nullptr) {
    split = SplitByPattern{Pattern(expression, RegexFlavour::rust, config.place()), Matches::removed, true};
  }
  ByteVocabulary vocabulary = ranked(std::move(tokens), tekken_specials(root, static_cast<std::int32_t>(specials)),
                                     std::move(split), in_quotes(path));
  vocabulary.before.push_back(1);  // <s>, which Mistral's code puts before each text
  return byte_tokenizer(path, "Mistral's BPE of a tekken.json", {{path.filename().string(), std::move(content)}},
                        std::move(vocabulary));
}

}  // namespace weft::text
