#include "ops/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "ops/collectives.h"
#include "ops/expert_exchange.h"
#include "ops/layers.h"

namespace weft::ops {
namespace {

// A layer's choice of experts, and where its tokens' rows are. `tokens` is the number of them, `rows` that of their
// rows for all chosen experts.
struct Routes {
  std::int64_t tokens, experts, choices, rows;
  Value logits;
  graph::View chosen;
  graph::TensorId weights, slots, sources, offsets;
  HeldRows held;  // that the rank's experts multiply
};

// The input of all tokens: with sequence parallelism a rank of y has some of them.
graph::TensorId whole_input(Lowering& low, const Value& x) {
  return low.sequence_parallel() ? all_gather(low, "all_gather_x", x.tensor, graph::Channel::y) : x.tensor;
}

// Sums [tokens, cols] over y, to the rows that a rank of y has.
graph::TensorId sum_over_y(Lowering& low, const char* what, graph::TensorId tensor, const Value& like) {
  if (low.sequence_parallel()) {
    return reduce_scatter(low, fmt::format("reduce_scatter{}", what), tensor, {like.rows, like.cols},
                          graph::Role::activation, graph::Channel::y);
  }
  all_reduce(low, fmt::format("all_reduce{}", what), tensor, like.rows * like.cols, graph::Channel::y);
  return tensor;
}

graph::TensorId integers(Lowering& low, std::string_view name, std::vector<std::int64_t> shape) {
  return low.scratch(name, DType::i32, std::move(shape), graph::Role::activation);
}

// A part of the state that has one for each micro-batch.
graph::View of_micro_batch(Lowering& low, std::int64_t layer, std::string_view name, DType dtype, std::int64_t count,
                           const StepRouting& step, graph::Role role = graph::Role::scalar) {
  const std::int64_t micro_batch = std::max<std::int64_t>(0, low.here().micro_batch);
  const graph::TensorId all = low.named(names::of_router(layer, name), dtype, {step.micro_batches, count}, role);
  return low.elements(all, micro_batch * count, count);
}

// The experts of each token: scratch, or state where people have them or give them.
graph::View place_of_choice(Lowering& low, const Routes& r, std::int64_t layer,
                            const std::optional<StepRouting>& of_step) {
  if (!of_step || of_step->routing == Routing::free) return low.view(integers(low, "chosen", {r.tokens, r.choices}));
  return of_micro_batch(low, layer, names::kChosen, DType::i32, r.rows, *of_step,
                        of_step->routing == Routing::replayed ? graph::Role::input : graph::Role::scalar);
}

void count_choices(Lowering& low, const Routes& r, std::int64_t layer, const StepRouting& step) {
  const auto part = [&](std::string_view name, DType dtype, std::int64_t count) {
    return graph::write(of_micro_batch(low, layer, name, dtype, count, step));
  };
  low.emit("count", graph::CountChoices{{r.tokens, r.experts, r.choices}},
           {{"logits", low.read(r.logits.tensor)},
            {"chosen", graph::read(r.chosen)},
            {"offsets", low.read(r.offsets)},
            {"counts", part(names::kCounts, DType::i32, r.experts)},
            {"margin", part(names::kMargin, DType::f32, 1)},
            {"flips", part(names::kFlips, DType::i32, 1)}});
}

// The tokens' logits, their experts, and the rows in the order of the experts. Their gradients are computed beside the
// experts' (gather_and_multiply()), with which they share x; here the router's is complete.
Routes route(Lowering& low, graph::TensorId input, Parameter& router, std::int64_t layer,
             const std::optional<StepRouting>& of_step) {
  const ModelConfig& model = low.model();
  const std::int64_t tokens = low.tensor(input).shape.front(), cols = low.tensor(input).shape.back();
  Routes r{tokens, model.experts, model.experts_per_token, tokens * model.experts_per_token, {}, {}, {}, {}, {}, {},
           {}};
  const bool normalise = model.normalise_experts;
  r.logits = {low.scratch("logits", DType::f32, {tokens, r.experts}, graph::Role::activation), tokens, r.experts};
  low.emit("gemm", graph::Gemm{tokens, r.experts, cols, false, true},
           {{"A", low.read(input)}, {"B", low.read(low.weight(router))}, {"C", low.write(r.logits.tensor)}});
  all_reduce(low, "all_reduce", r.logits.tensor, tokens * r.experts, graph::Channel::x);
  r.chosen = place_of_choice(low, r, layer, of_step);
  r.weights = low.scratch("weights", DType::f32, {tokens, r.choices}, graph::Role::activation);
  const bool given = of_step && of_step->routing == Routing::replayed;
  low.emit("route", graph::Route{{tokens, r.experts, r.choices, normalise}, given},
           {{"logits", low.read(r.logits.tensor)},
            {"chosen", given ? graph::read(r.chosen) : graph::write(r.chosen)},
            {"weights", low.write(r.weights)}});
  r.slots = integers(low, "slots", {tokens, r.choices});
  r.sources = integers(low, "sources", {r.rows});
  r.offsets = integers(low, "offsets", {r.experts + 1});
  low.emit("sort", graph::SortByExpert{{tokens, r.experts, r.choices}},
           {{"chosen", graph::read(r.chosen)},
            {"slots", low.write(r.slots)},
            {"sources", low.write(r.sources)},
            {"offsets", low.write(r.offsets)}});
  if (of_step && !low.recomputing()) count_choices(low, r, layer, *of_step);
  r.held = held_rows(low, r.offsets, tokens, r.choices);
  low.record({&router}, [](Lowering& /*low*/) {});
  return r;
}

graph::TensorId gather(Lowering& low, const char* what, const Routes& r, graph::TensorId input, std::int64_t cols) {
  const graph::TensorId rows = low.activation(what, r.rows, cols);
  low.emit(what, graph::GatherRows{r.tokens, r.choices, cols},
           {{"x", low.read(input)}, {"sources", low.read(r.sources)}, {"out", low.write(rows)}});
  return rows;
}

// rows [held.rows, k]·op(W_e), each by its expert's matrix.
graph::TensorId multiply(Lowering& low, const char* what, const HeldRows& held, graph::TensorId rows, Parameter& weight,
                         bool transposed) {
  const std::int64_t out = weight.shard->rows / held.experts, in = weight.shard->cols;
  const std::int64_t n = transposed ? out : in, k = transposed ? in : out;
  const graph::TensorId product = low.activation(transposed ? "out" : "dx", held.rows, n);
  low.emit(what, graph::GroupedGemm{held.rows, n, k, held.experts, transposed, held.expected},
           {{"A", low.read(rows)},
            {"B", low.read(low.weight(weight))},
            {"offsets", low.read(held.offsets)},
            {"C", low.write(product)}});
  return product;
}

void add_gradient_of_experts(Lowering& low, const HeldRows& held, graph::TensorId dout, graph::TensorId in,
                             Parameter& weight) {
  const auto dw = low.gradient_slot(weight);
  low.emit("gemm_dw",
           graph::GroupedGemmGradient{held.rows, weight.shard->rows / held.experts, weight.shard->cols, held.experts,
                                      dw.accumulate, held.expected},
           {{"A", low.read(dout)}, {"B", low.read(in)}, {"offsets", low.read(held.offsets)}, {"C", low.result(dw)}});
}

// The gradient of all tokens' inputs, of the rank's columns of the experts: of its rows, and of the logits.
graph::TensorId gradient_of_tokens(Lowering& low, const Routes& r, graph::TensorId drows, Parameter& router,
                                   std::int64_t cols) {
  const graph::TensorId dx = low.activation("dx_of_tokens", r.tokens, cols);
  low.emit("combine_dx", graph::CombineRows{{r.tokens, r.choices, cols}},
           {{"y", low.read(drows)}, {"slots", low.read(r.slots)}, {"out", low.write(dx)}});
  graph::Gemm of_logits{r.tokens, cols, r.experts};
  of_logits.accumulate = true;
  low.emit("router_dx", of_logits,
           {{"A", low.read(low.gradient(r.logits))}, {"B", low.read(low.weight(router))}, {"C", low.read_write(dx)}});
  return dx;
}

// The rows of all experts times their matrices up. Rows are gathered again for the backward pass, so that x alone is
// kept for it; rows that came from neighbours are kept, so that they are sent once.
Value gather_and_multiply(Lowering& low, const Value& x, const Routes& r, graph::TensorId input, Parameter& up,
                          Parameter& router) {
  const bool again = !low.recomputing();
  const graph::TensorId rows = give_rows(low, "exchange", r.held, gather(low, "gather", r, input, x.cols));
  const Value out{multiply(low, "gemm", r.held, rows, up, true), r.held.rows, up.shard->rows / r.held.experts};
  all_reduce(low, "all_reduce", out.tensor, out.rows * out.cols, graph::Channel::x);
  low.record({&up}, [=, &up, &router](Lowering& l) {
    const graph::TensorId dout = l.gradient(out);
    const graph::TensorId drows =
        return_rows(l, "exchange_dx", r.held, multiply(l, "gemm_dx", r.held, dout, up, false));
    l.add_gradient(x, sum_over_y(l, "_dx", gradient_of_tokens(l, r, drows, router, x.cols), x));
    const graph::TensorId whole = again ? whole_input(l, x) : input;
    const bool gathers = again && !r.held.exchanged();
    add_gradient_of_experts(l, r.held, dout, gathers ? gather(l, "gather_again", r, whole, x.cols) : rows, up);
    const auto dw = l.gradient_slot(router);
    l.emit("router_dw", graph::Gemm{r.experts, x.cols, r.tokens, true, false, dw.accumulate},
           {{"A", l.read(l.gradient(r.logits))}, {"B", l.read(whole)}, {"C", l.result(dw)}});
  });
  return out;
}

// The experts' results of `in`, added for each token.
Value multiply_and_combine(Lowering& low, const Value& in, const Routes& r, Parameter& down, const Value& like) {
  const std::int64_t cols = like.cols;
  const graph::TensorId rows =
      return_rows(low, "exchange", r.held, multiply(low, "gemm", r.held, in.tensor, down, true));
  const graph::TensorId sum = low.activation("sum", r.tokens, cols);
  low.emit(
      "combine", graph::CombineRows{{r.tokens, r.choices, cols}, true},
      {{"y", low.read(rows)}, {"slots", low.read(r.slots)}, {"weights", low.read(r.weights)}, {"out", low.write(sum)}});
  const Value out{sum_over_y(low, "", sum, like), like.rows, cols};
  const bool normalise = low.model().normalise_experts;
  low.record({&down}, [=, &down](Lowering& l) {
    graph::TensorId dout = l.gradient(out);
    if (l.sequence_parallel()) dout = all_gather(l, "all_gather_dy", dout, graph::Channel::y);
    const graph::TensorId drows = l.activation("drows", r.rows, cols);
    const graph::TensorId dweights = l.scratch("dweights", DType::f32, {r.tokens, r.choices}, graph::Role::activation);
    l.emit("combine_dx", graph::CombineRowsBackward{{r.tokens, r.choices, cols}},
           {{"y", l.read(rows)},
            {"dout", l.read(dout)},
            {"slots", l.read(r.slots)},
            {"weights", l.read(r.weights)},
            {"dy", l.write(drows)},
            {"dweights", l.write(dweights)}});
    const graph::TensorId held_drows = give_rows(l, "exchange_dx", r.held, drows);
    const graph::TensorId din = multiply(l, "gemm_dx", r.held, held_drows, down, false);
    all_reduce(l, "all_reduce_dx", din, in.rows * in.cols, graph::Channel::x);
    l.add_gradient(in, din);
    all_reduce(l, "all_reduce_dweights", dweights, r.rows, graph::Channel::x);
    const graph::TensorId dlogits = l.activation("dlogits", r.tokens, r.experts);
    l.emit("route_dx", graph::RouteBackward{r.tokens, r.experts, r.choices, normalise},
           {{"logits", l.read(r.logits.tensor)},
            {"chosen", graph::read(r.chosen)},
            {"dweights", l.read(dweights)},
            {"dlogits", l.write(dlogits)}});
    l.set_gradient(r.logits, dlogits);
    add_gradient_of_experts(l, r.held, held_drows, in.tensor, down);
  });
  return out;
}

}  // namespace

Value experts(Lowering& low, Value x, std::int64_t layer, const std::optional<StepRouting>& of_step) {
  const std::string name = fmt::format("L{}.mlp.", layer);
  Parameter& router = low.parameter(name + "router.weight");
  graph::TensorId input;
  Routes routes;
  {
    auto scope = low.enter("router");
    input = whole_input(low, x);
    routes = route(low, input, router, layer, of_step);
  }
  auto scope = low.enter("experts");
  Value rows;
  {
    auto up_scope = low.enter("up");
    rows = gather_and_multiply(low, x, routes, input, low.parameter(name + "experts.up.weight"), router);
  }
  {
    auto activation_scope = low.enter("act");
    const HeldRows& held = routes.held;
    rows = activation(low, rows, held.exchanged() ? RowGroups{held.experts, held.expected, held.offsets} : RowGroups());
  }
  auto down_scope = low.enter("down");
  return multiply_and_combine(low, rows, routes, low.parameter(name + "experts.down.weight"), x);
}

}  // namespace weft::ops
