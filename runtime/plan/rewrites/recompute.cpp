// Computes activations again for the backward pass. Every operation is a pure function of its inputs (a dropout mask:
// of seed, step, site and element), so a copy of a task with the same inputs gives the same bits.
#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "graph/named_accesses.h"
#include "runtime/plan/rewrites/duplicate.h"
#include "runtime/plan/rewrites/graph_draft.h"
#include "runtime/plan/rewrites/rewrites.h"

namespace weft::plan {
namespace {

using Pass = std::pair<std::int32_t, std::int32_t>;  // layer, micro-batch

struct PassTasks {
  std::vector<std::size_t> forward, backward;
};

class Recomputation {
 public:
  Recomputation(const graph::Graph& graph, const TensorUses& uses, const PassTasks& tasks)
      : graph_(graph), uses_(uses), tasks_(tasks) {}

  /// Has no sources if the backward tasks read nothing that can be recomputed.
  Duplication duplication(std::int32_t micro_batch) {
    for (const std::size_t i : tasks_.backward) {
      for (const graph::Access& access : task(i).accesses) {
        if (access.mode != graph::AccessMode::write) read_.insert(access.view.tensor);
      }
    }
    find_repeatable();
    Duplication result{{}, tasks_.backward, 0, ".recompute", graph::Phase::backward, micro_batch};
    result.sources = needed_sources();
    std::unordered_set<graph::TensorId> again;
    for (const std::size_t source : result.sources) {
      for (const graph::TensorId id : written(source)) again.insert(id);
    }
    for (const std::size_t i : tasks_.backward) {
      if (!std::ranges::any_of(task(i).accesses,
                               [&](const graph::Access& a) { return again.contains(a.view.tensor); })) {
        continue;
      }
      result.before = i;
      break;
    }
    return result;
  }

 private:
  const graph::Task& task(std::size_t i) const { return graph_.tasks()[i]; }

  std::vector<graph::TensorId> written(std::size_t i) const {
    std::vector<graph::TensorId> tensors;
    for (const graph::Access& access : task(i).accesses) {
      if (access.mode != graph::AccessMode::read) tensors.push_back(access.view.tensor);
    }
    return tensors;
  }

  static bool among(const std::vector<std::size_t>& sorted, std::size_t i) {
    return std::ranges::binary_search(sorted, i);
  }

  // Is the tensor scratch of this pass only: written only by its forward tasks, and read by no other backward pass,
  // which would need it kept?
  bool own(graph::TensorId id) const {
    const graph::Role role = graph_.tensor(id).role;
    if (graph::is_state(role) || role == graph::Role::gathered) return false;
    return std::ranges::all_of(uses_.writers[id.index()], [&](std::size_t i) { return among(tasks_.forward, i); }) &&
           std::ranges::all_of(uses_.readers[id.index()], [&](std::size_t i) {
             return task(i).phase == graph::Phase::forward || among(tasks_.backward, i);
           });
  }

  // A task is repeatable if every tensor that it writes can be copied and every other tensor that it reads is unchanged
  // later. A tensor can be copied if all its writers are repeatable. Finds the largest such sets by elimination. What
  // a message brought is kept: the other stage sends it once.
  void find_repeatable() {
    for (const std::size_t i : tasks_.forward) {
      if (std::holds_alternative<graph::Receive>(task(i).operation)) continue;
      for (const graph::TensorId id : written(i)) {
        if (own(id)) copied_.insert(id);
      }
    }
    std::vector<std::size_t> left = tasks_.forward;
    for (bool changed = true; changed;) {
      changed = false;
      std::erase_if(left, [&](std::size_t i) {
        const bool stays = std::ranges::all_of(task(i).accesses, [&](const graph::Access& access) {
          if (copied_.contains(access.view.tensor)) return true;
          return access.mode == graph::AccessMode::read &&
                 !uses_.written_between(graph_, access.view, i, tasks_.backward.back());
        });
        if (stays) return false;
        for (const graph::TensorId id : written(i)) copied_.erase(id);
        changed = true;
        return true;
      });
    }
  }

  std::vector<std::size_t> needed_sources() const {
    // A needed tensor needs all of its writers, since they update it in place one after the other.
    std::unordered_set<std::size_t> sources;
    std::vector<graph::TensorId> open;
    std::unordered_set<graph::TensorId> seen;
    const auto need = [&](graph::TensorId id) {
      if (copied_.contains(id) && seen.insert(id).second) open.push_back(id);
    };
    for (const graph::TensorId id : read_) need(id);
    while (!open.empty()) {
      const graph::TensorId id = open.back();
      open.pop_back();
      for (const std::size_t writer : uses_.writers[id.index()]) {
        if (!sources.insert(writer).second) continue;
        for (const graph::Access& access : task(writer).accesses) need(access.view.tensor);
      }
    }
    std::vector<std::size_t> sorted(sources.begin(), sources.end());
    std::ranges::sort(sorted);
    return without_unread(std::move(sorted));
  }

  std::vector<std::size_t> without_unread(std::vector<std::size_t> sources) const {
    std::unordered_set<graph::TensorId> needed = read_;
    std::vector<std::size_t> kept;
    for (auto at = sources.rbegin(); at != sources.rend(); ++at) {
      const std::vector<graph::TensorId> tensors = written(*at);
      if (std::ranges::none_of(tensors, [&](graph::TensorId id) { return needed.contains(id); })) continue;
      kept.push_back(*at);
      for (const graph::Access& access : task(*at).accesses) {
        if (access.mode != graph::AccessMode::write) needed.insert(access.view.tensor);
      }
    }
    std::ranges::reverse(kept);
    return kept;
  }

  const graph::Graph& graph_;
  const TensorUses& uses_;
  const PassTasks& tasks_;
  std::unordered_set<graph::TensorId> read_;    // tensors that the backward tasks read
  std::unordered_set<graph::TensorId> copied_;  // tensors that can have a copy
};

/// A gather of a weight: its place in the program, its input and its output.
struct Gather {
  std::size_t task;
  graph::Channel channel;
  graph::View in;
  graph::TensorId out;
};

std::vector<Gather> gathers_of(const graph::Graph& graph, const TensorUses& uses) {
  std::vector<Gather> gathers;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    const auto* operation = std::get_if<graph::AllGather>(&task.operation);
    if (operation == nullptr) continue;
    const graph::NamedAccesses<graph::AllGather> accesses(task);
    const graph::TensorId out = accesses["out"].view.tensor;
    if (graph.tensor(out).role != graph::Role::gathered || uses.writers[out.index()].size() != 1) continue;
    gathers.push_back({i, operation->channel, accesses["in"].view, out});
  }
  return gathers;
}

/// Where a backward pass gathers a weight again, its copies of forward tasks read that gather's result, and the gather
/// comes before them. So the result of the forward pass's gather needn't be kept.
std::shared_ptr<const graph::Graph> share_gathers(const std::shared_ptr<const graph::Graph>& graph) {
  const TensorUses uses(*graph);
  const std::vector<Gather> gathers = gathers_of(*graph, uses);
  GraphDraft draft(*graph);
  for (const Gather& first : gathers) {
    if (graph->tasks()[first.task].phase != graph::Phase::forward) continue;
    for (const Gather& again : gathers) {
      const graph::Task& task = graph->tasks()[again.task];
      if (again.task <= first.task || task.phase != graph::Phase::backward || again.in != first.in ||
          again.channel != first.channel || draft.is_dropped(again.task)) {
        continue;
      }
      std::vector<std::size_t> readers;
      for (const std::size_t reader : uses.readers[first.out.index()]) {
        const graph::Task& reading = graph->tasks()[reader];
        if (reading.phase == task.phase && reading.micro_batch == task.micro_batch) readers.push_back(reader);
      }
      if (readers.empty() || uses.written_between(*graph, first.in, first.task, again.task)) continue;
      for (const std::size_t reader : readers) {
        for (graph::Access& access : draft.task(reader).accesses) {
          if (access.view.tensor == first.out) access.view.tensor = again.out;
        }
      }
      if (readers.front() >= again.task) continue;
      draft.insert_before(readers.front(), draft.task(again.task));
      draft.drop(again.task);
    }
  }
  return std::move(draft).build();
}

}  // namespace

std::shared_ptr<const graph::Graph> recompute_layers(const graph::Graph& graph, const RecomputeLayers& rewrite) {
  std::map<Pass, PassTasks> passes;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    if (task.layer < 0 || !names_layer(rewrite.layers, task.layer)) continue;
    PassTasks& pass = passes[{task.layer, task.micro_batch}];
    if (task.phase == graph::Phase::forward) pass.forward.push_back(i);
    if (task.phase == graph::Phase::backward) pass.backward.push_back(i);
  }
  const TensorUses uses(graph);
  std::vector<Duplication> duplications;
  for (const auto& [pass, tasks] : passes) {
    if (tasks.forward.empty() || tasks.backward.empty()) continue;
    Duplication duplication = Recomputation(graph, uses, tasks).duplication(pass.second);
    if (!duplication.sources.empty()) duplications.push_back(std::move(duplication));
  }
  return share_gathers(duplicate(graph, std::move(duplications)));
}

}  // namespace weft::plan
