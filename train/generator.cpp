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
                                                     std::int64_t prefill_tokens, const graph::Grid& grid,
                                                     const ops::PipelinePart& part,
                                                     const std::shared_ptr<const policy::Policy>& policy) {
  const auto at = [layout = part.layout](std::int64_t pipe) { return ops::PipelinePart{layout, pipe}; };
  const execute::GraphOfStage prefill = [=](std::int64_t pipe) {
    return ops::lower_prefill(model, dtype, prefill_tokens, grid, at(pipe));
  };
  const execute::GraphOfStage decode = [=](std::int64_t pipe) {
    return ops::lower_decode(model, dtype, grid, at(pipe));
  };
  return {{"prefill", prefill(part.pipe), policy, prefill}, {"decode", decode(part.pipe), policy, decode}};
}

Generator::Generator(execute::Program& program, const ops::ModelConfig& model, std::int64_t prefill_tokens)
    : program_(program), context_(model.context), prefill_tokens_(prefill_tokens), vocab_(model.vocab) {}

// There may be padding after the vocabulary.
std::span<const float> Generator::logits() const {
  return program_.state().get<float>(ops::names::kLogits).first(static_cast<std::size_t>(vocab_));
}

// A pipeline's stage has only what its own tasks read.
void Generator::set_position(std::int64_t position) {
  const execute::State& state = program_.state();
  if (state.contains(ops::names::kPosition)) state.get<std::int64_t>(ops::names::kPosition)[0] = position;
}

std::span<const float> Generator::prefill(std::span<const std::int32_t> tokens) {
  const execute::State& state = program_.state();
  if (state.contains(ops::names::kPrefillTokens)) {
    const auto input = state.get<std::int32_t>(ops::names::kPrefillTokens);
    std::fill(input.begin(), input.end(), 0);  // tokens after the prompt are never read
    std::copy(tokens.begin(), tokens.end(), input.begin());
  }
  set_position(static_cast<std::int64_t>(tokens.size()) - 1);
  program_.run("prefill");
  return logits();
}

std::span<const float> Generator::decode(std::int32_t token, std::int64_t position) {
  const execute::State& state = program_.state();
  if (state.contains(ops::names::kDecodeToken)) state.get<std::int32_t>(ops::names::kDecodeToken)[0] = token;
  set_position(position);
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
