#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "text/bpe/bpe_trainer.h"
#include "text/bpe/byte_alphabet.h"

namespace weft::text {
namespace {

constexpr std::size_t kMostIds = 64, kKeptIds = 4;  // kept: as many as a character's bytes

/// Bytes without an incomplete character at the end.
std::size_t complete_bytes(std::string_view text) {
  constexpr std::size_t kMostMissing = 3;
  for (std::size_t size = 1; size <= std::min(kMostMissing, text.size()); ++size) {
    if (breaks_off(text.substr(text.size() - size))) return text.size() - size;
  }
  return text.size();
}

TokenizerFacts facts_of_bytes(std::span<const std::int32_t> ends) {
  TokenizerFacts facts;
  facts.kind = "bytes";
  facts.vocabulary = ByteTokenizer::kVocabulary;
  facts.begin = facts.end = ByteTokenizer::kEndOfText;
  facts.ends = {ByteTokenizer::kEndOfText};
  std::ranges::remove_copy(ends, std::back_inserter(facts.ends), ByteTokenizer::kEndOfText);
  facts.digest = Fingerprint().add(std::string_view("weft bytes 257")).value();
  facts.files = {{"tokenizer.json", tokenizer_json_of_bytes()},
                 {"tokenizer_config.json", tokenizer_config_json(text::kEndOfText, text::kEndOfText)}};
  return facts;
}

}  // namespace

bool TokenizerFacts::is_end(std::int32_t id) const {
  return std::ranges::find(ends, id) != ends.end();
}

Tokenizer::Tokenizer(TokenizerFacts facts) : facts_(std::move(facts)) {}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  append(text, options, ids);
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_prompt(std::string_view text) const {
  std::vector<std::int32_t> ids = encode(text, {.add_special = false});
  const auto separator = facts_.separator();
  if (separator && (ids.empty() || ids.front() != *separator)) ids.insert(ids.begin(), *separator);
  return ids;
}

std::size_t Tokenizer::cut_after(std::string_view text, std::size_t) const {
  return text.size();
}

void Tokenizer::refuse_id(std::size_t position, std::int32_t id) const {
  throw UserError(fmt::format("token {} has id {}", position, id),
                  fmt::format("an id of the tokenizer's vocabulary, which has {} ({})", facts_.vocabulary, facts_.kind),
                  "decode these tokens with the tokenizer they were made with");
}

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const std::int32_t> before)
    : tokenizer_(tokenizer), ids_(before.last(std::min(before.size(), kKeptIds)).begin(), before.end()) {
  std::erase_if(ids_, [&](std::int32_t id) { return !tokenizer_.token_text(id); });
  shown_ = tokenizer_.decode(ids_).size();
}

std::string TextStream::add(std::int32_t id) {
  if (!tokenizer_.token_text(id)) return "";
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_);
  const std::size_t complete = std::max(complete_bytes(text), std::min(shown_, text.size()));
  std::string fresh = text.substr(std::min(shown_, complete), complete - std::min(shown_, complete));
  shown_ = complete;
  if (ids_.size() >= kMostIds && complete == text.size()) {
    // The ids whose text is out are needed no more, but for those beside the next one.
    ids_.erase(ids_.begin(), ids_.end() - static_cast<std::ptrdiff_t>(kKeptIds));
    shown_ = tokenizer_.decode(ids_).size();
  }
  return fresh;
}

std::string TextStream::finish() {
  const std::string text = tokenizer_.decode(ids_);
  std::string rest = text.substr(std::min(shown_, text.size()));
  shown_ = text.size();
  return rest;
}

ByteTokenizer::ByteTokenizer(std::span<const std::int32_t> ends) : Tokenizer(facts_of_bytes(ends)) {}

void ByteTokenizer::append(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const {
  ids.reserve(ids.size() + text.size());
  const bool special = options.special_texts == SpecialTexts::tokens;
  while (!text.empty()) {
    const bool ends = special && text.starts_with(text::kEndOfText);
    ids.push_back(ends ? kEndOfText : static_cast<unsigned char>(text.front()));
    text.remove_prefix(ends ? text::kEndOfText.size() : 1);
  }
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string text;
  text.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= kVocabulary) refuse_id(i, ids[i]);
    if (ids[i] != kEndOfText) {
      text.push_back(static_cast<char>(ids[i]));
    } else if (!skip_special) {
      text.append(text::kEndOfText);
    }
  }
  return text;
}

std::optional<std::string> ByteTokenizer::token_text(std::int32_t id) const {
  if (id < 0 || id >= kVocabulary) return std::nullopt;
  if (id == kEndOfText) return std::string(text::kEndOfText);
  const char byte = static_cast<char>(id);
  return in_byte_alphabet({&byte, 1});
}

std::optional<std::int32_t> ByteTokenizer::token_id(std::string_view text) const {
  if (text == text::kEndOfText) return kEndOfText;
  const auto bytes = bytes_of_alphabet(text);
  if (!bytes || bytes->size() != 1) return std::nullopt;
  return static_cast<unsigned char>(bytes->front());
}

std::size_t ByteTokenizer::cut_after(std::string_view text, std::size_t from) const {
  return std::min(text.size(), from + 1);
}

}  // namespace weft::text
