#include "train/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "ops/lower.h"

namespace weft::train {

std::int64_t prefill_length(std::int64_t prompt, std::int64_t max_tokens, std::int64_t context) {
  const std::int64_t least = prompt + max_tokens > context ? std::max(prompt, context / 2) : prompt;
  const auto rounded = std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(least, 1)));
  return std::min(context, static_cast<std::int64_t>(rounded));
}

ops::ModelConfig with_short_context(ops::ModelConfig model, std::int64_t tokens) {
  if (model.family == ops::Family::llama) model.context = std::min(model.context, std::max<std::int64_t>(1, tokens));
  return model;
}

std::vector<execute::ProgramGraph> generation_graphs(const ops::ModelConfig& model, DType dtype,
                                                     std::int64_t prefill_tokens, const graph::Grid& grid) {
  return {{"prefill", ops::lower_prefill(model, dtype, prefill_tokens, grid)},
          {"decode", ops::lower_decode(model, dtype, grid)}};
}

Generator::Generator(execute::Program& program, const ops::ModelConfig& model, std::int64_t prefill_tokens)
    : program_(program), context_(model.context), prefill_tokens_(prefill_tokens), vocab_(model.vocab) {}

// There may be padding after the vocabulary.
std::span<const float> Generator::logits() const {
  return program_.state().get<float>(ops::names::kLogits).first(static_cast<std::size_t>(vocab_));
}

std::span<const float> Generator::prefill(std::span<const std::int32_t> tokens) {
  const auto input = program_.state().get<std::int32_t>(ops::names::kPrefillTokens);
  std::fill(input.begin(), input.end(), 0);  // tokens after the prompt are never read
  std::copy(tokens.begin(), tokens.end(), input.begin());
  program_.state().get<std::int64_t>(ops::names::kPosition)[0] = static_cast<std::int64_t>(tokens.size()) - 1;
  program_.run("prefill");
  return logits();
}

std::span<const float> Generator::decode(std::int32_t token, std::int64_t position) {
  program_.state().get<std::int32_t>(ops::names::kDecodeToken)[0] = token;
  program_.state().get<std::int64_t>(ops::names::kPosition)[0] = position;
  program_.run("decode");
  return logits();
}

void Generator::generate(std::span<const std::int32_t> prompt, std::int64_t max_tokens, Sampler& sampler,
                         const std::function<bool(std::int32_t)>& on_token) {
  if (prompt.empty() || static_cast<std::int64_t>(prompt.size()) > prefill_tokens_) {
    throw UserError(fmt::format("a prompt of {} tokens", prompt.size()), fmt::format("1 to {} tokens", prefill_tokens_),
                    "shorten the prompt");
  }
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  std::int64_t cached = static_cast<std::int64_t>(text.size());  // tokens in the caches
  std::span<const float> logits = prefill(text);
  for (std::int64_t i = 0; i < max_tokens; ++i) {
    const std::int32_t token = sampler.sample(logits, text.size());
    text.push_back(token);
    if (!on_token(token) || i + 1 == max_tokens) return;
    if (cached < context_) {
      logits = decode(token, cached++);
    } else {
      cached = std::max<std::int64_t>(1, context_ / 2);
      logits = prefill(std::span(text).last(static_cast<std::size_t>(cached)));
    }
  }
}

}  // namespace weft::train
