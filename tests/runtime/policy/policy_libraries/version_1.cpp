// A policy of version 1: of the tasks that are ready, the one with the longest way to the end of the step comes first.
#include <weft/policy_abi.h>

#include <queue>
#include <utility>
#include <vector>

namespace {

int32_t order(const weft_policy_input* in, weft_policy_output* out) {
  const auto tasks = static_cast<uint32_t>(in->task_count);
  std::vector<std::vector<uint32_t>> next(tasks);
  std::vector<uint32_t> open(tasks, 0);
  for (uint64_t e = 0; e < in->edge_count; ++e) {
    next[in->edges[e].from].push_back(in->edges[e].to);
    ++open[in->edges[e].to];
  }
  std::vector<double> way(tasks, 0);  // nanoseconds to the end; edges go to greater indices
  for (uint32_t t = tasks; t-- > 0;) {
    for (const uint32_t n : next[t]) way[t] = way[n] > way[t] ? way[n] : way[t];
    way[t] += in->tasks[t].cost_ns;
  }
  const uint32_t reason = out->add_reason(out->context, "the longest way to the end of the step");
  std::priority_queue<std::pair<double, int64_t>> ready;  // ties in the order of the indices
  for (uint32_t t = 0; t < tasks; ++t) {
    if (open[t] == 0) ready.emplace(way[t], -int64_t{t});
  }
  for (uint32_t position = 0; !ready.empty(); ++position) {
    const auto t = static_cast<uint32_t>(-ready.top().second);
    ready.pop();
    out->sequence[position] = t;
    out->reasons[position] = reason;
    for (uint32_t s = 0; s < in->stream_count; ++s) {
      if (in->streams[s].channel == in->tasks[t].channel) out->streams[position] = s;
    }
    for (const uint32_t n : next[t]) {
      if (--open[n] == 0) ready.emplace(way[n], -int64_t{n});
    }
  }
  return 0;
}

}  // namespace

extern "C" const weft_policy* weft_policy_entry() {
  static const weft_policy policy = {weft_policy_abi_version, sizeof(weft_policy), order};
  return &policy;
}
