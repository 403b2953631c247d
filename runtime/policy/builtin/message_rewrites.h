// Joins and splits messages where that makes a step shorter, for policies that search.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/rewrite.h"
#include "runtime/policy/policy.h"

namespace weft::policy {

/// Whether the graph has sums that could be joined or split, no messages that other stages have to match, and at most
/// 30,000 tasks.
bool takes_message_rewrites(const graph::Graph& graph);

/// The rewrite of the shortest step: plan::BucketAllReduces or plan::SplitAllReduces of several sizes, or
/// plan::ReduceScatterAllGather. Few large messages have less latency; many small ones can start earlier, and let
/// others pass between them. Empty if the graph without a rewrite has the shortest step, and if its plan takes more
/// memory than the options allow, since memory decides about rewrites then (rewrite_to_fit.h). Empty for a stage of a
/// pipeline, whose messages other stages have to match.
///
/// Of each graph a swept list schedule (anneal.h) and the orders of `quick` policies are compared, by their makespans
/// under contention (timetable.h). A policy then searches the orders of one graph alone.
std::vector<plan::Rewrite> message_rewrites(const graph::Graph& graph, const PolicyOptions& options,
                                            std::span<const Policy* const> quick = {});

}  // namespace weft::policy
