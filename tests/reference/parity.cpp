#include "tests/reference/parity.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "ops/lower.h"
#include "runtime/comm/local.h"
#include "runtime/execute/program/program.h"
#include "train/checkpoint/parameter_state.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/weights.h"
#include "train/config/saved_model.h"

namespace weft::testing {
namespace {

std::vector<std::int32_t> read_integers(const train::SafetensorsFile& file, const char* name) {
  const train::StoredTensorInfo* info = file.find(name);
  if (info == nullptr) throw std::out_of_range(std::string("no tensor ") + name);
  const std::vector<float> values = file.read(*info);  // a float holds small integers exactly
  return {values.begin(), values.end()};
}

std::int64_t micro_batches_of(const ParityCase& c, const ParityVariant& variant) {
  return variant.accumulate ? c.batch : 1;
}

ops::StepConfig step_of(const ParityCase& c, const ParityVariant& variant) {
  ops::StepConfig step;
  step.micro_batches = micro_batches_of(c, variant);
  step.micro_batch = c.batch / step.micro_batches;
  step.seq_len = c.seq_len;
  step.dtype = variant.dtype;
  step.recompute_blocks = variant.recompute;
  step.beta1 = c.beta1;
  step.beta2 = c.beta2;
  step.eps = c.eps;
  step.weight_decay = c.weight_decay;
  step.clip = c.clip;
  return step;
}

// A program with one graph, and the case's weights in its state.
class LoadedProgram {
 public:
  LoadedProgram(const ParityCase& c, const ParityVariant& variant, const char* name,
                std::shared_ptr<const graph::Graph> graph)
      : specs_(ops::model_parameters(c.model)),
        worlds_(comm::make_local_worlds(1)),
        program_(*worlds_[0], {{name, std::move(graph)}}, execute::ProgramOptions{.threads = variant.threads}) {
    std::vector<train::ParameterState> parameters;
    for (const ops::ParameterSpec& spec : specs_) {
      const std::string master = spec.name + ".master";
      parameters.push_back({&spec, variant.dtype, state().data(spec.name), nullptr, nullptr,
                            state().contains(master) ? state().get<float>(master).data() : nullptr});
    }
    train::load_weights(c.folder, c.model, parameters);
  }

  const execute::State& state() const { return program_.state(); }
  const std::vector<ops::ParameterSpec>& specs() const { return specs_; }
  void run(std::string_view name) { program_.run(name); }

  /// Runs step number `t`, from 1, of a training graph; returns its mean loss.
  float train_step(const ParityCase& c, std::int64_t t, const ops::StepConfig& step) {
    const auto scalars = state().get<float>(ops::names::kScalars);
    const auto correction = [t](float beta) {
      return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(t))));
    };
    const auto counted = std::count_if(c.targets.begin(), c.targets.end(), [](std::int32_t id) { return id >= 0; });
    scalars[0] = c.lr;
    scalars[1] = correction(step.beta1);
    scalars[2] = correction(step.beta2);
    scalars[3] = static_cast<float>(1 / static_cast<double>(counted));
    std::copy(c.tokens.begin(), c.tokens.end(), state().get<std::int32_t>(ops::names::kTokens).begin());
    std::copy(c.targets.begin(), c.targets.end(), state().get<std::int32_t>(ops::names::kTargets).begin());
    run("train");
    const auto metrics = state().get<float>(ops::names::kMetrics);
    return static_cast<float>(static_cast<double>(metrics[0]) / static_cast<double>(metrics[1]));
  }

 private:
  std::vector<ops::ParameterSpec> specs_;
  std::vector<std::unique_ptr<comm::World>> worlds_;
  execute::Program program_;
};

// The logits of each position come from a prefill of its sequence.
ParityArray logits_of(const ParityCase& c, const ParityVariant& variant) {
  LoadedProgram program(c, variant, "prefill", ops::lower_prefill(c.model, variant.dtype, c.seq_len));
  const auto prompt = program.state().get<std::int32_t>(ops::names::kPrefillTokens);
  const auto logits = program.state().get<float>(ops::names::kLogits);
  ParityArray result;
  result.shape = {static_cast<std::uint64_t>(c.batch), static_cast<std::uint64_t>(c.seq_len), logits.size()};
  for (std::int64_t row = 0; row < c.batch * c.seq_len; ++row) {
    const std::int64_t position = row % c.seq_len;
    std::copy_n(c.tokens.begin() + (row - position), c.seq_len, prompt.begin());
    program.state().get<std::int64_t>(ops::names::kPosition)[0] = position;
    program.run("prefill");
    result.values.insert(result.values.end(), logits.begin(), logits.end());
  }
  return result;
}

// With beta1 = 0 and no clipping, AdamW's first moment is the gradient itself.
void add_gradients(const ParityCase& c, const ParityVariant& variant, ParityResults& results) {
  ops::StepConfig step = step_of(c, variant);
  step.beta1 = 0;
  step.clip = 0;
  LoadedProgram program(c, variant, "train", ops::lower_train(c.model, step));
  program.train_step(c, 1, step);
  std::vector<std::byte> scratch;
  for (const ops::ParameterSpec& spec : program.specs()) {
    const float* gradient = program.state().get<float>(spec.name + ".m").data();
    for (const ops::StoredTensor& piece : spec.stored) {
      const auto bytes = train::pack(spec, piece, DType::f32, gradient, scratch);
      ParityArray& array = results["grad." + piece.name];
      array.shape = train::stored_shape(spec, piece);
      array.values.resize(bytes.size() / sizeof(float));
      std::memcpy(array.values.data(), bytes.data(), bytes.size());
    }
  }
}

ParityArray losses_of(const ParityCase& c, const ParityVariant& variant) {
  const ops::StepConfig step = step_of(c, variant);
  LoadedProgram program(c, variant, "train", ops::lower_train(c.model, step));
  ParityArray losses;
  losses.shape = {static_cast<std::uint64_t>(c.steps)};
  for (std::int64_t t = 1; t <= c.steps; ++t) losses.values.push_back(program.train_step(c, t, step));
  return losses;
}

void require_equal_sizes(std::span<const float> got, std::span<const float> reference) {
  if (got.size() != reference.size() || got.empty()) {
    throw std::invalid_argument("can't compare arrays of " + std::to_string(got.size()) + " and " +
                                std::to_string(reference.size()) + " elements");
  }
}

}  // namespace

ParityCase load_parity_case(const std::filesystem::path& folder) {
  const train::SafetensorsFile file(folder / "case.safetensors");
  const auto number = [&](const char* key) { return std::stof(file.metadata().at(key)); };
  ParityCase c;
  c.folder = folder;
  c.model = train::read_saved_model(folder).model;
  c.tokens = read_integers(file, "tokens");
  c.targets = read_integers(file, "targets");
  const std::vector<std::uint64_t>& shape = file.find("tokens")->shape;
  c.batch = static_cast<std::int64_t>(shape.at(0));
  c.seq_len = static_cast<std::int64_t>(shape.at(1));
  c.steps = std::stoll(file.metadata().at("steps"));
  c.lr = number("lr");
  c.beta1 = number("beta1");
  c.beta2 = number("beta2");
  c.eps = number("eps");
  c.weight_decay = number("weight_decay");
  c.clip = number("clip");
  return c;
}

ParityResults run_parity(const ParityCase& parity_case, const ParityVariant& variant) {
  ParityResults results;
  results["logits"] = logits_of(parity_case, variant);
  add_gradients(parity_case, variant, results);
  results["losses"] = losses_of(parity_case, variant);
  return results;
}

Distance distance(std::span<const float> got, std::span<const float> reference) {
  require_equal_sizes(got, reference);
  double largest = 0, difference = 0, dot = 0, got_norm = 0, reference_norm = 0, difference_norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a = got[i], b = reference[i];
    if (!std::isfinite(a)) return {std::numeric_limits<double>::infinity(), 0, std::numeric_limits<double>::infinity()};
    largest = std::max(largest, std::abs(b));
    difference = std::max(difference, std::abs(a - b));
    dot += a * b;
    got_norm += a * a;
    reference_norm += b * b;
    difference_norm += (a - b) * (a - b);
  }
  return {difference / largest, dot / std::sqrt(got_norm * reference_norm),
          std::sqrt(difference_norm / reference_norm)};
}

double relative_error(std::span<const float> got, std::span<const float> reference) {
  require_equal_sizes(got, reference);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a = got[i], b = reference[i];
    if (!std::isfinite(a)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(a - b) / std::abs(b));
  }
  return worst;
}

}  // namespace weft::testing
