#include "text/formats/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/utf8.h"
#include "text/formats/json_components.h"
#include "text/formats/tokenizer_file.h"
#include "text/unicode/valid_utf8.h"

namespace weft::text {

struct SentencePieceTokenizer::Model {
  sentencepiece::SentencePieceProcessor processor;
};

namespace {

using Model = SentencePieceTokenizer::Model;

AddedTokens controls_of(const Model& model) {
  std::vector<AddedToken> tokens;
  for (int id = 0; id < model.processor.GetPieceSize(); ++id) {
    if (!model.processor.IsControl(id)) continue;
    tokens.push_back({.text = model.processor.IdToPiece(id), .id = id, .special = true});
  }
  return {std::move(tokens), [](std::string_view text) { return std::string(text); }};
}

/// Of "<0x0A>", a piece for a byte.
char byte_of_piece(const std::string& piece) {
  unsigned value = 0;
  std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  return static_cast<char>(value);
}

std::optional<std::int32_t> given_id(int id) {
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

SentencePieceFrame frame_of(const std::filesystem::path& folder) {
  SentencePieceFrame frame;
  const std::filesystem::path path = folder / "tokenizer_config.json";
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return frame;
  const std::string content = read_tokenizer_file(path);
  const Document document = read_tokenizer_json(content, path);
  if (const auto begin = given(document.root(), "add_bos_token")) frame.begin = begin->boolean();
  if (const auto end = given(document.root(), "add_eos_token")) frame.end = end->boolean();
  return frame;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(TokenizerFacts facts, std::shared_ptr<const Model> model,
                                               SentencePieceFrame frame)
    : Tokenizer(std::move(facts)), model_(std::move(model)), frame_(frame), specials_(controls_of(*model_)) {}

void SentencePieceTokenizer::encode(std::string_view text, const EncodeOptions& options,
                                    std::vector<std::int32_t>& ids) const {
  std::string storage;
  const std::string_view valid = valid_utf8(text, storage);
  if (options.add_special && frame_.begin && this->facts().begin) ids.push_back(*this->facts().begin);
  specials_.split(
      valid, false, options.special_texts == SpecialTexts::tokens,
      [&](std::string_view plain) {
        std::vector<int> pieces;
        const auto status = model_->processor.Encode({plain.data(), plain.size()}, &pieces);
        if (!status.ok()) throw RuntimeFault("SentencePiece: " + status.ToString());
        ids.insert(ids.end(), pieces.begin(), pieces.end());
      },
      [&](const AddedToken& token) { ids.push_back(token.id); });
  if (options.add_special && frame_.end && this->facts().end) ids.push_back(*this->facts().end);
}

/// The library makes U+FFFD of bytes that end within a character; here they stay, for what follows.
std::string SentencePieceTokenizer::decode_plain(std::vector<int> ids) const {
  constexpr std::size_t kMostBytes = 3;  // of a character that isn't complete
  std::string rest;
  for (std::size_t count = 1; count <= std::min(kMostBytes, ids.size()); ++count) {
    std::string bytes;
    for (std::size_t i = ids.size() - count; i < ids.size(); ++i) {
      if (!model_->processor.IsByte(ids[i])) break;
      bytes += byte_of_piece(model_->processor.IdToPiece(ids[i]));
    }
    if (bytes.size() == count && breaks_off(bytes)) rest = bytes;
  }
  ids.resize(ids.size() - rest.size());
  std::string text;
  const auto status = model_->processor.Decode(ids, &text);
  if (!status.ok()) throw RuntimeFault("SentencePiece: " + status.ToString());
  return text + rest;
}

std::string SentencePieceTokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
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
      text += model_->processor.IdToPiece(ids[i]);
    }
  }
  end_plain();
  return text;
}

std::optional<std::string> SentencePieceTokenizer::token_text(std::int32_t id) const {
  if (id < 0 || id >= vocabulary()) return std::nullopt;
  return model_->processor.IdToPiece(id);
}

std::optional<std::int32_t> SentencePieceTokenizer::token_id(std::string_view text) const {
  const int id = model_->processor.PieceToId({text.data(), text.size()});
  return model_->processor.IdToPiece(id) == text ? std::optional<std::int32_t>(id) : std::nullopt;
}

bool SentencePieceTokenizer::is_special(std::int32_t id) const {
  return specials_.find(id) != nullptr;
}

TokenizerPointer load_sentencepiece(const std::filesystem::path& path, std::string content) {
  const auto model = std::make_shared<Model>();
  const auto status = model->processor.LoadFromSerializedProto({content.data(), content.size()});
  if (!status.ok() || model->processor.GetPieceSize() == 0) {
    throw UserError(in_quotes(path) + " isn't read by SentencePiece", "a model of SentencePiece, or tiktoken's ranks",
                    kTokenizerFix);
  }
  TokenizerFacts facts;
  facts.kind = "SentencePiece's model";
  facts.vocabulary = model->processor.GetPieceSize();
  facts.begin = given_id(model->processor.bos_id());
  facts.end = given_id(model->processor.eos_id());
  facts.digest = digest_of(content);
  facts.files = with_files_beside(path, std::move(content));
  facts.files.front().name = "tokenizer.model";
  return std::make_shared<SentencePieceTokenizer>(std::move(facts), model, frame_of(path.parent_path()));
}

}  // namespace weft::text
