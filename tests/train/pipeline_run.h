// A model of eight narrow layers, and runs of it in pipeline stages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "ops/pipeline_layout.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/grid_run.h"

namespace weft::testing {

inline ops::ModelConfig pipeline_model(ops::Family family) {
  return of_family(family,
                   {.layers = 8, .hidden = 24, .heads = 6, .kv_heads = 2, .ffn = 28, .vocab = 29, .context = 8});
}

inline GridRun pipeline_run(ops::Family family, const graph::Grid& grid, const std::string& policy) {
  GridRun run{.model = pipeline_model(family),
              .step = {.seq_len = 4,
                       .micro_batches = std::max<std::int64_t>(4, 12 / grid.batch_ranks()),  // multiples of 2, 3 and 4
                       .grid = grid,
                       .pipeline = {},
                       .dropout = 0.1F,
                       .clip = 0.5F},
              .steps = 4,
              .warmup = 2,
              .policy = policy};
  if (grid.pipe > 1) {
    run.step.pipeline =
        ops::balanced_layout(run.model, run.step.seq_len, grid.pipe, policy::make_policy(policy)->chunks());
  }
  return run;
}

}  // namespace weft::testing
