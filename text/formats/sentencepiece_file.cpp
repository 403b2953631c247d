// SentencePiece's models (tokenizer.model), by its library.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/utf8.h"
#include "text/formats/tokenizer_file.h"
#include "text/pipeline/pipeline.h"
#include "text/tokenizer.h"

namespace weft::text {

namespace {

using sentencepiece::SentencePieceProcessor;

/// The ids that are put around a text.
struct Frame {
  bool begin = true, end = false;
};

AddedTokens controls_of(const SentencePieceProcessor& model) {
  std::vector<AddedToken> tokens;
  for (int id = 0; id < model.GetPieceSize(); ++id) {
    if (model.IsControl(id)) tokens.push_back({.text = model.IdToPiece(id), .id = id, .special = true});
  }
  return AddedTokens(std::move(tokens));
}

std::optional<std::int32_t> given_id(int id) {
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

Frame frame_of(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer_config.json";
  if (!is_file(path)) return {};
  const std::string content = read_tokenizer_file(path);
  const Document document = read_tokenizer_json(content, path);
  return {flag(document.root(), "add_bos_token", true), flag(document.root(), "add_eos_token")};
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(TokenizerFacts facts, std::unique_ptr<const SentencePieceProcessor> model, Frame frame)
      : Tokenizer(std::move(facts)), model_(std::move(model)), frame_(frame), specials_(controls_of(*model_)) {}

  void append(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const override {
    std::string storage;
    const std::string_view valid = valid_utf8(text, storage);
    if (options.add_special && frame_.begin && facts().begin) ids.push_back(*facts().begin);
    specials_.split(
        valid, false, options.special_texts == SpecialTexts::tokens,
        [&](std::string_view plain) {
          std::vector<int> pieces;
          const auto status = model_->Encode({plain.data(), plain.size()}, &pieces);
          if (!status.ok()) throw RuntimeFault("SentencePiece: " + status.ToString());
          ids.insert(ids.end(), pieces.begin(), pieces.end());
        },
        [&](const AddedToken& token) { ids.push_back(token.id); });
    if (options.add_special && frame_.end && facts().end) ids.push_back(*facts().end);
  }

  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::string text;
    std::vector<int> plain;
    const auto end_plain = [&] {
      if (!plain.empty()) text += decode_plain(std::exchange(plain, {}));
    };
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= vocabulary()) refuse_id(i, ids[i]);
      if (!is_special(ids[i])) {
        plain.push_back(ids[i]);
      } else if (!skip_special) {
        end_plain();
        text += model_->IdToPiece(ids[i]);
      }
    }
    end_plain();
    return text;
  }

  std::optional<std::string> token_text(std::int32_t id) const override {
    if (id < 0 || id >= vocabulary()) return std::nullopt;
    return model_->IdToPiece(id);
  }

  std::optional<std::int32_t> token_id(std::string_view text) const override {
    const int id = model_->PieceToId({text.data(), text.size()});
    return model_->IdToPiece(id) == text ? std::optional<std::int32_t>(id) : std::nullopt;
  }

 private:
  bool is_special(std::int32_t id) const { return specials_.find(id) != nullptr; }

  /// The library makes U+FFFD of bytes that end within a character; here they stay, for what follows.
  std::string decode_plain(std::vector<int> ids) const {
    constexpr std::size_t kMostBytes = 3;  // of a character that isn't complete
    std::string rest;
    for (std::size_t count = 1; count <= std::min(kMostBytes, ids.size()); ++count) {
      std::string bytes;
      for (std::size_t i = ids.size() - count; i < ids.size(); ++i) {
        if (!model_->IsByte(ids[i])) break;
        bytes += byte_of_fallback(model_->IdToPiece(ids[i])).value_or('\0');
      }
      if (bytes.size() == count && breaks_off(bytes)) rest = bytes;
    }
    ids.resize(ids.size() - rest.size());
    std::string text;
    const auto status = model_->Decode(ids, &text);
    if (!status.ok()) throw RuntimeFault("SentencePiece: " + status.ToString());
    return text + rest;
  }

  std::unique_ptr<const SentencePieceProcessor> model_;
  Frame frame_;
  AddedTokens specials_;  // control tokens, whose texts the library takes as plain
};

}  // namespace

TokenizerPointer load_sentencepiece(const std::filesystem::path& path, std::string content) {
  auto model = std::make_unique<SentencePieceProcessor>();
  const auto status = model->LoadFromSerializedProto({content.data(), content.size()});
  if (!status.ok() || model->GetPieceSize() == 0) {
    throw UserError(in_quotes(path) + " isn't read by SentencePiece", "a model of SentencePiece, or tiktoken's ranks",
                    kTokenizerFix);
  }
  TokenizerFacts facts = facts_of(path, "SentencePiece's model", static_cast<std::size_t>(model->GetPieceSize()),
                                  {{"tokenizer.model", std::move(content)}});
  facts.begin = given_id(model->bos_id());
  facts.end = given_id(model->eos_id());
  return std::make_shared<SentencePieceTokenizer>(std::move(facts), std::move(model), frame_of(path.parent_path()));
}

}  // namespace weft::text
