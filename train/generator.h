// Text from a model: a prefill graph reads the prompt, a decode graph adds one token at a time with a KV cache. Each
// token is drawn from a row of logits, under temperature, top-k and top-p.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ops/model_config.h"
#include "ops/pipeline_layout.h"
#include "runtime/execute/program/program.h"

namespace weft::train {

struct SamplerOptions {
  double temperature = 1.0;  // 0: the largest logit, lowest id on ties
  std::int64_t top_k = 0;    // only the k largest logits; 0: all
  double top_p = 1.0;        // only the fewest most probable tokens that hold this much probability together
  std::uint64_t seed = 42;
};

/// A pure function of (options, logits, position), so a text can be repeated with its seed. It is a class because it
/// keeps its scratch memory: after the first call of a vocabulary size nothing is allocated.
///
/// The filters work in this order: logits / temperature, top-k, softmax over what is left, top-p over that softmax.
/// Ties at either cut keep the lower id.
class Sampler {
 public:
  /// Throws UserError on a negative or non-finite temperature, a negative k, or p outside (0, 1].
  explicit Sampler(const SamplerOptions& options);

  /// `logits`: one float a token id, without vocabulary padding. `position`: index of the drawn token in its text.
  /// Throws RuntimeFault on a NaN or +inf logit (a broken model), naming the id; −inf is a token never drawn.
  std::int32_t sample(std::span<const float> logits, std::uint64_t position);

 private:
  struct Candidate {
    std::int32_t id = 0;
    double weight = 0;  // logit, then unnormalised probability
  };

  SamplerOptions options_;
  std::vector<Candidate> candidates_;
};

/// The number of tokens of a prefill for a text of `prompt + max_tokens` tokens with `context` positions: the prompt,
/// or, if the text will outgrow the context, at least half of the context, which is then read again.
std::int64_t prefill_length(std::int64_t prompt, std::int64_t max_tokens, std::int64_t context);

/// The model with a context, and so KV caches, no longer than a text of `tokens` needs. Learned positions keep theirs:
/// their table is a parameter.
ops::ModelConfig with_short_context(ops::ModelConfig model, std::int64_t tokens);

/// The graphs "prefill" and "decode" of a model, for Program. `policy`: see ProgramGraph.
std::vector<execute::ProgramGraph> generation_graphs(const ops::ModelConfig& model, DType dtype,
                                                     std::int64_t prefill_tokens, const graph::Grid& grid = {},
                                                     const ops::PipelinePart& part = {},
                                                     const std::shared_ptr<const policy::Policy>& policy = nullptr);

/// Generates with the program's parameters as they are. On a grid whose ranks share a model all of them generate, the
/// same text with the same sampler. When a text reaches the context, it continues after a new prefill of its last
/// tokens, half a context long.
class Generator {
 public:
  Generator(execute::Program& program, const ops::ModelConfig& model, std::int64_t prefill_tokens);

  /// Calls `on_token` for each new token until it returns false or there are `max_tokens`. The prompt has 1 to
  /// prefill_tokens tokens (else UserError).
  void generate(std::span<const std::int32_t> prompt, std::int64_t max_tokens, Sampler& sampler,
                const std::function<bool(std::int32_t)>& on_token);

  /// The same, with parameters that didn't change since the last text. Only the tokens of the prompt that differ from
  /// the last text are read, one at a time, so that a turn of a dialogue costs what is new in it. The prompt has up to
  /// as many tokens as the model has positions.
  void go_on(std::span<const std::int32_t> prompt, std::int64_t max_tokens, Sampler& sampler,
             const std::function<bool(std::int32_t)>& on_token);

 private:
  void write(std::span<const float> logits, std::int64_t max_tokens, Sampler& sampler,
             const std::function<bool(std::int32_t)>& on_token);
  std::span<const float> prefill(std::span<const std::int32_t> tokens);
  std::span<const float> decode(std::int32_t token, std::int64_t position);
  std::span<const float> logits() const;
  void set_position(std::int64_t position);

  execute::Program& program_;
  std::int64_t context_, prefill_tokens_, vocab_;
  std::vector<std::int32_t> text_;  // the prompt and what was written after it
  std::int64_t cached_ = 0;         // of its last tokens, those in the caches
};

}  // namespace weft::train
