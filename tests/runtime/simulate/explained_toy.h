// Steps to explain: graphs small enough to simulate by hand, with times in microseconds, and queries of an explanation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/simulate/explain.h"
#include "tests/runtime/plan/rewrites/rewrite_toy.h"
#include "tests/runtime/priced_toy.h"

namespace weft::testing {

inline constexpr double kUs = 1000;

inline const simulate::ExplainOptions kNoRewrites{"", 1000, 8, false};

/// A computation, or on a channel an all-reduce of the tensors that it reads; its time in microseconds. Each tensor is
/// a letter; a capital letter is a parameter.
struct TimedTask {
  std::string name, stream;
  double us = 0;
  std::string reads = "", writes = "";
  graph::Phase phase = graph::Phase::forward;
};

/// A step in the order of the list.
struct TimedStep {
  explicit TimedStep(const std::vector<TimedTask>& tasks) {
    ToyGraph toy;
    std::map<char, graph::View> tensors;
    const auto tensor = [&](char letter) {
      const auto [found, added] = tensors.try_emplace(letter);
      const bool parameter = letter >= 'A' && letter <= 'Z';
      const graph::Role role = parameter ? graph::Role::parameter : graph::Role::activation;
      if (added) found->second = toy.tensor(std::string(1, letter), 8, role);
      return found->second;
    };
    std::map<std::string, double> prices;
    std::vector<std::pair<std::string, std::string>> sequence;
    std::set<std::string> computing;
    for (const auto& [name, stream, us, reads, writes, phase] : tasks) {
      const bool computes = stream.starts_with("compute");
      std::vector<graph::Access> accesses;
      for (const char letter : reads)
        accesses.push_back(computes ? graph::read(tensor(letter)) : graph::read_write(tensor(letter)));
      for (const char letter : writes) accesses.push_back(graph::write(tensor(letter)));
      if (computes) {
        computing.insert(stream);
        toy.add({.name = name, .operation = graph::Add{1}, .accesses = std::move(accesses), .phase = phase});
      } else {
        toy.collective(name, stream == "x" ? graph::Channel::x : graph::Channel::data, std::move(accesses));
      }
      prices[name] = us * kUs;
      sequence.emplace_back(name, stream);
    }
    graph = toy.build();
    problem = problem_of(graph, std::move(prices));
    if (std::ranges::find(tasks, "x", &TimedTask::stream) != tasks.end()) problem.grid.x = 2;
    problem.options.compute_streams = static_cast<int>(computing.size());
    order = order_of(*graph, problem.options.compute_streams, sequence);
  }

  graph::TaskId id(const std::string& task) const { return graph->find_task(task); }

  /// The policy lets a task wait for another.
  void hold(const std::string& task, const std::string& for_task) {
    order.added_edges.push_back(
        {id(for_task), id(task), graph::EdgeKind::completes_before, graph::EdgeReason::policy, 0, graph::TensorId()});
  }

  simulate::Report report() const { return report_of(problem, order); }
  simulate::Explanation explained(const simulate::ExplainOptions& options = kNoRewrites) const {
    return explain(problem, report(), options);
  }

  std::shared_ptr<const graph::Graph> graph;
  simulate::Problem problem;
  plan::Order order;
};

/// c could hide while d runs, but the policy lets it wait for d.
inline TimedStep held_back() {
  TimedStep step({{"a", "compute0", 10, "", "p"},
                  {"d", "compute0", 30, "", "q"},
                  {"c", "data", 20, "p"},
                  {"b", "compute0", 5, "p"}});
  step.hold("c", "d");
  return step;
}

inline const simulate::ExposedCollective& found(const simulate::Explanation& explanation, const graph::Graph& graph,
                                                const std::string& task) {
  for (const simulate::ExposedCollective& exposed : explanation.collectives) {
    if (graph.task(exposed.task).name == task) return exposed;
  }
  ADD_FAILURE() << task << " isn't exposed";
  return explanation.collectives.front();
}

/// The group of a collective.
inline const simulate::ExposureGroup& group_of(const simulate::Explanation& explanation, const graph::Graph& graph,
                                               const std::string& task) {
  for (const simulate::ExposureGroup& group : explanation.groups) {
    for (const std::size_t i : group.members) {
      if (graph.task(explanation.collectives[i].task).name == task) return group;
    }
  }
  ADD_FAILURE() << task << " is in no group";
  return explanation.groups.front();
}

/// "kind: gain" of every remedy of a collective's group, in microseconds.
inline std::vector<std::string> remedies_of(const simulate::Explanation& explanation, const graph::Graph& graph,
                                            const std::string& task) {
  std::vector<std::string> remedies;
  for (const simulate::Remedy& remedy : group_of(explanation, graph, task).remedies) {
    remedies.push_back(std::string(identifier_of(remedy.kind)) + ": " +
                       std::to_string(std::lround(remedy.gain_ns / kUs)));
  }
  return remedies;
}

/// The remedy of a kind that a collective's group has.
inline const simulate::Remedy& remedy_of(const simulate::Explanation& explanation, const graph::Graph& graph,
                                         const std::string& task, simulate::RemedyKind kind) {
  for (const simulate::Remedy& remedy : group_of(explanation, graph, task).remedies) {
    if (remedy.kind == kind) return remedy;
  }
  ADD_FAILURE() << task << " has no remedy " << identifier_of(kind);
  static const simulate::Remedy none;
  return none;
}

/// The sum of a path's pieces must be the step's time.
inline void expect_whole(const simulate::Explanation& explanation, double step_ns) {
  double sum = 0;
  for (const simulate::PathPiece& piece : explanation.path) sum += piece.ns;
  EXPECT_NEAR(sum, step_ns, 1);
}

/// Five all-reduces that each cost 10 µs whatever their size: one bucket costs 10 for all.
inline simulate::Problem five_reductions() {
  ReductionToy toy;
  std::vector<graph::Access> reads;
  for (const std::string i : {"0", "1", "2", "3", "4"}) {
    const graph::View g = toy.tensor("g" + i, 16);
    toy.compute("a" + i, {graph::write(g)});
    reads.push_back(graph::read(g));
  }
  for (int i = 0; i < 5; ++i) toy.reduce("r" + std::to_string(i), reads[static_cast<std::size_t>(i)].view);
  toy.compute("b", std::move(reads));
  return problem_of(toy.build(), {}, 10 * kUs);
}

/// Per layer and micro-batch a computation, a collective of its result, and a computation that waits for that; at last
/// the same without number.
inline TimedStep layers_step() {
  std::vector<TimedTask> tasks;
  char tensor = 'a';
  const auto add = [&](const std::string& name, const char* channel, double us) {
    tasks.push_back({name, "compute0", 1, "", {tensor}});
    tasks.push_back({name + ".reduce", channel, us, {tensor}});
    tasks.push_back({name + ".use", "compute0", 1, {tensor}});
    ++tensor;
  };
  for (const std::string mb : {"mb0", "mb1"}) {
    for (const std::string layer : {"L0", "L1", "L11"})
      add(mb + "." + layer + ".up", "data", layer == "L1" && mb == "mb1" ? 9 : 4);
  }
  add("L2norm", "x", 50);
  return TimedStep(tasks);
}

}  // namespace weft::testing
