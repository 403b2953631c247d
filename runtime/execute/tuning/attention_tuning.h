// What computes each attention on a GPU, by shape, strides and direction, as measured by `weft tune`: one of cuDNN's
// engines, or Weft's own kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/operation.h"

namespace weft::execute {

template <class Op>
class Call;  // runtime/execute/task_arguments.h

/// Causal attention in bf16 over whole sequences, or its gradient.
struct AttentionProblem {
  std::int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  /// Elements between rows of q, k, v, out, dout, dq, dk and dv. Without the gradient the last four are 0.
  std::array<std::int64_t, 8> strides = {};
  bool backward = false;
  bool any_bits = false;  // engines that don't repeat their bits may compute it, too

  auto operator<=>(const AttentionProblem&) const = default;
};

/// "8x1024, 12 heads of 64 bf16 backward": for tables and messages. Strides are named where rows don't touch.
std::string to_string(const AttentionProblem& problem);

/// Null where only Weft's own kernels can compute it: another dtype, a window, documents, another scale.
std::optional<AttentionProblem> problem_of(const Call<graph::AttentionForward>& call);
std::optional<AttentionProblem> problem_of(const Call<graph::AttentionBackward>& call);
/// Of a task in a graph: equal to that of the task as it is prepared. Null for tasks that are no attention, too.
std::optional<AttentionProblem> attention_problem_of(const graph::Graph& graph, const graph::Task& task);

struct AttentionMethod {
  std::string engine = {};    // of cuDNN, "eng5_k24=3": its number and its knobs; empty: Weft's own kernel
  bool deterministic = true;  // the same inputs give the same bits
  bool operator==(const AttentionMethod&) const = default;
};

/// "weft", "cudnn eng5_k24=3", "cudnn eng5 any-bits": the only form that parse_attention_method() reads.
std::string to_string(const AttentionMethod& method);
std::optional<AttentionMethod> parse_attention_method(std::string_view text);

struct AttentionChoice {
  AttentionProblem problem;
  AttentionMethod method;
};

}  // namespace weft::execute
