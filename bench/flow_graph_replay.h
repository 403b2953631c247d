// A competitor: oneTBB's flow graph with a continue_node for each task, built once and run repeatedly.
#pragma once

#include <tbb/flow_graph.h>
#include <tbb/task_arena.h>

#include <deque>

#include "bench/task_dag.h"

namespace weft::bench {

template <class Body>
class FlowGraphReplay {
 public:
  FlowGraphReplay(const TaskDag& dag, int threads, Body body) : body_(std::move(body)), arena_(threads) {
    arena_.execute([&] {
      graph_.reset();  // binds the graph to this arena
      for (std::uint32_t task = 0; task < dag.size(); ++task) {
        nodes_.emplace_back(graph_, [this, task](const tbb::flow::continue_msg&) { body_(task); });
        for (const std::uint32_t from : dag.predecessors_of(task)) tbb::flow::make_edge(nodes_[from], nodes_[task]);
        if (dag.predecessors_of(task).empty()) roots_.push_back(task);
      }
    });
  }

  void reset() {}

  void run() {
    arena_.execute([this] {
      for (const std::uint32_t root : roots_) nodes_[root].try_put(tbb::flow::continue_msg());
      graph_.wait_for_all();
    });
  }

 private:
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
  Body body_;
  tbb::task_arena arena_;
  tbb::flow::graph graph_;
  std::deque<Node> nodes_;
  std::vector<std::uint32_t> roots_;
};

}  // namespace weft::bench
