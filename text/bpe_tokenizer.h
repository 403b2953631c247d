// A tokenizer of parts, as Hugging Face's tokenizer.json describes it: normalizer, splitter, BPE, decoder.
#pragma once

#include <tbb/enumerable_thread_specific.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/bpe_model.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/decoder.h"
#include "text/pipeline/normalizer.h"
#include "text/pipeline/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace weft::text {

struct BpeParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  AddedTokens added;
  std::vector<std::int32_t> before, after;  // ids that are put around a text
  Decoder decoder;
  std::vector<std::string> texts;  // of each id, as the files write it; "": no token
};

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(TokenizerFacts facts, BpeParts parts);

  using Tokenizer::encode;
  void encode(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const override;
  std::optional<std::string> token_text(std::int32_t id) const override;
  std::optional<std::int32_t> token_id(std::string_view text) const override;
  bool is_special(std::int32_t id) const override;
  std::size_t cut_after(std::string_view text, std::size_t from) const override;

 private:
  void encode_plain(std::string_view text, bool begins, bool special, BpeModel::Scratch& scratch,
                    std::vector<std::int32_t>& ids) const;
  void encode_words(std::string_view text, bool begins, BpeModel::Scratch& scratch,
                    std::vector<std::int32_t>& ids) const;

  BpeParts parts_;
  const Lexer* lexer_;  // if it alone cuts the text
  bool may_cut_ = false;
  std::vector<std::string> decoded_;  // the bytes of each id, if they don't depend on its neighbours
  mutable tbb::enumerable_thread_specific<BpeModel::Scratch> scratch_;  // whose words are known from the texts before
};

}  // namespace weft::text
