// Losses, logits and gradients of the lowered graphs against plain double-precision references. (Steps of the
// optimizer: golden_test.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/lower.h"
#include "runtime/comm/local.h"
#include "runtime/execute/program/program.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/reference_transformer.h"

namespace weft::train {
namespace {

struct Case {
  testing::ModelKind kind;
  bool dropout;
  bool documents = false;
};

std::string numerics_name(const ::testing::TestParamInfo<Case>& info) {
  return std::string(to_string(info.param.kind)) + (info.param.dropout ? "WithDropout" : "") +
         (info.param.documents ? "WithinDocuments" : "");
}

constexpr std::uint64_t kSeed = 7;
constexpr std::int64_t kStepNumber = 3, kSequences = 2, kSeqLen = 8;
// Where each token's document starts in its sequence, if several are in one.
const std::vector<std::int32_t> kDocumentStarts = {0, 0, 2, 2, 2, 5, 6, 6, 0, 1, 1, 1, 1, 1, 1, 7};

// A program of one rank over "train" and "eval", with initial weights that make every part of the model matter.
class Model {
 public:
  Model(const ops::ModelConfig& model, ops::StepConfig step)
      : worlds_(comm::make_local_worlds(1)),
        specs_(ops::model_parameters(model)),
        step_(step),
        program_(*worlds_[0],
                 {{"train", ops::lower_train(model, step)}, {"eval", ops::lower_eval(model, whole_batch(step))}},
                 {.threads = 1}),
        parameters_(testing::write_wide_weights(program_.state(), model, step.dtype, kSeed)) {
    for (std::int64_t i = 0; i < kSequences * kSeqLen; ++i) {
      tokens_.push_back(static_cast<std::int32_t>(i * i * 5 % model.vocab));
      targets_.push_back(i == 5 ? -1 : static_cast<std::int32_t>((i * 7 + 3) % model.vocab));
    }
    const auto fill = [&](const char* name, const std::vector<std::int32_t>& ids) {
      std::copy(ids.begin(), ids.end(), program_.state().get<std::int32_t>(name).begin());
    };
    fill(ops::names::kTokens, tokens_), fill(ops::names::kTargets, targets_);
    fill(ops::names::kEvalTokens, tokens_), fill(ops::names::kEvalTargets, targets_);
    if (step.document_mask) {
      fill(ops::names::kDocumentStarts, kDocumentStarts), fill(ops::names::kEvalDocumentStarts, kDocumentStarts);
    }
    if (step.dropout > 0) {
      const auto random = program_.state().get<std::int64_t>(ops::names::kRandom);
      random[0] = static_cast<std::int64_t>(kSeed), random[1] = kStepNumber, random[2] = 0;
    }
  }

  std::span<float> state(const std::string& name) { return program_.state().get<float>(name); }

  /// The first step of AdamW, at a rate of 0; its loss.
  double train() {
    const auto scalars = state(ops::names::kScalars);
    scalars[0] = 0;
    scalars[1] = 1 / (1 - step_.beta1);
    scalars[2] = 1 / (1 - step_.beta2);
    scalars[3] = 1.0F / static_cast<float>(counted());
    program_.run("train");
    EXPECT_EQ(state(ops::names::kMetrics)[1], static_cast<float>(counted()));
    return static_cast<double>(state(ops::names::kMetrics)[0] / state(ops::names::kMetrics)[1]);
  }
  double evaluate() {
    program_.run("eval");
    return static_cast<double>(state(ops::names::kEvalSums)[0] / state(ops::names::kEvalSums)[1]);
  }
  /// After a step with β1 = 0 and without clipping, AdamW's first moment is the gradient.
  std::vector<double> gradient(const std::string& name) {
    const auto m = state(name + ".m");
    return {m.begin(), m.end()};
  }

  const std::vector<ops::ParameterSpec>& specs() const { return specs_; }
  const testing::ReferenceTransformer::Parameters& parameters() const { return parameters_; }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  const std::vector<std::int32_t>& targets() const { return targets_; }

 private:
  static ops::StepConfig whole_batch(ops::StepConfig step) {
    step.micro_batch = kSequences;
    return step;
  }
  std::int64_t counted() const {
    return std::count_if(targets_.begin(), targets_.end(), [](std::int32_t target) { return target >= 0; });
  }

  std::vector<std::unique_ptr<comm::World>> worlds_;
  std::vector<ops::ParameterSpec> specs_;
  ops::StepConfig step_;
  execute::Program program_;
  testing::ReferenceTransformer::Parameters parameters_;
  std::vector<std::int32_t> tokens_, targets_;
};

class ModelNumerics : public ::testing::TestWithParam<Case> {
 protected:
  ops::ModelConfig model() const { return testing::tiny_model(GetParam().kind); }
  // Gradients as they are: no clipping, β1 = 0, nothing learnt.
  ops::StepConfig step() const {
    ops::StepConfig step;
    step.micro_batch = kSequences;
    step.seq_len = kSeqLen;
    step.micro_batches = 1;
    step.dropout = GetParam().dropout ? 0.25F : 0.0F;
    step.document_mask = GetParam().documents;
    step.beta1 = 0;
    step.clip = 0;
    return step;
  }
  testing::ReferenceTransformer undropped() const {
    testing::ReferenceTransformer reference(model(), kSeqLen);
    if (GetParam().documents) reference.attend_within(kDocumentStarts);
    return reference;
  }
  testing::ReferenceTransformer reference() const {
    testing::ReferenceTransformer reference = undropped();
    if (GetParam().dropout) reference.drop(0.25, kSeed, kStepNumber);
    return reference;
  }
  double slope(const Model& net, const std::string& name, const std::vector<double>& direction) const {
    return reference().slope(net.parameters(), name, direction, net.tokens(), net.targets());
  }
};

INSTANTIATE_TEST_SUITE_P(
    Families, ModelNumerics,
    ::testing::Values(Case{testing::ModelKind::gpt2, false}, Case{testing::ModelKind::gpt2, true},
                      Case{testing::ModelKind::llama, false}, Case{testing::ModelKind::llama, true},
                      Case{testing::ModelKind::qwen3, false}, Case{testing::ModelKind::qwen3, false, true},
                      Case{testing::ModelKind::gpt2, true, true}, Case{testing::ModelKind::ministral, false},
                      Case{testing::ModelKind::smollm3, false}, Case{testing::ModelKind::granite, true},
                      Case{testing::ModelKind::olmo2, false}, Case{testing::ModelKind::olmo3, true},
                      Case{testing::ModelKind::gemma, false}, Case{testing::ModelKind::gemma3_text, true},
                      Case{testing::ModelKind::mixtral, true}, Case{testing::ModelKind::qwen3_moe, false}),
    numerics_name);

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST_P(ModelNumerics, LossesAgreeWithTheReference) {
  Model net(model(), step());
  EXPECT_NEAR(net.train(), reference().loss(net.parameters(), net.tokens(), net.targets()), 1e-5);
  EXPECT_NEAR(net.evaluate(), undropped().loss(net.parameters(), net.tokens(), net.targets()), 1e-5);
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Signs that are drawn anew for each number, as a vector of length 1.
std::vector<double> random_direction(std::size_t size, std::uint32_t number) {
  std::mt19937 random(number);
  std::vector<double> direction(size);
  for (double& value : direction) value = (random() % 2 == 0 ? 1 : -1) / std::sqrt(static_cast<double>(size));
  return direction;
}

// Along random directions of all elements of a parameter: an error stays hidden from each of them at most with a
// probability of one half. Two losses a direction take a fraction of the time of two an element.
TEST_P(ModelNumerics, GradientsAreTheCentralDifferences) {
  struct Variant {
    const char* name;
    std::int64_t micro_batches;
    bool recompute;
  };
  std::map<std::pair<std::string, std::uint32_t>, double> slopes;
  for (const Variant& variant : {Variant{"at once", 1, false}, Variant{"micro-batches", kSequences, false},
                                 Variant{"recomputed", kSequences, true}}) {
    ops::StepConfig config = step();
    config.micro_batches = variant.micro_batches;
    config.micro_batch = kSequences / variant.micro_batches;
    config.recompute_blocks = variant.recompute;
    Model net(model(), config);
    net.train();

    double square = 0;
    for (const ops::ParameterSpec& spec : net.specs()) {
      const std::vector<double> found = net.gradient(spec.name);
      ASSERT_GT(largest(found), 1e-4) << spec.name << " doesn't matter: the test would show nothing";
      for (std::uint32_t number = 0; number < 12; ++number) {
        const std::vector<double> direction = random_direction(found.size(), number);
        const auto [expected, fresh] = slopes.try_emplace({spec.name, number});
        if (fresh) expected->second = slope(net, spec.name, direction);
        EXPECT_NEAR(product(found, direction), expected->second,
                    1e-4 * largest(found) / std::sqrt(static_cast<double>(found.size())))
            << spec.name << ", " << variant.name;
      }
      square += product(found, found);
    }
    EXPECT_NEAR(static_cast<double>(net.state(ops::names::kMetrics)[3]), std::sqrt(square), 1e-4 * std::sqrt(square));
  }
}

TEST_P(ModelNumerics, Bf16GradientsPointTheSameWay) {
  ops::StepConfig config = step();
  config.dtype = DType::bf16;
  Model net(model(), config);
  EXPECT_NEAR(net.train(), reference().loss(net.parameters(), net.tokens(), net.targets()), 0.02);
  for (const ops::ParameterSpec& spec : net.specs()) {
    std::vector<double> direction = net.gradient(spec.name);
    const double length = std::sqrt(product(direction, direction));
    for (double& value : direction) value /= length;
    // Norms of heads have few elements, so their rounding errors average out less; those of branches read rounded sums.
    const bool rounded = spec.name.ends_with("q_norm.weight") || spec.name.ends_with("k_norm.weight") ||
                         spec.name.find("post_norm") != std::string::npos;
    EXPECT_NEAR(slope(net, spec.name, direction), length, (rounded ? 0.05 : 0.03) * length) << spec.name;
  }
}

TEST_P(ModelNumerics, ClippingScalesAllGradientsAlike) {
  ops::StepConfig config = step();
  Model plain(model(), config);
  plain.train();
  const float norm = plain.state(ops::names::kMetrics)[3];
  config.clip = 0.5F * norm;
  Model clipped(model(), config);
  clipped.train();
  EXPECT_FLOAT_EQ(clipped.state(ops::names::kMetrics)[3], norm);
  EXPECT_NEAR(clipped.state(ops::names::kMetrics)[4], 0.5F, 1e-6F);
  for (const ops::ParameterSpec& spec : plain.specs()) {
    std::vector<double> half = plain.gradient(spec.name);
    for (double& value : half) value *= static_cast<double>(clipped.state(ops::names::kMetrics)[4]);
    EXPECT_LE(largest_difference(clipped.gradient(spec.name), half), 1e-6 * largest(half)) << spec.name;
  }
}

// A router of zeros has equal logits, of which the lower experts' win: two of four experts get all tokens.
TEST(ExpertNumerics, AllTokensMayGoToTheSameExperts) {
  const ops::ModelConfig model = testing::tiny_model(testing::ModelKind::mixtral);
  ops::StepConfig step;
  step.micro_batch = kSequences;
  step.seq_len = kSeqLen;
  step.beta1 = 0;
  step.clip = 0;
  Model net(model, step);
  testing::ReferenceTransformer::Parameters parameters = net.parameters();
  for (const char* router : {"L0.mlp.router.weight", "L1.mlp.router.weight"}) {
    std::ranges::fill(net.state(router), 0.0F);
    std::ranges::fill(parameters.at(router).values, 0.0);
  }
  const testing::ReferenceTransformer reference(model, kSeqLen);
  EXPECT_NEAR(net.train(), reference.loss(parameters, net.tokens(), net.targets()), 1e-5);
  for (const char* name : {"L0.mlp.experts.up.weight", "L0.mlp.experts.down.weight", "L1.mlp.experts.up.weight"}) {
    const std::vector<double> found = net.gradient(name);
    const auto half = found.begin() + std::ssize(found) / 2;
    EXPECT_GT(largest({found.begin(), half}), 1e-4) << name;
    EXPECT_EQ(largest({half, found.end()}), 0) << name;
    const std::vector<double> direction = random_direction(found.size(), 1);
    EXPECT_NEAR(product(found, direction), reference.slope(parameters, name, direction, net.tokens(), net.targets()),
                1e-4 * largest(found) / std::sqrt(static_cast<double>(found.size())))
        << name;
  }
}

}  // namespace
}  // namespace weft::train
