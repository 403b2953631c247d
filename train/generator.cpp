#include "train/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "ops/lower.h"
#include "train/step/training_state.h"

namespace weft::train {
namespace {

/// Uniform in [0, 1) with 53 bits; its own Philox site, so that it repeats no draw of the training step.
double draw(std::uint64_t seed, std::uint64_t position) {
  constexpr std::uint32_t kSite = 0x5A3B1E00U;
  const PhiloxBlock block = philox_quad(seed, 0, kSite, position);
  return static_cast<double>(((std::uint64_t{block[0]} << 32) | block[1]) >> 11) * 0x1p-53;
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    throw UserError(fmt::format("temperature {}", options.temperature), "a number from 0 up", "0 is greedy, 1 neutral");
  }
  if (options.top_k < 0)
    throw UserError(fmt::format("top-k {}", options.top_k), "a count; 0 keeps all tokens", "give 0 or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw UserError(fmt::format("top-p {}", options.top_p), "a number in (0, 1]; 1 keeps all tokens", "give 1 or less");
  }
}

std::int32_t Sampler::sample(std::span<const float> logits, std::uint64_t position) {
  std::size_t largest = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id]) || logits[id] == HUGE_VALF) {
      throw RuntimeFault(fmt::format("the logit of token {} is {}: the model's weights are broken", id, logits[id]));
    }
    if (logits[id] > logits[largest]) largest = id;
  }
  if (logits.empty() || std::isinf(logits[largest])) throw RuntimeFault("no token has a finite logit");
  if (options_.temperature == 0) return static_cast<std::int32_t>(largest);

  candidates_.clear();
  for (std::size_t id = 0; id < logits.size(); ++id) {
    candidates_.push_back({static_cast<std::int32_t>(id), static_cast<double>(logits[id])});
  }
  const auto more_probable = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  };
  const auto k = static_cast<std::size_t>(options_.top_k);
  if (k > 0 && k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k) - 1, candidates_.end(),
                     more_probable);
    candidates_.resize(k);
  }
  // Order decides rounding and the draw: most probable first for top-p, by id without it.
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  std::sort(candidates_.begin(), candidates_.end(), by_id);
  double total = 0;
  for (Candidate& candidate : candidates_) {
    // Subtracted before dividing, because a quotient by a tiny temperature may overflow.
    candidate.weight = std::exp((candidate.weight - static_cast<double>(logits[largest])) / options_.temperature);
    total += candidate.weight;
  }
  if (options_.top_p < 1) {
    std::sort(candidates_.begin(), candidates_.end(), more_probable);
    double kept = 0;
    std::size_t count = 0;
    while (count < candidates_.size() && kept < options_.top_p * total) kept += candidates_[count++].weight;
    candidates_.resize(count);
    total = kept;
    std::sort(candidates_.begin(), candidates_.end(), by_id);
  }
  double left = draw(options_.seed, position) * total;
  std::int32_t chosen =
      static_cast<std::int32_t>(largest);  // chosen if rounding leaves a remainder after the last candidate
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight <= 0) continue;
    chosen = candidate.id;
    if (left < candidate.weight) break;
    left -= candidate.weight;
  }
  return chosen;
}

std::int64_t prefill_length(std::int64_t prompt, std::int64_t max_tokens, std::int64_t context) {
  const std::int64_t least = prompt + max_tokens > context ? std::max(prompt, context / 2) : prompt;
  const auto rounded = std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(least, 1)));
  return std::min(context, static_cast<std::int64_t>(rounded));
}

ops::ModelConfig with_short_context(ops::ModelConfig model, std::int64_t tokens) {
  if (!model.parts().learned_positions) model.context = std::min(model.context, std::max<std::int64_t>(1, tokens));
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

void Generator::set_position(std::int64_t position) {
  const execute::State& state = program_.state();
  if (state.contains(ops::names::kPosition)) state.get<std::int64_t>(ops::names::kPosition)[0] = position;
}

std::span<const float> Generator::prefill(std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> padded(tokens.begin(), tokens.end());
  padded.resize(static_cast<std::size_t>(prefill_tokens_));  // tokens after the prompt are never read
  write_ids(program_.state(), ops::names::kPrefillTokens, padded);
  set_position(static_cast<std::int64_t>(tokens.size()) - 1);
  program_.run("prefill");
  return logits();
}

std::span<const float> Generator::decode(std::int32_t token, std::int64_t position) {
  write_ids(program_.state(), ops::names::kDecodeToken, {&token, 1});
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
  text_.assign(prompt.begin(), prompt.end());
  cached_ = static_cast<std::int64_t>(text_.size());
  write(prefill(text_), max_tokens, sampler, on_token);
}

void Generator::go_on(std::span<const std::int32_t> prompt, std::int64_t max_tokens, Sampler& sampler,
                      const std::function<bool(std::int32_t)>& on_token) {
  const auto size = static_cast<std::int64_t>(prompt.size());
  if (size > context_) {
    throw UserError(fmt::format("a text of {} tokens", size), fmt::format("at most {}, the model's context", context_),
                    "begin a new dialogue");
  }
  // The caches begin with the text, but for a text that outgrew the context.
  const auto known = std::ranges::mismatch(prompt, text_).in1 - prompt.begin();
  const std::int64_t same = std::min({static_cast<std::int64_t>(known), cached_, size - 1});
  const bool from_begin = cached_ + 1 >= static_cast<std::int64_t>(text_.size());
  if (same < 1 || !from_begin) return generate(prompt, max_tokens, sampler, on_token);
  text_.assign(prompt.begin(), prompt.end());
  std::span<const float> logits;
  for (cached_ = same; cached_ < size; ++cached_) logits = decode(text_[static_cast<std::size_t>(cached_)], cached_);
  write(logits, max_tokens, sampler, on_token);
}

void Generator::write(std::span<const float> logits, std::int64_t max_tokens, Sampler& sampler,
                      const std::function<bool(std::int32_t)>& on_token) {
  for (std::int64_t i = 0; i < max_tokens; ++i) {
    const std::int32_t token = sampler.sample(logits, text_.size());
    text_.push_back(token);
    if (!on_token(token) || i + 1 == max_tokens) return;
    if (cached_ < context_) {
      logits = decode(token, cached_++);
    } else {
      cached_ = std::max<std::int64_t>(1, context_ / 2);
      logits = prefill(std::span(text_).last(static_cast<std::size_t>(cached_)));
    }
  }
}

}  // namespace weft::train
