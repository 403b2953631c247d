// Weft's side of a comparison with PyTorch: reads a case folder (see cases.py), returns logits, gradients and losses.
// Used by the golden test and reference_runner.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ops/model_config.h"

namespace weft::testing {

/// A small model on disk, one batch, and how to train on it.
struct ParityCase {
  std::filesystem::path folder;  // contains config.json and model.safetensors
  ops::ModelConfig model;
  std::int64_t batch = 0, seq_len = 0;
  std::vector<std::int32_t> tokens, targets;  // [batch, seq_len]; negative targets are ignored
  std::int64_t steps = 0;
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, clip = 0;
};

/// Throws UserError if the readers of these files refuse them, std::out_of_range on missing entries.
ParityCase load_parity_case(const std::filesystem::path& folder);

/// Different ways to compute the same results.
struct ParityVariant {
  DType dtype = DType::f32;
  bool accumulate = false;  // one sequence in each micro-batch; otherwise all in one
  bool recompute = false;
  int threads = 1;
};

struct ParityArray {
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
};

/// By name: "logits" [batch, seq_len, vocab]; "grad.<stored name>", the unclipped gradient of the mean loss in the
/// stored layout; "losses" [steps], each before an AdamW step on the same batch.
using ParityResults = std::map<std::string, ParityArray>;

ParityResults run_parity(const ParityCase& parity_case, const ParityVariant& variant);

/// max|got − reference| / max|reference|; the cosine of the angle between the two; |got − reference| / |reference| in
/// Euclidean norms.
struct Distance {
  double error = 0, cosine = 0, l2 = 0;
};
/// Throws std::invalid_argument if the sizes differ.
Distance distance(std::span<const float> got, std::span<const float> reference);

/// The largest |got − reference| / |reference| of an element. Throws std::invalid_argument if the sizes differ.
double relative_error(std::span<const float> got, std::span<const float> reference);

}  // namespace weft::testing
