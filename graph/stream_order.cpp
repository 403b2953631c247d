#include "graph/stream_order.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "graph/unknown_data.h"

namespace weft::graph {
namespace {

constexpr std::array<std::pair<std::string_view, KeptOrder>, 4> kNames = {{{"all", KeptOrder::all},
                                                                           {"known", KeptOrder::known},
                                                                           {"computations", KeptOrder::computations},
                                                                           {"none", KeptOrder::none}}};
constexpr double kRoundedTimes = 1000;  // of older profilers

bool both_known(const OpenClass& step, const OpenEdge& edge) {
  return step.tasks[edge.from].data_known && step.tasks[edge.to].data_known;
}

/// Chains of computations along each recorded stream.
class StreamChains {
 public:
  explicit StreamChains(const OpenClass& step) : step_(step) {
    for (const OpenEdge& edge : step.edges) {
      if (is_stream_order(step, edge)) recorded_.emplace(std::pair(edge.from, edge.to), &edge);
    }
  }

  std::vector<OpenEdge> run() && {
    std::vector<bool> follows(step_.tasks.size());
    for (const auto& [ends, edge] : recorded_) {
      follows[ends.second] = follows[ends.second] || step_.tasks[ends.first].stream == step_.tasks[ends.second].stream;
    }
    std::map<std::int32_t, Chain> streams;
    for (std::uint32_t i = 0; i < step_.tasks.size(); ++i) {
      const OpenTask& task = step_.tasks[i];
      if (task.kind == OpenKind::host || task.stream < 0) continue;
      Chain& chain = streams[task.stream];
      if (!follows[i]) chain = Chain();  // nothing orders it after the tasks before it
      communicates(task.kind) ? communicate(chain, i) : compute(chain, i, task.micro_batch);
    }
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t kNobody = 0xFFFFFFFF;
  struct Chain {
    std::uint32_t of_all = kNobody;                       // the last task without a micro-batch
    std::map<std::int32_t, std::uint32_t> of_batch = {};  // the last of each micro-batch since then
    std::vector<std::uint32_t> communications = {};       // since the last computation
  };

  void add(std::uint32_t from, std::uint32_t to) {
    if (from == kNobody) return;
    const auto known = recorded_.find({from, to});
    out_.push_back(known != recorded_.end() ? *known->second : stream_order_edge(step_, from, to));
  }

  void add_from_all(const Chain& chain, std::uint32_t to) {
    if (chain.of_batch.empty()) add(chain.of_all, to);
    for (const auto& [batch, last] : chain.of_batch) add(last, to);
  }

  void communicate(Chain& chain, std::uint32_t task) {
    add_from_all(chain, task);
    chain.communications.push_back(task);
  }

  void compute(Chain& chain, std::uint32_t task, std::int32_t micro_batch) {
    for (const std::uint32_t before : chain.communications) add(before, task);
    chain.communications.clear();
    if (micro_batch < 0) {
      add_from_all(chain, task);
      chain.of_all = task;
      chain.of_batch.clear();
      return;
    }
    const auto found = chain.of_batch.find(micro_batch);
    add(found != chain.of_batch.end() ? found->second : chain.of_all, task);
    chain.of_batch[micro_batch] = task;
  }

  const OpenClass& step_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, const OpenEdge*> recorded_;
  std::vector<OpenEdge> out_;
};

}  // namespace

std::string_view to_string(KeptOrder kept) {
  return std::ranges::find(kNames, kept, &std::pair<std::string_view, KeptOrder>::second)->first;
}

std::optional<KeptOrder> find_kept_order(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name, &std::pair<std::string_view, KeptOrder>::first);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

bool is_stream_order(const OpenClass& step, const OpenEdge& edge) {
  return edge.source == EdgeSource::stream && step.tasks[edge.from].kind != OpenKind::host &&
         step.tasks[edge.to].kind != OpenKind::host;
}

bool is_recorded_order(const OpenClass& step, const OpenEdge& edge) {
  const bool wait = edge.source == EdgeSource::synchronisation || edge.source == EdgeSource::pairing ||
                    edge.source == EdgeSource::times;
  return is_stream_order(step, edge) || (wait && both_known(step, edge));
}

OpenEdge stream_order_edge(const OpenClass& step, std::uint32_t from, std::uint32_t to) {
  const OpenTask &a = step.tasks[from], &b = step.tasks[to];
  const bool overlap = a.end_ns && b.begin_ns && *a.end_ns > *b.begin_ns + kRoundedTimes;
  return {from, to, overlap ? EdgeKind::issued_before : EdgeKind::completes_before, EdgeSource::stream};
}

bool has_stream_order(const OpenClass& step) {
  return std::ranges::any_of(step.edges, [&](const OpenEdge& edge) { return is_stream_order(step, edge); });
}

bool knows_data(const OpenClass& step) {
  std::vector<bool> told(step.tasks.size());
  for (const OpenEdge& edge : step.edges) {
    if (edge.source == EdgeSource::given && step.tasks[edge.from].kind != OpenKind::host) told[edge.to] = true;
  }
  std::size_t computations = 0, known = 0;
  for (std::size_t i = 0; i < step.tasks.size(); ++i) {
    if (step.tasks[i].kind != OpenKind::compute) continue;
    ++computations;
    known += told[i] || step.tasks[i].data_known ? 1 : 0;
  }
  return 2 * known > computations;
}

std::vector<HeldEdge> held_edges(const OpenClass& step, KeptOrder kept) {
  if (kept == KeptOrder::known && std::ranges::none_of(step.tasks, &OpenTask::data_known)) kept = KeptOrder::all;
  std::vector<HeldEdge> out;
  for (const OpenEdge& edge : step.edges) {
    const bool order = is_stream_order(step, edge);
    const bool free = kept == KeptOrder::known ? is_recorded_order(step, edge) : order;
    if (!free || kept == KeptOrder::all) out.push_back({edge, order});
  }
  if (kept == KeptOrder::none || !has_stream_order(step)) return out;
  if (kept == KeptOrder::known) {
    for (const OpenEdge& edge : order_of_unknown_data(step)) {
      const bool queued = communicates(step.tasks[edge.from].kind) && communicates(step.tasks[edge.to].kind);
      out.push_back({edge, queued});
    }
    return out;
  }
  const bool known = knows_data(step);
  for (const OpenEdge& edge : StreamChains(step).run()) out.push_back({edge, known || both_known(step, edge)});
  return out;
}

FreeOrder free_order(const OpenClass& step, KeptOrder kept) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> held;
  for (const HeldEdge& each : held_edges(step, kept)) held.emplace(each.edge.from, each.edge.to);
  FreeOrder out;
  for (const OpenEdge& edge : step.edges) {
    if (!is_recorded_order(step, edge)) continue;
    ++out.recorded;
    if (!held.contains({edge.from, edge.to})) ++(both_known(step, edge) ? out.known : out.assumed);
  }
  return out;
}

}  // namespace weft::graph
