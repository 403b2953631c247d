// A tokenizer.json as GGUF's metadata. What isn't known to mean the same there is refused by name.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/text/json_object.h"
#include "text/bpe/score_merges.h"
#include "text/formats/gguf_patterns.h"
#include "text/formats/gguf_tokenizer.h"
#include "text/formats/tokenizer_file.h"
#include "text/split/lexer.h"

namespace weft::text {
namespace {

constexpr const char* kInGguf = "a tokenizer that GGUF's metadata can say";
constexpr const char* kOtherFormat = "--format hf, which writes the tokenizer as it is";

[[noreturn]] void refuse_part(const std::string& found) {
  throw UserError("the tokenizer has " + found, kInGguf, kOtherFormat);
}

const std::string* content_of(const Tokenizer& tokenizer, std::string_view name) {
  const auto& files = tokenizer.facts().files;
  const auto found = std::ranges::find(files, name, &TokenizerFile::name);
  return found == files.end() ? nullptr : &found->content;
}

/// A component's type and the settings that matter.
std::string type_of_part(const DocumentValue& part) {
  return part["type"].text();
}

bool is_byte_level(const DocumentValue& part, bool use_regex) {
  return type_of_part(part) == "ByteLevel" && !flag(part, "add_prefix_space", true) &&
         flag(part, "use_regex", true) == use_regex;
}

/// The name of a byte-level pre_tokenizer's pattern; "": it isn't known.
std::string_view pattern_name(const DocumentValue& part, bool ignore_merges, bool merges) {
  if (type_of_part(part) == "ByteLevel") {
    if (is_byte_level(part, true)) return gguf_name_of("gpt2", false, ignore_merges);
    return is_byte_level(part, false) && !merges ? "gpt-2" : "";  // bytes alone: cut anywhere
  }
  if (type_of_part(part) != "Sequence") return "";
  const auto parts = part["pretokenizers"].items();
  if (parts.size() != 2) return "";
  if (type_of_part(parts[0]) == "Digits") {
    const bool digits = flag(parts[0], "individual_digits") && is_byte_level(parts[1], true);
    return digits ? gguf_name_of("gpt2", true, ignore_merges) : "";
  }
  if (type_of_part(parts[0]) != "Split" || !is_byte_level(parts[1], false)) return "";
  const auto regex = parts[0]["pattern"].find("Regex");
  const Lexer* lexer = regex ? lexer_of(regex->text()) : nullptr;
  const bool keeps = parts[0]["behavior"].text() == (flag(parts[0], "invert") ? "Removed" : "Isolated");
  return lexer != nullptr && keeps ? gguf_name_of(lexer->name, false, ignore_merges) : "";
}

/// The tokens by id, and their types.
struct GgufTokens {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;

  explicit GgufTokens(std::size_t count)
      : texts(count), types(count, static_cast<std::int32_t>(GgufTokenType::unused)) {}

  void set(const DocumentValue& id, const std::string& text, GgufTokenType type) {
    const auto index = static_cast<std::size_t>(id_of(id));
    if (index >= texts.size()) id.refuse(fmt::format("an id below {}, the model's vocabulary", texts.size()));
    texts[index] = text;
    types[index] = static_cast<std::int32_t>(type);
  }
};

bool is_byte_token(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
}

void refuse_other_settings(const DocumentValue& added) {
  for (const char* key : {"single_word", "lstrip", "rstrip"}) {
    if (flag(added, key)) refuse_part(fmt::format("the token '{}' with {}", added["content"].text(), key));
  }
}

GgufTokens tokens_of(const DocumentValue& root, std::int64_t vocabulary, bool bytes) {
  GgufTokens tokens(static_cast<std::size_t>(vocabulary));
  const std::optional<DocumentValue> unknown = root["model"].given("unk_token");
  for (const auto& [text, id] : root["model"]["vocab"].members()) {
    GgufTokenType type = GgufTokenType::normal;
    if (!bytes && is_byte_token(text)) type = GgufTokenType::byte;
    if (!bytes && unknown && unknown->text() == text) type = GgufTokenType::unknown;
    tokens.set(id, text, type);
  }
  if (const auto added = root.given("added_tokens")) {
    for (const DocumentValue& token : added->items()) {
      refuse_other_settings(token);
      const std::string text = token["content"].text();
      if (!bytes && unknown && unknown->text() == text) continue;
      tokens.set(token["id"], text, flag(token, "special") ? GgufTokenType::control : GgufTokenType::user_defined);
    }
  }
  std::set<std::string_view> known;
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    if (tokens.types[id] == static_cast<std::int32_t>(GgufTokenType::unused))
      tokens.texts[id] = fmt::format("[PAD{}]", id);
    if (!known.insert(tokens.texts[id]).second) refuse_part(fmt::format("two tokens '{}'", tokens.texts[id]));
  }
  return tokens;
}

using MergeTexts = std::vector<std::pair<std::string, std::string>>;

MergeTexts merge_texts(const DocumentValue& merges) {
  MergeTexts texts;
  for (const DocumentValue& merge : merges.items()) {
    if (merge.is_list()) {
      const auto pair = merge.items(2, "two tokens");
      texts.emplace_back(pair[0].text(), pair[1].text());
      continue;
    }
    const std::string text = merge.text();
    const std::size_t blank = text.find(' ');
    if (blank == std::string::npos) merge.refuse("two tokens with a space between them");
    texts.emplace_back(text.substr(0, blank), text.substr(blank + 1));
  }
  return texts;
}

/// The normalizer's part in byte-level tokenizers.
void expect_no_normalizer(const DocumentValue& root) {
  const auto normalizer = root.given("normalizer");
  if (normalizer && type_of_part(*normalizer) != "NFC") refuse_part("the normalizer " + type_of_part(*normalizer));
}

void add_byte_level(const DocumentValue& root, const MergeTexts& merges, GgufMetadata& metadata) {
  expect_no_normalizer(root);
  const bool ignore_merges = flag(root["model"], "ignore_merges");
  const std::string_view name = pattern_name(root["pre_tokenizer"], ignore_merges, !merges.empty());
  if (name.empty()) {
    refuse_part(fmt::format("a pre_tokenizer that isn't one of {}{}", gguf_pattern_names(),
                            ignore_merges ? ", with ignore_merges" : ""));
  }
  std::vector<std::string> texts;
  for (const auto& [left, right] : merges) {
    if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos) {
      refuse_part(fmt::format("the merge of '{}' and '{}'", left, right));
    }
    texts.push_back(left + " " + right);
  }
  metadata.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", name);
  metadata.texts("tokenizer.ggml.merges", texts);
}

/// Whether a tokenizer puts a blank before texts, as SentencePiece does; refuses other forms.
bool has_space_prefix(const DocumentValue& root) {
  const auto pre_tokenizer = root.given("pre_tokenizer"), normalizer = root.given("normalizer");
  if (pre_tokenizer && !normalizer && type_of_part(*pre_tokenizer) == "Metaspace" &&
      !flag(*pre_tokenizer, "split", true)) {
    const auto scheme = pre_tokenizer->given("prepend_scheme");
    const std::string name = scheme                                           ? scheme->text()
                             : flag(*pre_tokenizer, "add_prefix_space", true) ? "always"
                                                                              : "never";
    if (name != "always") return name == "first";
  }
  if (!pre_tokenizer && normalizer && type_of_part(*normalizer) == "Sequence") {
    const auto parts = (*normalizer)["normalizers"].items();
    if (parts.size() == 2 && type_of_part(parts[0]) == "Prepend" && type_of_part(parts[1]) == "Replace") return true;
  }
  refuse_part("a normalizer and a pre_tokenizer of its own");
}

/// A run of merges whose tokens have one score: those of one token, in any order, or those of tokens that come by
/// turns.
struct MergeGroup {
  std::size_t begin = 0, end = 0;
  bool one_token = true;
};

/// The token that each merge makes.
std::vector<std::size_t> made_by(const GgufTokens& tokens, const MergeTexts& merges) {
  std::unordered_map<std::string, std::size_t> ids;
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) ids.emplace(tokens.texts[id], id);
  std::vector<std::size_t> made;
  for (const auto& [left, right] : merges) {
    const auto found = ids.find(left + right);
    if (found == ids.end()) refuse_part(fmt::format("a merge of '{}' and '{}' to no token", left, right));
    made.push_back(found->second);
  }
  return made;
}

std::vector<MergeGroup> groups_of(const std::vector<std::size_t>& made) {
  std::unordered_map<std::size_t, std::size_t> last;  // merge of each token
  for (std::size_t i = 0; i < made.size(); ++i) last[made[i]] = i;
  std::vector<MergeGroup> groups;
  std::size_t reach = 0;  // of the group that is open
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (groups.empty() || i > reach) groups.push_back({i, i, true});
    MergeGroup& group = groups.back();
    group.one_token = group.one_token && made[i] == made[group.begin];
    group.end = i + 1;
    reach = std::max(reach, last[made[i]]);
  }
  return groups;
}

/// Scores whose merges are these: minus the number of the group.
std::vector<float> scores_of(const GgufTokens& tokens, MergeTexts merges) {
  const std::vector<std::size_t> made = made_by(tokens, merges);
  const std::vector<MergeGroup> groups = groups_of(made);
  std::vector<float> scores(tokens.texts.size(), 0.0F);
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = groups[group].begin; i < groups[group].end; ++i)
      scores[made[i]] = -static_cast<float>(group + 1);
  }
  const std::vector<double> numbers(scores.begin(), scores.end());
  MergeTexts meant;
  for (const auto& [left, right] : merges_by_scores(tokens.texts, numbers)) meant.emplace_back(left, right);
  if (meant.size() != merges.size()) refuse_part("merges that no scores of tokens give");
  for (const MergeGroup& group : groups) {
    if (!group.one_token) continue;
    for (MergeTexts* const list : {&meant, &merges}) {
      std::sort(list->begin() + static_cast<std::ptrdiff_t>(group.begin),
                list->begin() + static_cast<std::ptrdiff_t>(group.end));
    }
  }
  if (meant != merges) refuse_part("merges that no scores of tokens give");
  return scores;
}

void add_sentencepiece(const DocumentValue& root, const GgufTokens& tokens, const MergeTexts& merges,
                       GgufMetadata& metadata) {
  const bool prefix = has_space_prefix(root);
  metadata.text("tokenizer.ggml.model", "llama").text("tokenizer.ggml.pre", "default");
  metadata.numbers("tokenizer.ggml.scores", scores_of(tokens, merges));
  metadata.flag("tokenizer.ggml.add_space_prefix", prefix);
  if (const auto unknown = root["model"].given("unk_token")) {
    const auto found = std::ranges::find(tokens.texts, unknown->text());
    if (found == tokens.texts.end()) unknown->refuse("a token of the vocabulary");
    metadata.integer("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(found - tokens.texts.begin()));
  }
}

/// The ids that begin and end texts, and whether they are put around each text.
void add_ends(const Tokenizer& tokenizer, GgufMetadata& metadata) {
  const TokenizerFacts& facts = tokenizer.facts();
  const auto id = [&](const char* key, std::int32_t value) {
    metadata.integer(std::string("tokenizer.ggml.") + key, static_cast<std::uint32_t>(value));
  };
  if (facts.begin) id("bos_token_id", *facts.begin);
  if (facts.end) id("eos_token_id", *facts.end);
  std::vector<std::int32_t> others = facts.ends;
  std::erase(others, facts.end.value_or(-1));
  if (others.size() > 2) refuse_part(fmt::format("{} tokens that end a text", facts.ends.size()));
  if (!others.empty()) id("eot_token_id", others[0]);
  if (others.size() > 1) id("eom_token_id", others[1]);
  std::vector<std::int32_t> frame = tokenizer.encode("");
  const bool before = !frame.empty() && facts.begin == frame.front();
  if (before) frame.erase(frame.begin());
  const bool after = !frame.empty() && facts.end == frame.back();
  if (after) frame.pop_back();
  if (!frame.empty()) refuse_part("other tokens around a text than its begin and end");
  metadata.flag("tokenizer.ggml.add_bos_token", before).flag("tokenizer.ggml.add_eos_token", after);
}

/// The template of chats, wherever a tokenizer's files have it.
std::optional<std::string> template_of(const Tokenizer& tokenizer) {
  if (const std::string* text = content_of(tokenizer, "chat_template.jinja")) return *text;
  const std::string* config = content_of(tokenizer, "tokenizer_config.json");
  if (config == nullptr) return std::nullopt;
  const Document document = read_tokenizer_json(*config, "tokenizer_config.json");
  const auto found = document.root().given("chat_template");
  return found && found->is_text() ? std::optional(found->text()) : std::nullopt;
}

}  // namespace

void add_gguf_tokenizer(const Tokenizer& tokenizer, std::int64_t vocabulary, GgufMetadata& metadata) {
  const std::string* content = content_of(tokenizer, "tokenizer.json");
  if (content == nullptr) refuse_part("no tokenizer.json: it is " + tokenizer.facts().kind);
  const Document document = read_tokenizer_json(*content, "tokenizer.json");
  const DocumentValue root = document.root();
  const MergeTexts merges = merge_texts(root["model"]["merges"]);
  const bool bytes = !flag(root["model"], "byte_fallback");
  const GgufTokens tokens = tokens_of(root, vocabulary, bytes);
  if (bytes) {
    add_byte_level(root, merges, metadata);
  } else {
    add_sentencepiece(root, tokens, merges, metadata);
  }
  metadata.texts("tokenizer.ggml.tokens", tokens.texts).integers("tokenizer.ggml.token_type", tokens.types);
  add_ends(tokenizer, metadata);
  if (const auto chat = template_of(tokenizer)) metadata.text("tokenizer.chat_template", *chat);
}

}  // namespace weft::text
