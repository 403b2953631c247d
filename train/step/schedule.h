// The learning rate of each step.
#pragma once

#include <cstdint>

#include "train/config/config.h"

namespace weft::train {

/// The parameters of the learning rate in a run of `steps`.
struct LearningRate {
  Schedule schedule = Schedule::cosine;
  std::int64_t steps = 200, warmup = 20;
  double lr = 1e-3, min_lr = 0;

  /// Warm-up: lr·(step+1)/warmup for step < warmup. Then, with s = warmup + `decayed`·(steps − warmup), but at least
  /// `step`, and r = (s − warmup)/(steps − warmup), at most 1:
  ///   cosine    min_lr + ½(1 + cos πr)(lr − min_lr)          (Loshchilov and Hutter, SGDR, 2017)
  ///   linear    lr − r(lr − min_lr)
  ///   constant  lr
  ///   wsd       lr up to s = ⌊0.8·steps⌋, then min_lr + (1 − √q)(lr − min_lr), q counting the rest from 0 to 1
  ///             (Hägele et al., "Scaling laws beyond fixed training durations", 2024; warm-up, stable, decay)
  /// `decayed`: the share of the decay that must be over, in [0, 1]; a run with a time limit can't do all of its steps.
  double at(std::int64_t step, double decayed = 0) const;
};

}  // namespace weft::train
