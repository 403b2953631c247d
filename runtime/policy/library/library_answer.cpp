#include "runtime/policy/library/library_answer.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "graph/analysis.h"

namespace weft::policy {
namespace {

/// One answer under check.
class Checking {
 public:
  Checking(const std::string& path, const graph::Graph& graph, const LibraryAnswer& answer)
      : path_(path), graph_(graph), answer_(answer), count_(graph.tasks().size()) {}

  void place(plan::Order& order) const {
    std::vector<bool> seen(count_, false);
    std::vector<graph::TaskId> ids;
    for (std::size_t i = 0; i < count_; ++i) {
      const graph::TaskId id = task_at(i);
      if (seen[id.index()]) {
        refuse(fmt::format("task {} ('{}') is in the sequence twice, so another task is missing", id.value,
                           graph_.task(id).name),
               "put every task in the sequence once");
      }
      seen[id.index()] = true;
      expect_stream(i, graph_.task(id), order.streams);
      if (answer_.reason_of[i] >= order.reasons.size()) {
        refuse(fmt::format("reasons[{}] = {} isn't a value that add_reason() returned", i, answer_.reason_of[i]),
               "store the value that add_reason() returns, or leave 0");
      }
      ids.push_back(id);
      order.sequence.push_back({id, plan::StreamId(std::size_t{answer_.streams[i]}), answer_.reason_of[i]});
    }
    if (const std::string why = graph::why_not_topological(graph_, ids); !why.empty()) {
      refuse("its sequence contradicts an edge: " + why, "put each task after all tasks that have an edge to it");
    }
  }

  void add_edges(plan::Order& order) const {
    std::vector<std::size_t> position(count_);
    for (std::size_t i = 0; i < order.sequence.size(); ++i) position[order.sequence[i].task.index()] = i;
    for (const graph::Edge& edge : answer_.edges) {
      const bool exist = edge.from.index() < count_ && edge.to.index() < count_;
      const bool forward = exist && (edge.distance > 0 || position[edge.from.index()] < position[edge.to.index()]);
      if (!forward || edge.distance > 1) {
        refuse(fmt::format("its edge from task {} to task {} contradicts its sequence, or a task doesn't exist",
                           edge.from.value, edge.to.value),
               "add edges that go forward in the sequence, or to the next step (distance 1)");
      }
      order.added_edges.push_back(edge);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why, std::string_view fix) const { refuse_library(path_, why, fix); }

  graph::TaskId task_at(std::size_t i) const {
    const std::uint32_t task = answer_.sequence[i];
    if (task < count_) return graph::TaskId(std::size_t{task});
    refuse(task == kUnsetEntry ? fmt::format("sequence[{}] of {} is not filled", i, count_)
                               : fmt::format("sequence[{}] = {} isn't an index of the {} tasks", i, task, count_),
           "put every task in the sequence once");
  }

  void expect_stream(std::size_t i, const graph::Task& task, const std::vector<plan::Stream>& streams) const {
    const std::uint32_t number = answer_.streams[i];
    const graph::Channel* channel = graph::channel_of(task.operation);
    const bool known = number < streams.size();
    if (known && (channel == nullptr ? streams[number].compute
                                     : !streams[number].compute && streams[number].channel == *channel)) {
      return;
    }
    std::string fix = "give a computation a stream of channel -1";
    for (std::size_t s = 0; channel != nullptr && s < streams.size(); ++s) {
      if (streams[s].compute || streams[s].channel != *channel) continue;
      fix = fmt::format("give it stream {}, of channel {}", s, streams[s].name);
    }
    refuse(fmt::format("streams[{}] = {} can't run task '{}'", i,
                       known ? fmt::format("{} ({})", number, streams[number].name) : fmt::format("{}", number),
                       task.name),
           fix);
  }

  const std::string& path_;
  const graph::Graph& graph_;
  const LibraryAnswer& answer_;
  const std::size_t count_;
};

}  // namespace

void refuse_library(const std::string& path, const std::string& why, std::string_view fix) {
  throw UserError(fmt::format("policy {}: {}", path, why), "", fix);
}

plan::Order order_of_answer(const std::string& path, const graph::Graph& graph, std::vector<plan::Stream> streams,
                            const LibraryAnswer& answer, const std::vector<plan::Reason>& reasons) {
  plan::Order order;
  order.streams = std::move(streams);
  order.reasons = reasons;
  const Checking checking(path, graph, answer);
  checking.place(order);
  checking.add_edges(order);
  return order;
}

}  // namespace weft::policy
