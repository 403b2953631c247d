#include "train/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/lower.h"
#include "runtime/comm/local.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/reference_transformer.h"
#include "train/step/training_state.h"

namespace weft::train {
namespace {

// A model with random weights, wide enough apart that every position and token matters.
class Net {
 public:
  Net(const ops::ModelConfig& model, DType dtype, std::int64_t prefill)
      : model_(model),
        prefill_(prefill),
        worlds_(comm::make_local_worlds(1)),
        program_(*worlds_[0], generation_graphs(model, dtype, prefill), {.threads = 2}) {
    for (ops::ParameterSpec spec : ops::model_parameters(model)) {
      const bool ones = spec.init == ops::Init::ones;
      spec.init = ops::Init::normal;
      spec.std = 0.3F;
      std::vector<float> values(static_cast<std::size_t>(spec.rows * spec.cols));
      initialize_parameter(spec, 5, DType::f32, values.data(), nullptr);
      testing::ReferenceMatrix reference(spec.rows, spec.cols);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (ones) values[i] += 1;
        if (dtype == DType::bf16) values[i] = static_cast<float>(bf16(values[i]));
        reference.values[i] = static_cast<double>(values[i]);
        if (dtype == DType::bf16) {
          program_.state().get<bf16>(spec.name)[i] = bf16(values[i]);
        } else {
          program_.state().get<float>(spec.name)[i] = values[i];
        }
      }
      parameters_[spec.name] = std::move(reference);
    }
  }

  std::vector<std::int32_t> generate(const std::vector<std::int32_t>& prompt, std::int64_t max_tokens) {
    Sampler sampler({.temperature = 0});
    std::vector<std::int32_t> made;
    Generator(program_, model_, prefill_).generate(prompt, max_tokens, sampler, [&](std::int32_t token) {
      made.push_back(token);
      return true;
    });
    return made;
  }

  /// Compares each token's logits with the logits of the whole text that the model sees, computed in double. Returns
  /// how often the text was read again.
  int check(const std::vector<std::int32_t>& prompt, std::int64_t max_tokens, double tolerance) {
    Sampler sampler({.temperature = 0});
    std::vector<std::int32_t> text = prompt;
    auto seen = static_cast<std::int64_t>(prompt.size());
    int slides = 0;
    std::size_t made = 0;
    Generator(program_, model_, prefill_).generate(prompt, max_tokens, sampler, [&](std::int32_t token) {
      const std::vector<std::int32_t> window(text.end() - seen, text.end());
      const testing::ReferenceMatrix expected = testing::ReferenceTransformer(model_, seen).logits(parameters_, window);
      const auto found = program_.state().get<float>(ops::names::kLogits);
      double worst = 0;
      for (std::int64_t c = 0; c < model_.vocab; ++c) {
        worst = std::max(worst,
                         std::abs(static_cast<double>(found[static_cast<std::size_t>(c)]) - expected.at(seen - 1, c)));
      }
      EXPECT_LT(worst, tolerance) << "token " << made << " behind " << seen;
      EXPECT_EQ(token, std::max_element(found.begin(), found.end()) - found.begin());
      text.push_back(token);
      ++made;
      if (seen < model_.context) {
        ++seen;
      } else {
        seen = std::max<std::int64_t>(1, model_.context / 2);
        ++slides;
      }
      return true;
    });
    EXPECT_EQ(made, static_cast<std::size_t>(max_tokens));
    return slides;
  }

 private:
  ops::ModelConfig model_;
  std::int64_t prefill_;
  std::vector<std::unique_ptr<comm::World>> worlds_;
  execute::Program program_;
  testing::ReferenceTransformer::Parameters parameters_;
};

class GeneratorFamilies : public ::testing::TestWithParam<testing::ModelKind> {
 protected:
  const ops::ModelConfig model_ = testing::tiny_model(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Families, GeneratorFamilies,
                         ::testing::Values(testing::ModelKind::gpt2, testing::ModelKind::llama,
                                           testing::ModelKind::mistral, testing::ModelKind::qwen3),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(GeneratorFamilies, EveryTokenIsThatOfTheWholePrefixComputedAnew) {
  const std::vector<std::int32_t> text = {3, 18, 0, 7, 7, 11, 2, 16};
  for (const std::size_t prompt : {1, 3, 8}) {
    const std::vector<std::int32_t> head(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(prompt));
    // Beyond the context of 8, so that the text is read again from its half on.
    const std::int64_t prefill = prefill_length(static_cast<std::int64_t>(prompt), 20, model_.context);
    Net net(model_, DType::f32, prefill);
    EXPECT_GE(net.check(head, 20, 1e-4), 3) << "prompt of " << prompt;
  }
}

TEST_P(GeneratorFamilies, APrefillLongerThanThePromptChangesNothing) {
  const std::vector<std::int32_t> prompt = {4, 9};
  Net shortest(model_, DType::f32, 2), whole(model_, DType::f32, 8);
  EXPECT_EQ(whole.check(prompt, 6, 1e-4), 0);
  EXPECT_EQ(shortest.generate(prompt, 6), whole.generate(prompt, 6));
}

TEST_P(GeneratorFamilies, CachesOfAnEarlierTextLeaveNoTrace) {
  Net net(model_, DType::f32, 4);
  const std::vector<std::int32_t> first = net.generate({1, 2, 3}, 8);
  net.generate({18, 17, 16, 15}, 4);
  EXPECT_EQ(net.generate({1, 2, 3}, 8), first);
}

TEST_P(GeneratorFamilies, InBf16TheLogitsAreClose) {
  Net net(model_, DType::bf16, 4);
  net.check({1, 2, 3}, 12, 0.15);
}

TEST_P(GeneratorFamilies, AContextOfOneTokenIsReadAgainEachTime) {
  ops::ModelConfig model = model_;
  model.context = 1;
  Net net(model, DType::f32, prefill_length(1, 5, 1));
  EXPECT_EQ(net.check({6}, 5, 1e-4), 5);
}

TEST_P(GeneratorFamilies, TheCallerEndsTheText) {
  const auto worlds = comm::make_local_worlds(1);
  execute::Program program(*worlds[0], generation_graphs(model_, DType::f32, 4), {});
  Generator generator(program, model_, 4);
  Sampler sampler({.temperature = 0});
  int calls = 0;
  generator.generate(std::vector<std::int32_t>{1}, 100, sampler, [&](std::int32_t) { return ++calls < 3; });
  EXPECT_EQ(calls, 3);
  EXPECT_THROW(generator.generate({}, 1, sampler, [](std::int32_t) { return true; }), UserError);
  const std::vector<std::int32_t> too_long(5);
  EXPECT_THROW(generator.generate(too_long, 1, sampler, [](std::int32_t) { return true; }), UserError);
}

TEST(Generator, PrefillIsThePromptOrTheHalfThatIsReadAgain) {
  EXPECT_EQ(prefill_length(4, 10, 128), 4);
  EXPECT_EQ(prefill_length(5, 10, 128), 8);  // rounded up, so that few sizes are compiled
  EXPECT_EQ(prefill_length(4, 125, 128), 64);
  EXPECT_EQ(prefill_length(4, 124, 128), 4);
  EXPECT_EQ(prefill_length(90, 1, 100), 100);
  EXPECT_EQ(prefill_length(100, 1, 100), 100);
  EXPECT_EQ(prefill_length(1, 9, 1), 1);
}

TEST(Generator, CachesAreAsLongAsTheTextWherePositionsAreNoParameters) {
  EXPECT_EQ(with_short_context(ops::model_by_name("llama-1b"), 300).context, 300);
  EXPECT_EQ(with_short_context(ops::model_by_name("llama-tiny"), 300).context, 128);
  EXPECT_EQ(with_short_context(ops::model_by_name("gpt2-124m"), 300).context, 1024);
}

}  // namespace
}  // namespace weft::train
