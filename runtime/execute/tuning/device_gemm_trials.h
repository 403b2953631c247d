// Finds the fastest algorithm of a GPU's library for a matrix product, by running the candidates.
#pragma once

#include <memory>
#include <vector>

#include "runtime/execute/tuning/gemm_trials.h"

namespace weft::execute {

/// The GPU's name and the version of its library; "no GPU" where there is none.
TuningMachine device_tuning_machine();

/// The layouts in which a product is tried, besides its own. None for small products and those of few rows or columns:
/// the copies would take longer than they could save. None for products with an epilogue.
std::vector<cpu::GemmLayout> device_gemm_layouts(const GemmProblem& problem);

class DeviceGemmTrials {
 public:
  virtual ~DeviceGemmTrials() = default;
  /// Allocates the product's operands on the device for as long as it takes.
  virtual GemmTrial run(const GemmProblem& problem) = 0;
};

/// Throws UserError where there is no GPU.
std::unique_ptr<DeviceGemmTrials> make_device_gemm_trials(const GemmTrialOptions& options);

}  // namespace weft::execute
