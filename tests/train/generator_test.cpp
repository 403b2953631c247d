#include "train/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.h"
#include "ops/lower.h"
#include "runtime/comm/local.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/reference_transformer.h"

namespace weft::train {
namespace {

// A model with random weights.
class Net {
 public:
  Net(const ops::ModelConfig& model, DType dtype, std::int64_t prefill)
      : model_(model),
        prefill_(prefill),
        worlds_(comm::make_local_worlds(1)),
        program_(*worlds_[0], generation_graphs(model, dtype, prefill), {.threads = 2}),
        parameters_(testing::write_wide_weights(program_.state(), model, dtype, 5)) {}

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
                                           testing::ModelKind::mistral, testing::ModelKind::qwen3,
                                           testing::ModelKind::smollm3, testing::ModelKind::granite,
                                           testing::ModelKind::olmo3, testing::ModelKind::gemma3_text,
                                           testing::ModelKind::qwen3_moe),
                         testing::kNameOfParam);

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

// ---- the sampler, on logits made by hand

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kDraws = 20000;

/// How often each id is drawn.
std::vector<double> frequencies(const SamplerOptions& options, std::span<const float> logits) {
  Sampler sampler(options);
  std::vector<double> share(logits.size(), 0.0);
  for (std::uint64_t i = 0; i < kDraws; ++i) share[static_cast<std::size_t>(sampler.sample(logits, i))] += 1;
  for (double& value : share) value /= kDraws;
  return share;
}

// Probabilities 0.1, 0.4, 0.2, 0.3.
const std::array<float, 4> kLogits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
// Four standard deviations of a share of 20,000 draws.
constexpr double kNear = 0.015;

TEST(Sampler, TemperatureZeroTakesTheLargestAndTheLowestIdOfATie) {
  Sampler greedy({0.0, 0, 1.0, 1});
  EXPECT_EQ(greedy.sample(kLogits, 0), 1);
  EXPECT_EQ(greedy.sample(std::array{1.0F, 3.0F, 2.0F, 3.0F}, 5), 1);
}

TEST(Sampler, DrawsWithTheProbabilitiesOfItsFilters) {
  struct Case {
    SamplerOptions options;
    std::vector<double> expected;
    std::vector<float> logits = {kLogits.begin(), kLogits.end()};
  };
  const double e = std::exp(1.0);
  for (const Case& each : std::vector<Case>{
           {{}, {0.1, 0.4, 0.2, 0.3}},
           {{.temperature = 0.5}, {1.0 / 30, 16.0 / 30, 4.0 / 30, 9.0 / 30}},  // probabilities are squared
           {{.temperature = 1e-300}, {0, 1, 0, 0}},                            // no overflow
           {{.top_k = 2}, {0, 4.0 / 7, 0, 3.0 / 7}},
           {{.top_k = 2}, {1 / (e + 1), e / (e + 1), 0, 0}, {0, 1, 0, 0}},  // of a tie the lower id
           {{.top_p = 0.6}, {0, 4.0 / 7, 0, 3.0 / 7}},                      // 0.4 + 0.3 reach it; 0.4 alone doesn't
           {{.top_p = 1e-9}, {0, 1, 0, 0}},                                 // one token at least
           // After top-k the probabilities are 4/7 and 3/7: 0.5 is reached by the first alone.
           {{.top_k = 2, .top_p = 0.5}, {0, 1, 0, 0}},
           {{}, {0, 0.5, 0, 0.5, 0}, {-kInfinity, 0, -kInfinity, 0, -kInfinity}}}) {
    const std::vector<double> share = frequencies(each.options, each.logits);
    for (std::size_t id = 0; id < share.size(); ++id) {
      EXPECT_NEAR(share[id], each.expected[id], each.expected[id] == 0 ? 0 : kNear) << id;
    }
  }
}

TEST(Sampler, TopKOfTheWholeVocabularyIsNoFilter) {
  Sampler all({1.0, 0, 1.0, 7}), four({1.0, 4, 1.0, 7}), more({1.0, 100, 1.0, 7});
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(four.sample(kLogits, i), all.sample(kLogits, i));
    EXPECT_EQ(more.sample(kLogits, i), all.sample(kLogits, i));
  }
}

TEST(Sampler, IsAFunctionOfSeedAndPosition) {
  Sampler a({1.0, 0, 1.0, 3}), b({1.0, 0, 1.0, 3}), other({1.0, 0, 1.0, 4});
  int differences = 0;
  for (std::uint64_t i = 100; i-- > 0;) {
    b.sample(kLogits, i + 1000);
    EXPECT_EQ(a.sample(kLogits, i), b.sample(kLogits, i));
    differences += a.sample(kLogits, i) != other.sample(kLogits, i) ? 1 : 0;
  }
  EXPECT_GT(differences, 30);
}

TEST(Sampler, BrokenLogitsAreAFaultThatNamesTheToken) {
  Sampler sampler({0.0, 0, 1.0, 1});
  const auto sample = [&](std::vector<float> logits) {
    return testing::message_of<RuntimeFault>([&] { sampler.sample(logits, 0); });
  };
  EXPECT_TRUE(has_parts(sample({0.0F, NAN}), {"token 1 is nan"}));
  EXPECT_TRUE(has_parts(sample({kInfinity, 0.0F}), {"token 0 is inf"}));
  EXPECT_TRUE(has_parts(sample({-kInfinity, -kInfinity}), {"no token"}));
  EXPECT_TRUE(has_parts(sample({}), {"no token"}));
}

TEST(Sampler, RefusesSettingsOutOfRange) {
  const auto make = [](double temperature, std::int64_t k, double p) {
    return testing::message_of<UserError>([&] { Sampler({temperature, k, p, 1}); });
  };
  EXPECT_TRUE(has_parts(make(-0.1, 0, 1), {"temperature -0.1"}));
  EXPECT_TRUE(has_parts(make(NAN, 0, 1), {"temperature nan"}));
  EXPECT_TRUE(has_parts(make(1, -1, 1), {"top-k -1"}));
  EXPECT_TRUE(has_parts(make(1, 0, 0), {"top-p 0"}));
  EXPECT_TRUE(has_parts(make(1, 0, 1.5), {"top-p 1.5"}));
  EXPECT_EQ(make(0, 0, 1), "");
}

}  // namespace
}  // namespace weft::train
