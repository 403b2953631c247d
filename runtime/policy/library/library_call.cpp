#include "runtime/policy/library/library_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

LibraryCall& call_of(void* context) {
  return *static_cast<LibraryCall*>(context);
}

}  // namespace

LibraryCall::LibraryCall(const std::string& path, const std::string& parameters, const graph::Graph& graph,
                         const PolicyOptions& options)
    : path_(path),
      graph_(graph),
      options_(options),
      streams_(plan::streams_of(graph, options.compute_streams)),
      costs_(costs_of(graph, options)),
      problem_(graph, streams_, costs_, options, parameters),
      host_{.size = sizeof(weft2_host),
            .context = this,
            .simulate = simulate,
            .add_rewrite = add_rewrite,
            .add_reason = add_reason,
            .error = error,
            .fail = fail,
            .schedule = schedule} {}

std::vector<plan::Rewrite> LibraryCall::rewrites(const ForeignRewrites& function) {
  of_ = Of::rewrites;
  run("rewrites()", [&] { return function(&problem_.problem(), &host_); });
  return std::move(rewrites_);
}

plan::Order LibraryCall::order(const ForeignOrder& function) {
  of_ = Of::order;
  LibraryAnswer answer(graph_.tasks().size());
  weft2_order order = {.size = sizeof(weft2_order),
                       .sequence = answer.sequence.data(),
                       .streams = answer.streams.data(),
                       .reasons = answer.reason_of.data(),
                       .edges = nullptr,
                       .edge_count = 0};
  run("order()", [&] { return function(&problem_.problem(), &host_, &order); });
  answer.edges = edges_of(order);
  return order_of_answer(path_, graph_, streams_, answer, reasons_);
}

void LibraryCall::run(const char* name, const std::function<std::int32_t()>& function) {
  std::int32_t failed = 0;
  std::string thrown;
  try {
    failed = function();
  } catch (const UserError&) {  // of a policy that isn't called through C: already in words for its author
    throw;
  } catch (const std::exception& exception) {
    thrown = fmt::format("an exception left {}: {}", name, exception.what());
  } catch (...) {
    thrown = fmt::format("an exception left {}", name);
  }
  if (!thrown.empty()) refuse_library(path_, thrown, "catch it, tell fail() why, and return a number other than 0");
  if (failed != 0) {
    refuse_library(
        path_, failure_.empty() ? fmt::format("{} returns {} without a word to fail()", name, failed) : failure_, "");
  }
  if (too_many_) refuse_library(path_, "it adds more than ten million reasons", "add each once");
}

std::vector<graph::Edge> LibraryCall::edges_of(const weft2_order& order) const {
  if (order.edge_count > kMostAdded || (order.edge_count > 0 && order.edges == nullptr)) {
    refuse_library(path_, fmt::format("its order has {} edges", order.edge_count),
                   "an array of at most ten million edges, or none");
  }
  std::vector<graph::Edge> edges;
  for (const weft2_added_edge& edge : std::span(order.edges, order.edge_count)) {
    edges.push_back({graph::TaskId(std::size_t{edge.from}), graph::TaskId(std::size_t{edge.to}),
                     edge.issued_before != 0 ? graph::EdgeKind::issued_before : graph::EdgeKind::completes_before,
                     graph::EdgeReason::policy, edge.distance, graph::TensorId()});
  }
  return edges;
}

/// The library's own arrays as an order.
plan::Order LibraryCall::order_to_simulate(const weft2_order& order) const {
  LibraryAnswer answer(graph_.tasks().size());
  if (order.size < sizeof(weft2_order) || order.sequence == nullptr || order.streams == nullptr) {
    refuse_library(path_, "an order to simulate without size, sequence or streams",
                   "set size to sizeof(weft2_order), and both arrays");
  }
  std::copy_n(order.sequence, answer.sequence.size(), answer.sequence.begin());
  std::copy_n(order.streams, answer.streams.size(), answer.streams.begin());
  answer.edges = edges_of(order);
  return order_of_answer(path_, graph_, streams_, answer, {plan::Reason{.table = &kLibraryReasons}});
}

void LibraryCall::simulate_into(const weft2_order& orders, weft2_simulation& result) const {
  if (of_ != Of::order) refuse_library(path_, "it simulates in rewrites()", "simulate in order()");
  const plan::Order order = order_to_simulate(orders);
  const Timetable table = timetable_of(graph_, order, costs_, options_);
  result.step_ns = table.makespan;
  if (result.begin_ns != nullptr) std::ranges::copy(table.start, result.begin_ns);
  if (result.end_ns != nullptr) std::ranges::copy(table.finish, result.end_ns);
  if (result.scratch_bytes == nullptr) return;
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph_);
  *result.scratch_bytes = plan::make_plan(borrowed, order, "simulated").scratch_bytes;
}

void LibraryCall::schedule_into(const double* priorities, weft2_order& order, double* step_ns) {
  if (of_ != Of::order) refuse_library(path_, "it schedules in rewrites()", "schedule in order()");
  if (priorities == nullptr || order.sequence == nullptr || order.streams == nullptr) {
    refuse_library(path_, "a list schedule without priorities, sequence or streams", "set all of them");
  }
  const std::span<const double> of_tasks(priorities, graph_.tasks().size());
  if (std::ranges::any_of(of_tasks, [](double priority) { return std::isnan(priority); })) {
    refuse_library(path_, "a priority is no number (NaN)", "a finite number for each task");
  }
  if (!scheduler_) scheduler_.emplace(graph_, costs_, options_);
  const double step = scheduler_->run(of_tasks);
  if (step_ns != nullptr) *step_ns = step;
  const plan::Order made = scheduler_->order();
  for (std::size_t i = 0; i < made.sequence.size(); ++i) {
    order.sequence[i] = made.sequence[i].task.value;
    order.streams[i] = made.sequence[i].stream.value;
  }
}

/// 0, or 1 with the reason in error().
std::int32_t LibraryCall::guarded(const std::function<void()>& function) noexcept {
  try {
    function();
    return 0;
  } catch (const std::exception& exception) {
    error_ = exception.what();
  } catch (...) {
    error_ = "an unknown exception";
  }
  return 1;
}

std::int32_t LibraryCall::simulate(void* context, const weft2_order* orders, weft2_simulation* result) noexcept {
  LibraryCall& call = call_of(context);
  return call.guarded([&] { call.simulate_into(*orders, *result); });
}

std::int32_t LibraryCall::schedule(void* context, const double* priorities, weft2_order* order,
                                   double* step_ns) noexcept {
  LibraryCall& call = call_of(context);
  return call.guarded([&] { call.schedule_into(priorities, *order, step_ns); });
}

std::int32_t LibraryCall::add_rewrite(void* context, const char* text) noexcept {
  LibraryCall& call = call_of(context);
  return call.guarded([&] {
    if (call.of_ != Of::rewrites) throw UserError("add_rewrite() in order()", "rewrites in rewrites()", "move it");
    const std::vector<plan::Rewrite> more = plan::parse_rewrites(text);
    call.rewrites_.insert(call.rewrites_.end(), more.begin(), more.end());
  });
}

std::uint32_t LibraryCall::add_reason(void* context, const char* text, std::uint32_t for_memory) noexcept {
  LibraryCall& call = call_of(context);
  if (text == nullptr) return 0;
  if (call.reasons_.size() >= kMostAdded) {
    call.too_many_ = true;
    return 0;
  }
  call.reasons_.push_back({.text = for_memory != 0 ? std::string(plan::kForMemory) + text : text});
  return static_cast<std::uint32_t>(call.reasons_.size() - 1);
}

const char* LibraryCall::error(void* context) noexcept {
  return call_of(context).error_.c_str();
}

void LibraryCall::fail(void* context, const char* message) noexcept {
  call_of(context).failure_ = message == nullptr ? "" : message;
}

}  // namespace weft::policy
