// Finds the fastest way to compute the matrix products of a run, on the device that it is for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/gemm_trials.h"
#include "train/config.h"

namespace weft {

/// The distinct products of a training step and an evaluation of a resolved configuration.
std::vector<GemmUse> products_of_run(const RunConfig& config);

/// "256x768x3072 NT f32: sgemm 128x192 takes 1.11 times as long as packed 128x192".
std::string to_string(const GemmTrial& trial);

/// Tries products on the configuration's device, with its threads.
///
///   ProductTrials trials(config, 11);
///   for (const GemmUse& use : products_of_run(config)) trials.run(use.problem);
class ProductTrials {
 public:
  /// `rounds`: in which the best methods meet. Throws UserError where there is no such device.
  ProductTrials(const RunConfig& config, int rounds);
  ~ProductTrials();
  ProductTrials(const ProductTrials&) = delete;
  ProductTrials& operator=(const ProductTrials&) = delete;

  GemmTrial run(const GemmProblem& problem);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What trials on the configuration's device are good for.
TuningMachine tuning_machine(const RunConfig& config);

}  // namespace weft
