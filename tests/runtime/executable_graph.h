// Executable random graphs, data for them, and a plain execution as the reference for all others.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/hash.h"
#include "graph/graph.h"
#include "kernels/cpu/parallel.h"
#include "runtime/execute/cpu/cpu_kernels.h"
#include "runtime/execute/state.h"
#include "tests/runtime/random_graph.h"

namespace weft::testing {

struct ExecutableGraphOptions {
  std::size_t tasks = 36;
  std::size_t tensors = 16;
  std::size_t channels = 3;
  int collective_percent = 35;
};

/// Builds graphs out of products, norms, elementwise tasks and all collectives, on fp32 and bf16, on whole tensors and
/// on windows. State tensors live on from step to step; at the end all scratch is copied to state, so that every
/// result shows. The same seed gives the same graph for any number of ranks, but for the collectives' sizes.
class ExecutableGraph {
 public:
  ExecutableGraph(std::uint64_t seed, int ranks, const ExecutableGraphOptions& options = {})
      : draws_(seed), options_(options), ranks_(ranks) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const graph::TensorId id = builder_.add_tensor({weights_name(dtype), dtype, {kWeights}, graph::Role::parameter});
      (dtype == DType::f32 ? weights_f32_ : weights_bf16_) = id;
    }
    norms_ = builder_.add_tensor({"norms", DType::f32, {kMostTasks}, graph::Role::parameter});
    for (std::size_t i = 0; i < options.tensors; ++i) add_random_tensor(i);
    while (tasks_ < options.tasks) add_random_task();
    for (std::size_t i = 0; i < tensors_.size(); ++i) add_sink(tensors_[i]);
  }

  std::shared_ptr<const graph::Graph> build() && {
    return std::make_shared<const graph::Graph>(std::move(builder_).build());
  }

 private:
  static constexpr std::int64_t kWeights = 16384;  // small numbers, never written
  static constexpr std::int64_t kMostTasks = 100;
  struct Known {
    graph::TensorId id;
    DType dtype;
    std::int64_t rows, cols;
    bool readable;  // state, or written as a whole
    std::int64_t elements() const { return rows * cols; }
  };

  static std::string weights_name(DType dtype) { return "weights." + std::string(to_string(dtype)); }

  // Sizes divide by every number of ranks up to four, and a few take several chunks of a kernel.
  void add_random_tensor(std::size_t index) {
    constexpr std::int64_t kRows[] = {4, 12, 24, 60}, kCols[] = {12, 36, 96};
    const bool large = draws_.chance(12);
    const std::int64_t rows = large ? 120 : kRows[draws_.below(4)], cols = large ? 600 : kCols[draws_.below(3)];
    const bool state = draws_.chance(40) || index < 2;
    const DType dtype = index != 0 && (index == 1 || draws_.chance(25)) ? DType::bf16 : DType::f32;
    const graph::TensorId id = builder_.add_tensor(
        {"t" + std::to_string(index), dtype, {rows, cols}, state ? graph::Role::parameter : graph::Role::activation});
    tensors_.push_back({id, dtype, rows, cols, state});
  }

  graph::View part(const Known& tensor, std::int64_t n) {
    return {tensor.id, draws_.between(0, tensor.elements() - n), 1, n, n};
  }

  // A readable tensor of at least n elements, other than `target`.
  const Known* source(DType dtype, std::int64_t n, const Known* target) {
    std::vector<const Known*> found;
    for (const Known& tensor : tensors_) {
      if (tensor.readable && tensor.dtype == dtype && tensor.elements() >= n && &tensor != target) {
        found.push_back(&tensor);
      }
    }
    return found.empty() ? nullptr : found[draws_.below(found.size())];
  }

  // The window of its target that a task writes: all of it the first time, then any.
  graph::View window(const Known& target) {
    if (!target.readable || draws_.chance(40)) return {target.id, 0, target.rows, target.cols, target.cols};
    const std::int64_t rows = draws_.between(1, target.rows), cols = draws_.between(1, target.cols);
    const std::int64_t row = draws_.between(0, target.rows - rows), col = draws_.between(0, target.cols - cols);
    return {target.id, row * target.cols + col, rows, cols, target.cols};
  }
  std::int64_t length(const Known& target, std::int64_t multiple = 1) {
    if (!target.readable || draws_.chance(40)) return target.elements();
    return multiple * draws_.between(1, target.elements() / multiple);
  }
  graph::View weights(DType dtype, std::int64_t rows, std::int64_t cols) {
    const std::int64_t offset = draws_.between(0, kWeights - rows * cols);
    return {dtype == DType::f32 ? weights_f32_ : weights_bf16_, offset, rows, cols, cols};
  }
  graph::View scratch(DType dtype, std::int64_t n, graph::Role role) {
    const std::string name = "scratch" + std::to_string(tasks_);
    return graph::whole(builder_, builder_.add_tensor({name, dtype, {n}, role}));
  }

  void add(std::string name, graph::Operation operation, std::vector<graph::Access> accesses) {
    builder_.add_task({std::move(name), std::move(operation), std::move(accesses)});
  }

  void add_random_task() {
    Known& target = tensors_[draws_.below(tensors_.size())];
    const bool collective = options_.channels > 0 && draws_.chance(options_.collective_percent);
    if (collective ? add_collective(target) : add_computation(target)) {
      target.readable = true;
      ++tasks_;
    }
  }

  bool add_computation(const Known& target) {
    const std::string name = "k" + std::to_string(tasks_);
    switch (draws_.below(5)) {
      case 0: {
        const std::int64_t n = length(target);
        const Known *a = source(target.dtype, n, &target), *b = source(target.dtype, n, &target);
        if (a == nullptr) return false;
        add(name, graph::Add{n}, {graph::read(part(*a, n)), graph::read(part(*b, n)), graph::write(part(target, n))});
        return true;
      }
      case 1: {
        const std::int64_t n = length(target);
        const Known* x = source(target.dtype, n, &target);
        if (x == nullptr) return false;
        add(name, graph::GeluForward{n}, {graph::read(part(*x, n)), graph::write(part(target, n))});
        return true;
      }
      case 2:
        return add_product(target);
      case 3: {
        const graph::View y = window(target);
        const Known* x = source(target.dtype, y.elements(), &target);
        if (x == nullptr) return false;
        graph::View in = part(*x, y.elements());
        in.rows = y.rows, in.cols = in.row_stride = y.cols;
        add(name, graph::RmsNormForward{y.rows, y.cols, 1e-5F},
            {graph::read(in), graph::read(weights(target.dtype, 1, y.cols)), graph::write(y),
             graph::write(scratch(DType::f32, y.rows, graph::Role::activation))});
        return true;
      }
      default: {
        if (!target.readable || target.dtype != DType::f32) return false;
        const std::int64_t n = length(target);
        add(name, graph::SumSquares{n},
            {graph::read(part(target, n)), graph::write({norms_, static_cast<std::int64_t>(tasks_), 1, 1, 1})});
        return true;
      }
    }
  }

  bool add_product(const Known& target) {
    const graph::View c = window(target);
    const std::int64_t k = draws_.between(1, std::min<std::int64_t>(64, kWeights / c.cols));
    const Known* x = source(target.dtype, c.rows * k, &target);
    if (x == nullptr) return false;
    graph::Gemm gemm{c.rows, c.cols, k};
    gemm.trans_a = draws_.chance(50), gemm.trans_b = draws_.chance(50), gemm.has_bias = draws_.chance(50);
    gemm.accumulate = target.readable && draws_.chance(50);
    graph::View a = part(*x, c.rows * k);
    a.rows = gemm.trans_a ? k : c.rows;
    a.cols = a.row_stride = gemm.trans_a ? c.rows : k;
    const graph::View b = gemm.trans_b ? weights(target.dtype, c.cols, k) : weights(target.dtype, k, c.cols);
    std::vector<graph::Access> accesses = {graph::read(a), graph::read(b),
                                           gemm.accumulate ? graph::read_write(c) : graph::write(c)};
    if (gemm.has_bias) accesses.push_back(graph::read(weights(target.dtype, 1, c.cols)));
    add("k" + std::to_string(tasks_), gemm, std::move(accesses));
    return true;
  }

  bool add_collective(const Known& target) {
    constexpr graph::Channel kChannels[] = {graph::Channel::data, graph::Channel::x, graph::Channel::z_gather};
    const graph::Channel channel = kChannels[draws_.below(options_.channels)];
    const std::string name = "c" + std::to_string(tasks_);
    switch (draws_.below(4)) {
      case 0: {
        if (!target.readable) return false;
        const std::int64_t n = length(target);
        add(name, graph::AllReduce{channel, ranks_, n},
            {graph::read_write(part(target, n)),
             graph::write(scratch(target.dtype, graph::all_reduce_workspace(n, ranks_), graph::Role::workspace))});
        return true;
      }
      case 1: {
        const std::int64_t n = target.readable ? std::max<std::int64_t>(1, length(target) / 4) : target.elements();
        const Known* in = source(target.dtype, ranks_ * n, &target);
        if (in == nullptr) return false;
        add(name, graph::ReduceScatter{channel, ranks_, n},
            {graph::read(part(*in, ranks_ * n)), graph::write(part(target, n)),
             graph::write(scratch(target.dtype, (ranks_ - 1) * n, graph::Role::workspace))});
        return true;
      }
      case 2: {
        const std::int64_t n = length(target, ranks_);
        const Known* in = source(target.dtype, n / ranks_, &target);
        if (in == nullptr) return false;
        add(name, graph::AllGather{channel, ranks_, n / ranks_},
            {graph::read(part(*in, n / ranks_)), graph::write(part(target, n))});
        return true;
      }
      default: {
        if (!target.readable) return false;
        const std::int64_t n = length(target);
        add(name, graph::Broadcast{channel, ranks_, n, draws_.between(0, ranks_ - 1)},
            {graph::read_write(part(target, n))});
        return true;
      }
    }
  }

  void add_sink(const Known& tensor) {
    if (!tensor.readable || graph::is_state(builder_.tensor(tensor.id).role)) return;
    const std::string name = "sink." + builder_.tensor(tensor.id).name;
    const graph::TensorId sink = builder_.add_tensor({name, tensor.dtype, {tensor.elements()}, graph::Role::parameter});
    const graph::View x = graph::whole(builder_, tensor.id);
    add(name, graph::Add{tensor.elements()},
        {graph::read(x), graph::read(x), graph::write(graph::whole(builder_, sink))});
  }

  Draws draws_;
  ExecutableGraphOptions options_;
  std::int64_t ranks_;
  graph::GraphBuilder builder_;
  graph::TensorId weights_f32_, weights_bf16_, norms_;
  std::vector<Known> tensors_;
  std::size_t tasks_ = 0;
};

inline std::shared_ptr<const graph::Graph> executable_graph(std::uint64_t seed, int ranks,
                                                            const ExecutableGraphOptions& options = {}) {
  return ExecutableGraph(seed, ranks, options).build();
}

/// The first values of a state tensor of one rank: in (−1, 1), weights in (−1/8, 1/8), one in sixteen denormal, to
/// reveal a thread that doesn't flush them.
inline void fill(const graph::Tensor& tensor, std::byte* data, int rank) {
  const std::uint64_t seed = Fingerprint().add(tensor.name).add(static_cast<std::uint64_t>(rank)).value();
  Draws draws(seed);
  const float scale = tensor.name.starts_with("weights") ? 0.125F : 1.0F;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    float value = scale * (static_cast<float>(draws.below(1U << 24)) / (1 << 23) - 1.0F);
    if (i % 16 == 5) value = std::bit_cast<float>(static_cast<std::uint32_t>(draws.below(1U << 23)));
    if (tensor.dtype == DType::f32) {
      std::memcpy(data + i * 4, &value, 4);
    } else {
      const bf16 rounded(value);
      std::memcpy(data + i * 2, &rounded, 2);
    }
  }
}

/// A rank's state tensors by name.
using StateBytes = std::map<std::string, std::vector<std::byte>>;

inline StateBytes bytes_of(const graph::Graph& graph, const execute::State& state) {
  StateBytes all;
  for (const graph::Tensor& tensor : graph.tensors()) {
    if (!graph::is_state(tensor.role)) continue;
    const std::byte* data = state.data(tensor.name);
    all[tensor.name].assign(data, data + tensor.bytes());
  }
  return all;
}

inline void fill(const graph::Graph& graph, const execute::State& state, int rank) {
  for (const graph::Tensor& tensor : graph.tensors()) {
    if (graph::is_state(tensor.role)) fill(tensor, state.data(tensor.name), rank);
  }
}

/// Runs all ranks in one thread, task by task in program order, each tensor in memory of its own; collectives are plain
/// loops. Nothing of plans, executors and communicators takes part.
class Reference {
 public:
  Reference(std::shared_ptr<const graph::Graph> graph, int ranks) : graph_(std::move(graph)), ranks_(ranks) {
    cpu::Scratch scratch;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& tensors = memory_.emplace_back();
      for (const graph::Tensor& tensor : graph_->tensors()) {
        tensors.emplace_back(tensor.bytes());
        if (graph::is_state(tensor.role)) fill(tensor, tensors.back().data(), rank);
      }
      auto& prepared = tasks_.emplace_back();
      for (const graph::Task& task : graph_->tasks()) {
        auto& slot = prepared.emplace_back();
        if (graph::is_collective(task.operation)) continue;
        std::vector<cpu::Matrix> arguments;
        for (const graph::Access& access : task.accesses) {
          const graph::View& view = access.view;
          arguments.push_back(
              {at(rank, access), view.rows, view.cols, view.row_stride, graph_->tensor(view.tensor).dtype});
        }
        slot.emplace(task.operation, arguments);
        scratch.worker_bytes = std::max(scratch.worker_bytes, slot->scratch().worker_bytes);
        scratch.shared_bytes = std::max(scratch.shared_bytes, slot->scratch().shared_bytes);
      }
    }
    workers_.reserve(scratch);
  }

  void step() {
    cpu::prepare_thread();
    for (std::size_t t = 0; t < graph_->tasks().size(); ++t) {
      const graph::Task& task = graph_->tasks()[t];
      if (graph::is_collective(task.operation)) {
        communicate(task);
      } else {
        for (auto& prepared : tasks_) prepared[t]->run(workers_);
      }
    }
  }

  StateBytes state(int rank) const {
    StateBytes all;
    for (std::size_t i = 0; i < graph_->tensors().size(); ++i) {
      const graph::Tensor& tensor = graph_->tensors()[i];
      if (!graph::is_state(tensor.role)) continue;
      const std::byte* data = memory_[static_cast<std::size_t>(rank)][i].data();
      all[tensor.name].assign(data, data + tensor.bytes());
    }
    return all;
  }

 private:
  std::byte* at(int rank, const graph::Access& access) const {
    const std::size_t tensor = access.view.tensor.index();
    return memory_[static_cast<std::size_t>(rank)][tensor].data() +
           access.view.offset * static_cast<std::int64_t>(size_of(graph_->tensors()[tensor].dtype));
  }

  void communicate(const graph::Task& task) {
    const DType dtype = graph_->tensor(task.accesses[0].view.tensor).dtype;
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    const auto copy = [&](int to, std::size_t to_access, std::int64_t offset, const std::byte* from, std::int64_t n) {
      std::memcpy(at(to, task.accesses[to_access]) + offset * size, from, static_cast<std::size_t>(n * size));
    };
    if (const auto* op = std::get_if<graph::AllReduce>(&task.operation)) {
      const std::vector<std::byte> sum = sum_of(task.accesses[0], dtype, 0, op->count);
      for (int rank = 0; rank < ranks_; ++rank) copy(rank, 0, 0, sum.data(), op->count);
    } else if (const auto* scatter = std::get_if<graph::ReduceScatter>(&task.operation)) {
      for (int rank = 0; rank < ranks_; ++rank) {
        copy(rank, 1, 0, sum_of(task.accesses[0], dtype, rank * scatter->count, scatter->count).data(), scatter->count);
      }
    } else if (const auto* gather = std::get_if<graph::AllGather>(&task.operation)) {
      for (int rank = 0; rank < ranks_; ++rank) {
        for (int from = 0; from < ranks_; ++from) {
          copy(rank, 1, from * gather->count, at(from, task.accesses[0]), gather->count);
        }
      }
    } else {
      const auto& broadcast = std::get<graph::Broadcast>(task.operation);
      const std::byte* from = at(static_cast<int>(broadcast.root), task.accesses[0]);
      for (int rank = 0; rank < ranks_; ++rank) {
        if (rank != broadcast.root) copy(rank, 0, 0, from, broadcast.count);
      }
    }
  }

  // Elements [first, first + count) of an access, summed over the ranks in fp32, in rank order, rounded once.
  std::vector<std::byte> sum_of(const graph::Access& access, DType dtype, std::int64_t first,
                                std::int64_t count) const {
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    std::vector<std::byte> sum(static_cast<std::size_t>(count * size));
    if (ranks_ == 1) {
      std::memcpy(sum.data(), at(0, access) + first * size, sum.size());
      return sum;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      float total = 0;
      for (int rank = 0; rank < ranks_; ++rank) {
        const std::byte* from = at(rank, access) + (first + i) * size;
        float value = 0;
        if (dtype == DType::f32) {
          std::memcpy(&value, from, 4);
        } else {
          bf16 stored;
          std::memcpy(&stored, from, 2);
          value = static_cast<float>(stored);
        }
        total = rank == 0 ? value : total + value;
      }
      const bf16 rounded(total);
      std::memcpy(sum.data() + i * size, dtype == DType::f32 ? static_cast<const void*>(&total) : &rounded,
                  static_cast<std::size_t>(size));
    }
    return sum;
  }

  std::shared_ptr<const graph::Graph> graph_;
  int ranks_;
  std::vector<std::vector<Buffer>> memory_;                               // [rank][tensor]
  std::vector<std::vector<std::optional<execute::PreparedTask>>> tasks_;  // [rank][task]
  cpu::Workers workers_{1};
};

/// The state of every rank after some steps of the reference.
inline std::vector<StateBytes> reference_states(const std::shared_ptr<const graph::Graph>& graph, int ranks,
                                                int steps) {
  Reference reference(graph, ranks);
  for (int step = 0; step < steps; ++step) reference.step();
  std::vector<StateBytes> states;
  for (int rank = 0; rank < ranks; ++rank) states.push_back(reference.state(rank));
  return states;
}

/// "" or the tensors that differ, each with its first byte that does.
inline std::string difference(const StateBytes& expected, const StateBytes& actual) {
  if (expected.size() != actual.size()) return "other tensors";
  std::string text;
  for (const auto& [name, bytes] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end() || found->second.size() != bytes.size()) return name + " is missing or of another size";
    const auto at = std::mismatch(bytes.begin(), bytes.end(), found->second.begin()).first;
    if (at != bytes.end()) text += name + " differs at byte " + std::to_string(at - bytes.begin()) + "; ";
  }
  return text;
}

}  // namespace weft::testing
