// SentencePiece's models (tokenizer.model), by its library.
#pragma once

#include <memory>

#include "text/pipeline/added_tokens.h"
#include "text/tokenizer.h"

namespace weft::text {

/// The ids that are put around a text.
struct SentencePieceFrame {
  bool begin = true, end = false;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  /// The model loaded by the library.
  struct Model;

  SentencePieceTokenizer(TokenizerFacts facts, std::shared_ptr<const Model> model, SentencePieceFrame frame);

  using Tokenizer::encode;
  void encode(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const override;
  std::optional<std::string> token_text(std::int32_t id) const override;
  std::optional<std::int32_t> token_id(std::string_view text) const override;
  bool is_special(std::int32_t id) const override;

 private:
  std::string decode_plain(std::vector<int> ids) const;

  std::shared_ptr<const Model> model_;
  SentencePieceFrame frame_;
  AddedTokens specials_;  // control tokens, whose texts the library takes as plain
};

}  // namespace weft::text
