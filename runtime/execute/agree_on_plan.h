// One plan for all ranks, or one for each pipeline stage: rank 0 decides; every rank makes the plan, checks it and
// compares fingerprints.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "graph/grid.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/graph_of_stage.h"
#include "runtime/execute/tuning/gemm_tuning.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/policy.h"

namespace weft::execute {

/// A plan's fingerprint with a table of tuned products; the plan's own if the table is empty and names no unit for
/// bf16.
std::uint64_t with_products(std::uint64_t plan_fingerprint, const GemmTuning& products);

/// Collective over the world. Rank 0 decides on rewrites (those chosen by the user and the policy's), runs the policy
/// and broadcasts rewrites and order; each rank rewrites its graph and makes the plan, checks it, and compares
/// fingerprints with all others, so that costs or libraries that differ between ranks can't lead to different
/// schedules. A table of tuned products becomes part of the plan's fingerprint. Throws on every rank: RuntimeFault when
/// graphs (of ranks started with different configurations), tables or orders of collectives differ, naming the rank and
/// the first difference, or when the checker refuses the plan; UserError when the policy refuses its options.
std::shared_ptr<const plan::Plan> agree_on_plan(comm::World& world, const std::shared_ptr<const graph::Graph>& graph,
                                                const policy::Policy& policy, const policy::PolicyOptions& options,
                                                const GemmTuning* tuning = nullptr,
                                                std::span<const plan::Rewrite> rewrites = {});

/// The same for a grid with pipeline stages, on which ranks with equal coordinates on pipe have equal graphs. Rank 0
/// lowers the graphs of the others, decides on rewrites and orders of all (policy::decide()), and refuses
/// plans that aren't safe (plan::check()). Each rank makes the plan of its own graph and compares it with rank 0's.
std::shared_ptr<const plan::Plan> agree_on_stages(comm::World& world, const graph::Grid& grid,
                                                  const std::shared_ptr<const graph::Graph>& own,
                                                  const GraphOfStage& graph_of, const policy::Policy& policy,
                                                  const policy::PolicyOptions& options,
                                                  const GemmTuning* tuning = nullptr,
                                                  std::span<const plan::Rewrite> rewrites = {});

}  // namespace weft::execute
