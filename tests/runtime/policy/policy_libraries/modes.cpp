// A library whose parameters select its behaviour: valid ("good", "rewrites", "simulate"), or one that is refused.
#include <weft/policy_abi.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

int32_t rewrites(const weft2_problem* problem, const weft2_host* host) {
  const std::string mode = problem->parameters;
  if (mode == "rewrites") return host->add_rewrite(host->context, "ar-to-rs-ag");
  if (mode == "bad-rewrite" && host->add_rewrite(host->context, "shuffle") != 0) {
    host->fail(host->context, host->error(host->context));
    return 1;
  }
  if (mode == "early") {
    weft2_simulation result = {sizeof(weft2_simulation), 0, nullptr, nullptr, nullptr};
    const weft2_order none = {sizeof(weft2_order), nullptr, nullptr, nullptr, nullptr, 0};
    if (host->simulate(host->context, &none, &result) != 0) {
      host->fail(host->context, host->error(host->context));
      return 1;
    }
  }
  return 0;
}

/// Simulates the order, then one with its first two tasks exchanged, and tells both in reasons.
int32_t simulate(const weft2_class& graph, const weft2_host* host, weft2_order* order) {
  std::vector<double> begin(graph.task_count), end(graph.task_count);
  int64_t scratch = 0;
  weft2_simulation result = {sizeof(weft2_simulation), 0, begin.data(), end.data(), &scratch};
  if (host->simulate(host->context, order, &result) != 0) return 1;
  const std::string told = "step " + std::to_string(result.step_ns) + " last " +
                           std::to_string(end[order->sequence[graph.task_count - 1]]) + " scratch " +
                           std::to_string(scratch);
  order->reasons[0] = host->add_reason(host->context, told.c_str(), 0);
  std::vector<uint32_t> backwards(order->sequence, order->sequence + graph.task_count);
  std::vector<uint32_t> streams(order->streams, order->streams + graph.task_count);
  std::swap(backwards[0], backwards[1]);
  std::swap(streams[0], streams[1]);
  weft2_order wrong = *order;
  wrong.sequence = backwards.data();
  wrong.streams = streams.data();
  if (host->simulate(host->context, &wrong, &result) == 0) return 1;
  order->reasons[1] = host->add_reason(host->context, host->error(host->context), 1);
  return 0;
}

int32_t order(const weft2_problem* problem, const weft2_host* host, weft2_order* order) {
  static std::vector<weft2_added_edge> edges;
  const std::string mode = problem->parameters;
  if (mode == "throw") throw std::runtime_error("no memory left");
  if (mode == "throw-int") throw 7;
  if (mode == "silent") return 5;
  if (mode == "fail") {
    host->fail(host->context, "parameter 'depth' must be positive");
    return 1;
  }
  if (mode == "late" && host->add_rewrite(host->context, "reshard") != 0) {
    host->fail(host->context, host->error(host->context));
    return 1;
  }
  const weft2_class& graph = problem->classes[0];
  const auto count = static_cast<uint32_t>(graph.task_count);
  for (uint32_t t = 0; t < count; ++t) {
    order->sequence[t] = t;
    for (uint32_t s = 0; s < graph.stream_count; ++s) {
      if (graph.streams[s].channel == graph.tasks[t].channel) order->streams[t] = s;
    }
  }
  if (mode == "missing") order->sequence[count - 1] = UINT32_MAX;
  if (mode == "twice") order->sequence[count - 1] = order->sequence[0];
  if (mode == "unknown") order->sequence[1] = count;
  if (mode == "backwards") {
    std::swap(order->sequence[0], order->sequence[1]);
    std::swap(order->streams[0], order->streams[1]);
  }
  if (mode == "stream") order->streams[1] = order->streams[0];
  if (mode == "no-stream") order->streams[0] = 99;
  if (mode == "reason") order->reasons[0] = 3;
  edges.clear();
  if (mode == "edge") edges.push_back({1, 0, 0, 0});
  if (mode == "edge-out") edges.push_back({0, count, 0, 0});
  if (mode == "edge-distance") edges.push_back({0, 1, 0, 2});
  if (mode == "edge-null") order->edge_count = 1;
  if (mode == "good") {
    edges = {{0, count - 1, 0, 0}, {count - 1, 0, 0, 1}};
    order->reasons[0] = host->add_reason(host->context, "because it is first", 0);
  }
  if (!edges.empty()) {
    order->edges = edges.data();
    order->edge_count = edges.size();
  }
  if (mode == "simulate") return simulate(graph, host, order);
  return 0;
}

}  // namespace

extern "C" const weft2_policy* weft_policy_entry_2(uint32_t newest) {
  static const weft2_policy policy = {weft2_version, sizeof(weft2_policy), 0, rewrites, order};
  return newest >= weft2_version ? &policy : nullptr;
}
