// Random graphs and a policy that orders them at random, all from seeds, for tests of planner and checker.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/policy/builtin/random.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/scheduling/program_order.h"
#include "tests/runtime/order_of.h"

namespace weft::testing {

/// Draws that are equal with every standard library, unlike std::uniform_int_distribution's.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : generator_(seed) {}
  /// In [0, n).
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(generator_() % n); }
  /// In [low, high].
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low + 1)));
  }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }

 private:
  std::mt19937_64 generator_;
};

struct RandomGraphOptions {
  std::size_t tasks = 40;
  std::size_t tensors = 20;
  std::size_t channels = 2;  // at most 3: x, data, z_gather
  int collective_percent = 30;
  std::int64_t most_elements = 2048;
};

inline graph::View random_view(Draws& draws, graph::TensorId tensor, std::int64_t elements) {
  if (draws.chance(40)) return {tensor, 0, 1, elements, elements};
  const std::int64_t stride = draws.between(1, elements);
  const std::int64_t cols = draws.between(1, stride);
  const std::int64_t offset = draws.between(0, elements - cols);
  const std::int64_t rows = draws.between(1, 1 + (elements - offset - cols) / stride);
  return {tensor, offset, rows, cols, stride};
}

/// Tasks that read and write random views of random tensors, scratch and state. The first to touch a scratch tensor
/// writes all of it.
inline std::shared_ptr<const graph::Graph> random_graph(std::uint64_t seed, const RandomGraphOptions& options = {}) {
  Draws draws(seed);
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  std::vector<std::int64_t> elements;
  std::vector<bool> readable;
  for (std::size_t i = 0; i < options.tensors; ++i) {
    const graph::Role role = draws.chance(25)   ? graph::Role::parameter
                             : draws.chance(20) ? graph::Role::gradient
                             : draws.chance(20) ? graph::Role::workspace
                                                : graph::Role::activation;
    elements.push_back(draws.between(1, options.most_elements));
    readable.push_back(graph::is_state(role));
    builder.add_tensor({"t" + std::to_string(i), DType::f32, {elements.back()}, role});
  }
  constexpr graph::Channel kChannels[] = {graph::Channel::x, graph::Channel::data, graph::Channel::z_gather};
  for (std::size_t i = 0; i < options.tasks; ++i) {
    graph::Task task;
    task.name = "k" + std::to_string(i);
    task.operation = graph::Add{1};
    if (options.channels > 0 && draws.chance(options.collective_percent)) {
      task.operation = graph::AllReduce{kChannels[draws.below(options.channels)], 2, draws.between(1, 99)};
    }
    for (std::size_t reads = draws.below(3); reads > 0; --reads) {
      const std::size_t tensor = draws.below(options.tensors);
      if (readable[tensor])
        task.accesses.push_back(graph::read(random_view(draws, graph::TensorId(tensor), elements[tensor])));
    }
    for (std::size_t writes = 1 + draws.below(2); writes > 0; --writes) {
      const std::size_t tensor = draws.below(options.tensors);
      const graph::TensorId id(tensor);
      if (!readable[tensor]) {
        task.accesses.push_back(graph::write(graph::whole(builder, id)));
      } else {
        const graph::View view = random_view(draws, id, elements[tensor]);
        task.accesses.push_back(draws.chance(50) ? graph::write(view) : graph::read_write(view));
      }
    }
    for (const graph::Access& access : task.accesses) readable[access.view.tensor.index()] = true;
    builder.add_task(std::move(task));
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

/// A random topological order, with computations on random streams and a few edges of its own.
class RandomPolicy final : public policy::OneClassPolicy {
 public:
  explicit RandomPolicy(std::uint64_t seed, int added_edges = 0) : seed_(seed), added_edges_(added_edges) {}
  std::string name() const override { return "random"; }

  plan::Order order(const graph::Graph& graph, const policy::PolicyOptions& options) const override {
    policy::PolicyOptions seeded = options;
    seeded.seed = seed_;
    plan::Order order = testing::order_of(weft::policy::RandomPolicy(), graph, seeded);
    order.reasons.push_back({.table = &policy::kProgramReasons, .code = policy::kInPlace});
    for (plan::Placement& placement : order.sequence) {
      if (graph::channel_of(graph.task(placement.task).operation) != nullptr) placement.reason = 1;
    }
    Draws draws(seed_);
    for (int i = 0; i < added_edges_ && order.sequence.size() > 1; ++i) {
      const std::size_t a = draws.below(order.sequence.size()), b = draws.below(order.sequence.size());
      const graph::EdgeKind kind =
          draws.chance(50) ? graph::EdgeKind::completes_before : graph::EdgeKind::issued_before;
      const auto distance = static_cast<std::uint8_t>(a < b ? 0 : 1);
      order.added_edges.push_back({order.sequence[a].task, order.sequence[b].task, kind, graph::EdgeReason::policy,
                                   distance, graph::TensorId()});
    }
    return order;
  }

 private:
  std::uint64_t seed_;
  int added_edges_;
};

}  // namespace weft::testing
