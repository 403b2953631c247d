// A model of eight narrow layers, and runs of it in pipeline stages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ops/pipeline_layout.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/train/grid_run.h"

namespace weft::testing {

inline ops::ModelConfig pipeline_model(ops::Family family) {
  ops::ModelConfig model;
  model.family = family;
  model.layers = 8;
  model.hidden = 24;
  model.heads = 6;
  model.kv_heads = family == ops::Family::llama ? 2 : 6;
  model.ffn = 28;
  model.vocab = 29;
  model.context = 8;
  model.tied = family == ops::Family::gpt2;
  return model;
}

inline GridRun pipeline_run(ops::Family family, const graph::Grid& grid, const std::string& policy) {
  GridRun run;
  run.model = pipeline_model(family);
  run.policy = policy;
  run.step.grid = grid;
  run.step.seq_len = 4;
  run.step.micro_batch = 1;
  run.step.micro_batches = std::max<std::int64_t>(4, 12 / grid.batch_ranks());  // multiples of 2, 3 and 4
  run.step.clip = 0.5F;
  run.step.dropout = 0.1F;
  run.steps = 4;
  run.warmup = 2;
  if (grid.pipe > 1) {
    run.step.pipeline =
        ops::balanced_layout(run.model, run.step.seq_len, grid.pipe, policy::make_policy(policy)->chunks());
  }
  return run;
}

}  // namespace weft::testing
