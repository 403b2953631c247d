#include "text/tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace weft::text {

Tokenizer::Tokenizer(TokenizerFacts facts) : facts_(std::move(facts)) {}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  encode(text, options, ids);
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

}  // namespace weft::text
