// Pipelines of a few tasks a stage, with known costs: forward, the part of the backward pass that makes the gradient of
// the input, and the part that makes gradients of weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "graph/grid.h"
#include "runtime/cost/costs.h"
#include "runtime/plan/plan.h"
#include "tests/runtime/toy_graph.h"

namespace weft::testing {

struct PipelineShape {
  std::int64_t stages = 2, micro_batches = 2;
  graph::PipelineChunks chunks = {};
  /// Nanoseconds of a virtual stage's work on a micro-batch, of an update, of a message, and of a collective.
  double forward = 1000, input = 1000, weight = 1000, update = 0, message = 0, collective = 0;
  std::int64_t count = 16;           // elements of a message
  std::int64_t saved = 256;          // elements that the forward work keeps for the backward work
  std::int64_t pieces = 1;           // tasks that forward, input and weight work are each divided into
  bool world = false;                // an all-reduce over all ranks before the updates
  std::vector<double> factors = {};  // by rank, on the times of its work; empty: all 1
  /// An all-reduce of a gradient between first and last virtual stage before the updates, if two ranks have them.
  bool embedding = false;
};

/// The graphs of the classes, and costs. Tasks of virtual stage 1 and micro-batch 0, in program order:
///
///   mb0.S1.fwd.receive      x   message 1 of receive_previous
///   mb0.S1.fwd.p0           x → saved.p0, y
///   mb0.S1.fwd.send         y
///   mb0.S1.bwd.receive      dy
///   mb0.S1.bwd.input.p0     saved.p0, dy → dx
///   mb0.S1.bwd.send         dx
///   mb0.S1.bwd.weight.p0    saved.p0, dy → S1.grad.p0 (added to)
///
/// and after all micro-batches gradient_norm (world), embedding_gradient, S1.update.p0. The last virtual stage starts
/// backward with its own y. The first one's dx is written and not read.
class PipelineToy {
 public:
  explicit PipelineToy(PipelineShape shape) : shape_(std::move(shape)) {
    for (std::int64_t rank = 0; rank < shape_.stages; ++rank) classes_.push_back(Rank(*this, rank).build());
  }

  const PipelineShape& shape() const { return shape_; }
  const std::vector<std::shared_ptr<const graph::Graph>>& classes() const { return classes_; }
  graph::Grid grid() const {
    graph::Grid grid;
    grid.pipe = shape_.stages;
    return grid;
  }
  std::int64_t virtual_stages() const { return shape_.chunks.stages(shape_.stages); }
  /// The rank, or class, of a virtual stage.
  std::int64_t rank_of(std::int64_t stage) const { return shape_.chunks.rank_of_stage(stage, shape_.stages); }

  /// Prices tasks by their names.
  std::shared_ptr<const cost::CostModel> prices() const {
    return priced_tasks([shape = shape_](const graph::Task& task) {
      if (std::holds_alternative<graph::Send>(task.operation)) return TaskPrice{shape.message};
      if (std::holds_alternative<graph::Receive>(task.operation)) return TaskPrice{};
      if (graph::is_collective(task.operation)) return TaskPrice{shape.collective};
      if (task.phase == graph::Phase::update) return TaskPrice{shape.update / static_cast<double>(shape.pieces)};
      const bool weight = task.name.find(".weight.") != std::string::npos;
      double ns = task.phase == graph::Phase::forward ? shape.forward : weight ? shape.weight : shape.input;
      if (!shape.factors.empty() && task.stage >= 0)
        ns *= shape.factors[static_cast<std::size_t>(shape.chunks.rank_of_stage(task.stage, shape.stages))];
      return TaskPrice{ns / static_cast<double>(shape.pieces)};
    });
  }
  std::vector<cost::TaskCosts> costs() const {
    std::vector<cost::TaskCosts> costs;
    for (const auto& graph : classes_) costs.push_back(prices()->costs(*graph));
    return costs;
  }

 private:
  /// A message over the boundary between virtual stages `boundary` and `boundary` + 1.
  struct Crossing {
    std::int64_t boundary;
    bool forward;  // an activation; else a gradient
  };

  /// Does a message go to the next rank? Loops go round, and there every activation does.
  bool to_next(Crossing crossing) const {
    const bool down =
        shape_.chunks.placement == graph::ChunkPlacement::loop || (crossing.boundary / shape_.stages) % 2 == 0;
    return down == crossing.forward;
  }
  std::int64_t sender(Crossing crossing) const { return rank_of(crossing.boundary + (crossing.forward ? 0 : 1)); }
  bool crosses_ranks(std::int64_t boundary) const {
    return boundary >= 0 && boundary + 1 < virtual_stages() && rank_of(boundary) != rank_of(boundary + 1);
  }
  /// Messages are numbered by micro-batch, then by boundary, among all that take the same way.
  std::int64_t number(std::int64_t micro_batch, Crossing crossing) const {
    std::int64_t before = 0, all = 0;
    for (std::int64_t boundary = 0; boundary + 1 < virtual_stages(); ++boundary) {
      if (!crosses_ranks(boundary)) continue;
      for (const bool forward : {true, false}) {
        const Crossing other{boundary, forward};
        if (to_next(other) != to_next(crossing) || sender(other) != sender(crossing)) continue;
        ++all;
        before += boundary < crossing.boundary || (boundary == crossing.boundary && forward && !crossing.forward);
      }
    }
    return micro_batch * all + before + 1;
  }

  /// Builds the graph of one rank.
  class Rank {
   public:
    Rank(const PipelineToy& toy, std::int64_t rank) : toy_(toy), shape_(toy.shape_) {
      for (std::int64_t stage = 0; stage < toy.virtual_stages(); ++stage) {
        if (toy.rank_of(stage) == rank) mine_.push_back(stage);
      }
    }

    std::shared_ptr<const graph::Graph> build() {
      for (const std::int64_t stage : mine_) {
        for (std::int64_t piece = 0; piece < shape_.pieces; ++piece)
          tensor(parameter(stage, piece), shape_.saved, graph::Role::parameter);
      }
      for (std::int64_t m = 0; m < shape_.micro_batches; ++m) {
        for (const std::int64_t stage : mine_) forward(m, stage);
        for (auto stage = mine_.rbegin(); stage != mine_.rend(); ++stage) backward(m, *stage);
      }
      finish();
      return std::make_shared<const graph::Graph>(std::move(builder_).build());
    }

   private:
    static std::string parameter(std::int64_t stage, std::int64_t piece) {
      return "S" + std::to_string(stage) + ".w.p" + std::to_string(piece);
    }
    static std::string gradient(std::int64_t stage, std::int64_t piece) {
      return "S" + std::to_string(stage) + ".grad.p" + std::to_string(piece);
    }
    static std::string of(std::int64_t micro_batch, std::int64_t stage, std::string_view what) {
      return "mb" + std::to_string(micro_batch) + ".S" + std::to_string(stage) + "." + std::string(what);
    }

    graph::View tensor(const std::string& name, std::int64_t elements, graph::Role role = graph::Role::activation) {
      return graph::whole(builder_, builder_.add_tensor({name, DType::f32, {elements}, role}));
    }
    graph::View find(const std::string& name) { return graph::whole(builder_, builder_.find_tensor(name)); }

    void add(std::string name, graph::Operation operation, std::vector<graph::Access> accesses, std::int64_t m,
             std::int64_t stage, graph::Phase phase) {
      builder_.add_task({.name = std::move(name),
                         .operation = std::move(operation),
                         .accesses = std::move(accesses),
                         .layer = static_cast<std::int32_t>(stage),
                         .micro_batch = static_cast<std::int32_t>(m),
                         .phase = phase,
                         .stage = static_cast<std::int32_t>(stage)});
    }

    void send(std::int64_t m, std::int64_t stage, Crossing crossing, const std::string& tensor_name) {
      if (!toy_.crosses_ranks(crossing.boundary)) return;
      const auto channel = toy_.to_next(crossing) ? graph::Channel::send_next : graph::Channel::send_previous;
      add(of(m, stage, crossing.forward ? "fwd.send" : "bwd.send"),
          graph::Send{channel, toy_.number(m, crossing), shape_.count}, {graph::read(find(tensor_name))}, m, stage,
          crossing.forward ? graph::Phase::forward : graph::Phase::backward);
    }
    /// Returns the tensor that comes from the other virtual stage, over a message or from this rank.
    graph::View receive(std::int64_t m, std::int64_t stage, Crossing crossing, const std::string& name,
                        const std::string& on_this_rank) {
      if (!toy_.crosses_ranks(crossing.boundary)) return find(on_this_rank);
      const auto channel = toy_.to_next(crossing) ? graph::Channel::receive_previous : graph::Channel::receive_next;
      const graph::View received = tensor(name, shape_.count);
      add(of(m, stage, crossing.forward ? "fwd.receive" : "bwd.receive"),
          graph::Receive{channel, toy_.number(m, crossing), shape_.count}, {graph::write(received)}, m, stage,
          crossing.forward ? graph::Phase::forward : graph::Phase::backward);
      return received;
    }

    void forward(std::int64_t m, std::int64_t stage) {
      graph::View x;
      if (stage > 0) x = receive(m, stage, {stage - 1, true}, of(m, stage, "x"), of(m, stage - 1, "y"));
      for (std::int64_t piece = 0; piece < shape_.pieces; ++piece) {
        const std::string p = std::to_string(piece);
        const graph::View saved = tensor(of(m, stage, "saved.p" + p), shape_.saved);
        const graph::View y =
            tensor(of(m, stage, piece + 1 == shape_.pieces ? std::string("y") : "y.p" + p), shape_.count);
        std::vector<graph::Access> accesses = {graph::read(find(parameter(stage, piece))), graph::write(saved),
                                               graph::write(y)};
        if (x.tensor.valid()) accesses.push_back(graph::read(x));
        add(of(m, stage, "fwd.p" + p), graph::Add{1}, std::move(accesses), m, stage, graph::Phase::forward);
        x = y;
      }
      send(m, stage, {stage, true}, of(m, stage, "y"));
    }

    void backward(std::int64_t m, std::int64_t stage) {
      graph::View dy = find(of(m, stage, "y"));
      if (stage + 1 < toy_.virtual_stages())
        dy = receive(m, stage, {stage, false}, of(m, stage, "dy"), of(m, stage + 1, "dx"));
      std::vector<graph::View> dys;
      for (std::int64_t piece = shape_.pieces - 1; piece >= 0; --piece) {
        const std::string p = std::to_string(piece);
        dys.push_back(dy);
        const graph::View dx = tensor(of(m, stage, piece == 0 ? std::string("dx") : "dx.p" + p), shape_.count);
        add(of(m, stage, "bwd.input.p" + p), graph::Add{1},
            {graph::read(find(parameter(stage, piece))), graph::read(find(of(m, stage, "saved.p" + p))),
             graph::read(dy), graph::write(dx)},
            m, stage, graph::Phase::backward);
        dy = dx;
      }
      if (stage > 0) send(m, stage, {stage - 1, false}, of(m, stage, "dx"));
      for (std::int64_t piece = shape_.pieces - 1; piece >= 0; --piece) {
        const std::string p = std::to_string(piece);
        if (m == 0) tensor(gradient(stage, piece), shape_.saved, graph::Role::gradient);
        const graph::View grad = find(gradient(stage, piece));
        add(of(m, stage, "bwd.weight.p" + p), graph::Add{1},
            {graph::read(find(of(m, stage, "saved.p" + p))),
             graph::read(dys[static_cast<std::size_t>(shape_.pieces - 1 - piece)]),
             m == 0 ? graph::write(grad) : graph::read_write(grad)},
            m, stage, graph::Phase::backward);
      }
    }

    void finish() {
      const bool end = mine_.front() == 0 || mine_.back() + 1 == toy_.virtual_stages();
      if (shape_.embedding && end && toy_.rank_of(toy_.virtual_stages() - 1) != 0) {
        const std::int64_t stage = mine_.front() == 0 ? mine_.front() : mine_.back();
        add("embedding_gradient", graph::AllReduce{graph::Channel::embedding, 2, shape_.saved},
            {graph::read_write(find(gradient(stage, 0)))}, -1, -1, graph::Phase::update);
      }
      graph::View norm;
      if (shape_.world) {
        norm = tensor("norm", 1);
        std::vector<graph::Access> gradients = {graph::write(norm)};
        for (const std::int64_t stage : mine_) {
          for (std::int64_t piece = 0; piece < shape_.pieces; ++piece)
            gradients.push_back(graph::read(find(gradient(stage, piece))));
        }
        add("sum_squares", graph::Add{1}, std::move(gradients), -1, -1, graph::Phase::update);
        add("gradient_norm", graph::AllReduce{graph::Channel::world, shape_.stages, 1}, {graph::read_write(norm)}, -1,
            -1, graph::Phase::update);
      }
      for (const std::int64_t stage : mine_) {
        for (std::int64_t piece = 0; piece < shape_.pieces; ++piece) {
          std::vector<graph::Access> accesses = {graph::read_write(find(parameter(stage, piece))),
                                                 graph::read(find(gradient(stage, piece)))};
          if (norm.tensor.valid()) accesses.push_back(graph::read(norm));
          add("S" + std::to_string(stage) + ".update.p" + std::to_string(piece), graph::Add{1}, std::move(accesses), -1,
              -1, graph::Phase::update);
        }
      }
    }

    const PipelineToy& toy_;
    const PipelineShape& shape_;
    graph::GraphBuilder builder_{graph::Arguments::of_any_form};
    std::vector<std::int64_t> mine_;  // virtual stages, rising
  };

  PipelineShape shape_;
  std::vector<std::shared_ptr<const graph::Graph>> classes_;
};

/// The work of one unit in a class's order by hand: 'F' forward, 'B' gradient of the input, 'W' gradients of weights.
struct PipelineUnit {
  char work;
  std::int32_t micro_batch;
  std::int32_t stage;
};

/// The class's tasks unit by unit, on one compute stream: each unit with its receives before and its sends after it,
/// then what is left in program order.
inline plan::Order order_of_units(const graph::Graph& graph, const std::vector<PipelineUnit>& units) {
  const auto work_of = [](const graph::Task& task) {
    if (task.phase == graph::Phase::forward) return 'F';
    return task.name.find(".weight.") != std::string::npos ? 'W' : 'B';
  };
  plan::Order order;
  order.streams = plan::streams_of(graph, 1);
  order.reasons = {{.text = "as the test says"}};
  std::map<std::tuple<char, std::int32_t, std::int32_t>, std::vector<graph::TaskId>> by_unit;
  std::vector<graph::TaskId> rest;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    if (task.stage < 0) {
      rest.emplace_back(i);
    } else {
      by_unit[{work_of(task), task.micro_batch, task.stage}].emplace_back(i);
    }
  }
  const auto place = [&](graph::TaskId task) {
    const graph::Channel* channel = graph::channel_of(graph.task(task).operation);
    const plan::StreamId stream =
        channel == nullptr ? plan::StreamId(std::size_t{0}) : plan::stream_of_channel(order.streams, *channel);
    order.sequence.push_back({task, stream, 0});
  };
  for (const PipelineUnit& unit : units) {
    for (const graph::TaskId task : by_unit.at({unit.work, unit.micro_batch, unit.stage})) place(task);
  }
  for (const graph::TaskId task : rest) place(task);
  return order;
}

/// Micro-batch by micro-batch, as the graph has it.
inline std::vector<PipelineUnit> units_in_program_order(const PipelineToy& toy, std::int64_t rank) {
  std::vector<std::int32_t> mine;
  for (std::int64_t stage = 0; stage < toy.virtual_stages(); ++stage) {
    if (toy.rank_of(stage) == rank) mine.push_back(static_cast<std::int32_t>(stage));
  }
  std::vector<PipelineUnit> units;
  for (std::int32_t m = 0; m < toy.shape().micro_batches; ++m) {
    for (const std::int32_t stage : mine) units.push_back({'F', m, stage});
    std::ranges::reverse(mine);
    for (const std::int32_t stage : mine) units.insert(units.end(), {{'B', m, stage}, {'W', m, stage}});
    std::ranges::reverse(mine);
  }
  return units;
}

/// All forward work, then all backward work; one chunk.
inline std::vector<PipelineUnit> units_of_gpipe(const PipelineToy& toy, std::int64_t rank) {
  std::vector<PipelineUnit> units;
  const auto stage = static_cast<std::int32_t>(rank);
  for (std::int32_t m = 0; m < toy.shape().micro_batches; ++m) units.push_back({'F', m, stage});
  for (std::int32_t m = 0; m < toy.shape().micro_batches; ++m)
    units.insert(units.end(), {{'B', m, stage}, {'W', m, stage}});
  return units;
}

/// One forward, one backward after stages − 1 − rank forwards of warm-up; one chunk.
inline std::vector<PipelineUnit> units_of_1f1b(const PipelineToy& toy, std::int64_t rank) {
  std::vector<PipelineUnit> units;
  const auto stage = static_cast<std::int32_t>(rank);
  const auto all = static_cast<std::int32_t>(toy.shape().micro_batches);
  const std::int32_t warm_up = std::min(all, static_cast<std::int32_t>(toy.shape().stages - 1 - rank));
  for (std::int32_t m = 0; m < warm_up; ++m) units.push_back({'F', m, stage});
  for (std::int32_t m = 0; m < all; ++m) {
    if (m + warm_up < all) units.push_back({'F', m + warm_up, stage});
    units.insert(units.end(), {{'B', m, stage}, {'W', m, stage}});
  }
  return units;
}

/// The plans of all classes by such an order.
template <class Units>
std::vector<plan::Plan> pipeline_plans(const PipelineToy& toy, Units&& units) {
  std::vector<plan::Plan> plans;
  for (std::int64_t rank = 0; rank < toy.shape().stages; ++rank) {
    const std::shared_ptr<const graph::Graph>& graph = toy.classes()[static_cast<std::size_t>(rank)];
    plans.push_back(plan::make_plan(graph, order_of_units(*graph, units(toy, rank)), "mine"));
  }
  return plans;
}

inline std::vector<const plan::Plan*> pointers_to(const std::vector<plan::Plan>& plans) {
  std::vector<const plan::Plan*> pointers;
  for (const plan::Plan& plan : plans) pointers.push_back(&plan);
  return pointers;
}

}  // namespace weft::testing
