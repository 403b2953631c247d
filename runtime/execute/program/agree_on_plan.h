// A plan for each rank class. Rank 0 decides and checks; every rank makes its own plan and compares fingerprints.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "graph/grid.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/tuning/gemm_tuning.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/policy.h"

namespace weft::execute {

/// A plan's fingerprint with a table of tuned products; the plan's own if the table is empty and names no unit for
/// bf16.
std::uint64_t with_products(std::uint64_t plan_fingerprint, const GemmTuning& products);

/// The graph of a rank's own class. Ranks with equal coordinates on pipe are a class; without a grid all ranks are one.
struct OwnClass {
  std::shared_ptr<const graph::Graph> graph;
  std::optional<graph::Grid> grid = {};
  GraphOfStage of_class = nullptr;  // of the others, needed where there are several
};

/// Collective over the world. Rank 0 lowers the graphs of the other classes, decides on rewrites (those chosen by the
/// user and the policy's) and orders of all, broadcasts them, and refuses plans that aren't safe together
/// (plan::check()). Each rank rewrites its graph, makes its plan, and compares fingerprints with rank 0's for its
/// class, so that costs or libraries that differ between ranks can't lead to different schedules. A table of tuned
/// products becomes part of the plan's fingerprint. Throws on every rank: RuntimeFault when graphs (of ranks started
/// with different configurations), tables or orders of collectives differ, naming the rank and, in rank 0's class, the
/// first difference, or when the checker refuses the plans; UserError when the policy refuses its options.
std::shared_ptr<const plan::Plan> agree_on_plan(comm::World& world, const OwnClass& own, const policy::Policy& policy,
                                                const policy::PolicyOptions& options,
                                                const GemmTuning* tuning = nullptr,
                                                std::span<const plan::Rewrite> rewrites = {});

}  // namespace weft::execute
