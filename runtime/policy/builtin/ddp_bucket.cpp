#include "runtime/policy/builtin/ddp_bucket.h"

#include <algorithm>
#include <vector>

#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

constexpr double kMiB = 1 << 20;

struct Bucket {
  std::vector<graph::TaskId> reductions;
  std::int64_t bytes = 0;
};

std::int64_t payload(const graph::Graph& graph, const graph::Task& task) {
  const graph::Access* moved = graph::payload_of(task);
  if (moved == nullptr) return 0;
  const graph::View& view = moved->view;
  return view.elements() * static_cast<std::int64_t>(size_of(graph.tensor(view.tensor).dtype));
}

std::vector<Bucket> buckets_of(const graph::Graph& graph, std::int64_t first_bytes, std::int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    if (!is_data_reduction(task)) continue;
    const std::int64_t bytes = payload(graph, task), room = buckets.size() == 1 ? first_bytes : bucket_bytes;
    if (buckets.empty() || buckets.back().bytes + bytes > room) buckets.emplace_back();
    buckets.back().reductions.emplace_back(i);
    buckets.back().bytes += bytes;
  }
  return buckets;
}

}  // namespace

DdpBucketPolicy::DdpBucketPolicy(PolicyParameters& parameters)
    : bucket_bytes_(static_cast<std::int64_t>(parameters.number("bucket-mb", 25, 0, 1e6) * kMiB)),
      first_bytes_(static_cast<std::int64_t>(parameters.number("first-mb", 1, 0, 1e6) * kMiB)) {}

std::vector<plan::Rewrite> DdpBucketPolicy::rewrites(const graph::Graph& graph, const PolicyOptions&) const {
  const auto reduces = [](const graph::Task& task) {
    return is_data_reduction(task) && std::holds_alternative<graph::AllReduce>(task.operation);
  };
  if (bucket_bytes_ == 0 || std::ranges::count_if(graph.tasks(), reduces) < 2) return {};
  return {plan::BucketAllReduces{bucket_bytes_}};
}

plan::Order DdpBucketPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const std::vector<Bucket> buckets = buckets_of(graph, first_bytes_, bucket_bytes_);
  ReorderedProgram program(graph);
  for (const Bucket& bucket : buckets) {
    for (const graph::TaskId reduction : bucket.reductions) program.before(reduction, bucket.reductions.back());
  }
  plan::Order order = program_order(graph, options, program.sequence());
  std::vector<std::uint32_t> reason(graph.tasks().size(), 0);
  EdgeAdder edges(order);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Bucket& bucket = buckets[b];
    for (const graph::TaskId reduction : bucket.reductions) {
      reason[reduction.index()] = static_cast<std::uint32_t>(order.reasons.size());
    }
    order.reasons.push_back(
        {.table = &kReasons,
         .numbers = {b + 1, buckets.size(), bucket.reductions.size(), static_cast<std::uint64_t>(bucket.bytes)}});
    for (const graph::Edge& edge : graph.in_edges(bucket.reductions.back())) {
      if (edge.distance == 0) edges.add(edge.from, bucket.reductions.front());
    }
  }
  graph::TaskId last;
  std::vector<bool> waited(order.streams.size(), false);
  for (plan::Placement& placement : order.sequence) {
    const graph::Task& task = graph.task(placement.task);
    if (const std::uint32_t own = reason[placement.task.index()]; own != 0) {
      placement.reason = own;
      last = placement.task;
    } else if (task.phase == graph::Phase::update && !graph::is_collective(task.operation) && last.valid() &&
               !waited[placement.stream.index()]) {
      waited[placement.stream.index()] = true;
      edges.add(last, placement.task);
    }
  }
  return order;
}

}  // namespace weft::policy
