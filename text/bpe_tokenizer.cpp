#include "text/bpe_tokenizer.h"

#include <tbb/enumerable_thread_specific.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/utf8.h"
#include "text/bpe/byte_alphabet.h"

namespace weft::text {
namespace {

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(TokenizerFacts facts, BpeParts parts)
      : Tokenizer(std::move(facts)), parts_(std::move(parts)), lexer_(parts_.pre_tokenizer.only_lexer()) {
    const auto& steps = parts_.normalizer.steps;
    const bool only_forms =
        std::ranges::all_of(steps, [](const NormalizerStep& step) { return std::holds_alternative<NormalForm>(step); });
    may_cut_ = lexer_ != nullptr && only_forms && !parts_.added.may_cross_lines();
    const auto& decoders = parts_.decoder.steps;
    if (decoders.size() == 1 && std::holds_alternative<DecodeByteLevel>(decoders.front())) {
      decoded_ = parts_.texts;
      for (std::string& text : decoded_) {
        if (auto bytes = bytes_of_alphabet(text)) text = std::move(*bytes);
      }
    }
  }

  void append(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const override {
    std::string storage;
    const std::string_view valid = valid_utf8(text, storage);
    const bool special = options.special_texts == SpecialTexts::tokens;
    BpeModel::Scratch& scratch = scratch_.local();
    if (options.add_special) ids.insert(ids.end(), parts_.before.begin(), parts_.before.end());
    parts_.added.split(
        valid, false, special,
        [&](std::string_view plain) {
          encode_plain(plain, place_of(plain, valid, options.place), special, scratch, ids);
        },
        [&](const AddedToken& token) { ids.push_back(token.id); });
    if (options.add_special) ids.insert(ids.end(), parts_.after.begin(), parts_.after.end());
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::string bytes;
    std::vector<std::string> tokens;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto index = static_cast<std::size_t>(ids[i]);
      if (ids[i] < 0 || index >= parts_.texts.size() || parts_.texts[index].empty()) refuse_id(i, ids[i]);
      if (skip_special && is_special(ids[i])) continue;
      if (decoded_.empty()) {
        tokens.push_back(parts_.texts[index]);
      } else {
        bytes += decoded_[index];
      }
    }
    return decoded_.empty() ? parts_.decoder(std::move(tokens)) : bytes;
  }

  std::optional<std::string> token_text(std::int32_t id) const override {
    if (id < 0 || static_cast<std::size_t>(id) >= parts_.texts.size()) return std::nullopt;
    const std::string& text = parts_.texts[static_cast<std::size_t>(id)];
    return text.empty() ? std::nullopt : std::optional(text);
  }

  std::optional<std::int32_t> token_id(std::string_view text) const override {
    if (const AddedToken* added = parts_.added.find(text)) return added->id;
    if (!parts_.model.options().bytes) return parts_.model.find(text);
    const auto bytes = bytes_of_alphabet(text);
    return bytes ? parts_.model.find(*bytes) : std::nullopt;
  }

  std::size_t cut_after(std::string_view text, std::size_t from) const override {
    return may_cut_ ? text::cut_after(text, from) : text.size();
  }

 private:
  /// `place`: of the whole.
  static TextPlace place_of(std::string_view part, std::string_view whole, TextPlace place) {
    return part.data() == whole.data() ? place : TextPlace::after_token;
  }

  void encode_plain(std::string_view text, TextPlace place, bool special, BpeModel::Scratch& scratch,
                    std::vector<std::int32_t>& ids) const {
    std::string storage;
    if (!parts_.normalizer.steps.empty()) text = storage = parts_.normalizer(text, place);
    parts_.added.split(
        text, true, special,
        [&](std::string_view plain) { encode_words(plain, place_of(plain, text, place), scratch, ids); },
        [&](const AddedToken& token) { ids.push_back(token.id); });
  }

  void encode_words(std::string_view text, TextPlace place, BpeModel::Scratch& scratch,
                    std::vector<std::int32_t>& ids) const {
    if (lexer_ == nullptr) {
      parts_.pre_tokenizer(text, place, [&](std::string_view word) { parts_.model.encode_text(word, scratch, ids); });
    } else {
      for_each_piece(*lexer_, text, [&](std::string_view word) { parts_.model.encode(word, scratch, ids); });
    }
  }

  bool is_special(std::int32_t id) const {
    const AddedToken* added = parts_.added.find(id);
    return added != nullptr && added->special;
  }

  BpeParts parts_;
  const Lexer* lexer_;  // if it alone cuts the text
  bool may_cut_ = false;
  std::vector<std::string> decoded_;  // the bytes of each id, if they don't depend on its neighbours
  mutable tbb::enumerable_thread_specific<BpeModel::Scratch> scratch_;  // whose words are known from the texts before
};

}  // namespace

TokenizerPointer bpe_tokenizer(TokenizerFacts facts, BpeParts parts) {
  return std::make_shared<BpeTokenizer>(std::move(facts), std::move(parts));
}

}  // namespace weft::text
