// A sweep of small steps that tests share.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "study/sweep/sweep.h"

namespace weft::testing {

/// Of two ranks, over two numbers of layers and two latencies.
inline study::Sweep tiny_sweep() {
  study::Sweep sweep;
  sweep.settings = {{"model", "tiny", "--model"},
                    {"ranks", "2", "--ranks"},
                    {"machine", "perlmutter", "--machine"},
                    {"seq-len", "32", "--seq-len"},
                    {"machine.devices-per-node", "1", "--set"}};
  sweep.keys = {{"model.layers", {"1", "2"}}, {"machine.network.latency", {"1e-6", "1e-3"}}};
  sweep.policies = {policy::named_policy("serial"), policy::named_policy("program")};
  sweep.threads = 2;
  return sweep;
}

/// Without keeping rows and telling progress.
inline std::vector<study::SweepRow> rows_of(const study::Sweep& sweep, const std::vector<study::SweepRow>& known = {}) {
  return study::run_sweep(
      sweep, known, [](std::span<const study::SweepRow>) {}, [](const Status&) {});
}

}  // namespace weft::testing
