#include "text/byte_tokenizer.h"

#include <algorithm>

#include "base/hash.h"
#include "text/bpe/bpe_trainer.h"
#include "text/bpe/byte_alphabet.h"

namespace weft::text {
namespace {

TokenizerFacts facts_of_bytes() {
  TokenizerFacts facts;
  facts.kind = "bytes";
  facts.vocabulary = ByteTokenizer::kVocabulary;
  facts.begin = facts.end = ByteTokenizer::kEndOfText;
  facts.digest = Fingerprint().add(std::string_view("weft bytes 257")).value();
  facts.files = {{"tokenizer.json", tokenizer_json_of_bytes()},
                 {"tokenizer_config.json", tokenizer_config_json(text::kEndOfText, text::kEndOfText)}};
  return facts;
}

}  // namespace

ByteTokenizer::ByteTokenizer() : Tokenizer(facts_of_bytes()) {}

void ByteTokenizer::encode(std::string_view text, const EncodeOptions&, std::vector<std::int32_t>& ids) const {
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
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
