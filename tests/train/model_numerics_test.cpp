// Losses, logits and gradients of the lowered graphs against plain double-precision references. (Steps of the
// optimizer: golden_test.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
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

  /// One training step, number t of AdamW; the loss before it.
  double train(float lr, int t) {
    const auto scalars = state(ops::names::kScalars);
    scalars[0] = lr;
    scalars[1] = static_cast<float>(1 / (1 - std::pow(static_cast<double>(step_.beta1), t)));
    scalars[2] = static_cast<float>(1 / (1 - std::pow(static_cast<double>(step_.beta2), t)));
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
  // Of every parameter, in the order of the specifications; made once for all tests of a case.
  const std::vector<std::vector<double>>& expected_gradients(const Model& net) const {
    static std::map<std::string, std::vector<std::vector<double>>> cache;
    auto& gradients = cache[numerics_name({GetParam(), 0})];
    if (gradients.empty()) {
      for (const ops::ParameterSpec& spec : net.specs()) {
        gradients.push_back(reference().gradient(net.parameters(), spec.name, net.tokens(), net.targets()).values);
      }
    }
    return gradients;
  }
};

INSTANTIATE_TEST_SUITE_P(Families, ModelNumerics,
                         ::testing::Values(Case{testing::ModelKind::gpt2, false}, Case{testing::ModelKind::gpt2, true},
                                           Case{testing::ModelKind::llama, false},
                                           Case{testing::ModelKind::llama, true},
                                           Case{testing::ModelKind::qwen3, false},
                                           Case{testing::ModelKind::qwen3, false, true},
                                           Case{testing::ModelKind::gpt2, true, true}),
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
  EXPECT_NEAR(net.train(0, 1), reference().loss(net.parameters(), net.tokens(), net.targets()), 1e-5);
  EXPECT_NEAR(net.evaluate(), undropped().loss(net.parameters(), net.tokens(), net.targets()), 1e-5);
}

// The gradient of the keys' bias is zero (it shifts all scores of a query alike), so its scale is its neighbours'.
TEST_P(ModelNumerics, GradientsAreTheCentralDifferences) {
  struct Variant {
    const char* name;
    std::int64_t micro_batches;
    bool recompute;
  };
  for (const Variant& variant : {Variant{"at once", 1, false}, Variant{"micro-batches", kSequences, false},
                                 Variant{"recomputed", kSequences, true}}) {
    ops::StepConfig config = step();
    config.micro_batches = variant.micro_batches;
    config.micro_batch = kSequences / variant.micro_batches;
    config.recompute_blocks = variant.recompute;
    Model net(model(), config);
    net.train(0, 1);
    const auto& expected = expected_gradients(net);
    double square = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::string& name = net.specs()[i].name;
      ASSERT_GT(largest(expected[i]), 1e-4) << name << " doesn't matter: the test would show nothing";
      EXPECT_LT(largest_difference(net.gradient(name), expected[i]), 1e-4 * largest(expected[i]))
          << name << ", " << variant.name;
      for (const double value : expected[i]) square += value * value;
    }
    EXPECT_NEAR(static_cast<double>(net.state(ops::names::kMetrics)[3]), std::sqrt(square), 1e-4 * std::sqrt(square));
  }
}

TEST_P(ModelNumerics, Bf16GradientsPointTheSameWay) {
  ops::StepConfig config = step();
  config.dtype = DType::bf16;
  Model net(model(), config);
  const double loss = net.train(0, 1);
  EXPECT_NEAR(loss, reference().loss(net.parameters(), net.tokens(), net.targets()), 0.02);
  for (const ops::ParameterSpec& spec : net.specs()) {
    const std::vector<double> found = net.gradient(spec.name);
    // A directional derivative of the rounded parameters costs two losses instead of two an element.
    double length = 0;
    for (const double value : found) length += value * value;
    length = std::sqrt(length);
    testing::ReferenceTransformer::Parameters moved = net.parameters();
    const auto loss_along = [&](double t) {
      for (std::size_t i = 0; i < found.size(); ++i) {
        moved.at(spec.name).values[i] = net.parameters().at(spec.name).values[i] + t * found[i] / length;
      }
      return reference().loss(moved, net.tokens(), net.targets());
    };
    const double along = (loss_along(1e-5) - loss_along(-1e-5)) / 2e-5;
    // Norms of heads have few elements, so their rounding errors average out less.
    const bool of_heads = spec.name.ends_with("q_norm.weight") || spec.name.ends_with("k_norm.weight");
    EXPECT_NEAR(along, length, (of_heads ? 0.05 : 0.03) * length) << spec.name;
  }
}

TEST_P(ModelNumerics, ClippingScalesAllGradientsAlike) {
  ops::StepConfig config = step();
  Model plain(model(), config);
  plain.train(0, 1);
  const float norm = plain.state(ops::names::kMetrics)[3];
  config.clip = 0.5F * norm;
  Model clipped(model(), config);
  clipped.train(0, 1);
  EXPECT_FLOAT_EQ(clipped.state(ops::names::kMetrics)[3], norm);
  EXPECT_NEAR(clipped.state(ops::names::kMetrics)[4], 0.5F, 1e-6F);
  for (const ops::ParameterSpec& spec : plain.specs()) {
    std::vector<double> half = plain.gradient(spec.name);
    for (double& value : half) value *= static_cast<double>(clipped.state(ops::names::kMetrics)[4]);
    EXPECT_LE(largest_difference(clipped.gradient(spec.name), half), 1e-6 * largest(half)) << spec.name;
  }
}

}  // namespace
}  // namespace weft::train
