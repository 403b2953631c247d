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
#include "runtime/policy/scheduling/class_tasks.h"
#include "runtime/policy/scheduling/timetable.h"
#include "runtime/policy/scratch_limit.h"

namespace weft::policy {
namespace {

LibraryCall& call_of(void* context) {
  return *static_cast<LibraryCall*>(context);
}

/// What a function makes of each class.
template <class Function>
auto of_each(graph::Classes classes, const Function& function) {
  std::vector<decltype(function(*classes.front()))> all;
  for (const auto& graph : classes) all.push_back(function(*graph));
  return all;
}

}  // namespace

LibraryCall::LibraryCall(const std::string& path, const std::string& parameters, graph::Classes classes,
                         const PolicyOptions& options)
    : path_(path),
      options_(options),
      classes_(classes.begin(), classes.end()),
      streams_(of_each(classes, [&](const auto& graph) { return plan::streams_of(graph, options.compute_streams); })),
      costs_(of_each(classes, [&](const auto& graph) { return costs_of(graph, options); })),
      limits_(of_each(classes, [&](const auto& graph) { return scratch_limit(graph, options); })),
      problem_(classes_, streams_, costs_, limits_, options, parameters),
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

std::vector<plan::Order> LibraryCall::orders(const ForeignOrder& function) {
  of_ = Of::order;
  std::vector<LibraryAnswer> answers =
      of_each(classes_, [](const graph::Graph& graph) { return LibraryAnswer(graph.tasks().size()); });
  std::vector<weft2_order> filled;
  for (LibraryAnswer& answer : answers) {
    filled.push_back({.size = sizeof(weft2_order),
                      .sequence = answer.sequence.data(),
                      .streams = answer.streams.data(),
                      .reasons = answer.reason_of.data(),
                      .edges = nullptr,
                      .edge_count = 0});
  }
  run("order()", [&] { return function(&problem_.problem(), &host_, filled.data()); });
  std::vector<plan::Order> orders;
  for (std::size_t k = 0; k < answers.size(); ++k) {
    answers[k].edges = edges_of(filled[k]);
    orders.push_back(order_of_answer(path_, *classes_[k], streams_[k], answers[k], reasons_));
  }
  return orders;
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
plan::Order LibraryCall::order_to_simulate(std::size_t of_class, const weft2_order& order) const {
  const graph::Graph& graph = *classes_[of_class];
  LibraryAnswer answer(graph.tasks().size());
  if (order.size < sizeof(weft2_order) || order.sequence == nullptr || order.streams == nullptr) {
    refuse_library(path_, "an order to simulate without size, sequence or streams",
                   "set size to sizeof(weft2_order), and both arrays");
  }
  std::copy_n(order.sequence, answer.sequence.size(), answer.sequence.begin());
  std::copy_n(order.streams, answer.streams.size(), answer.streams.begin());
  answer.edges = edges_of(order);
  return order_of_answer(path_, graph, streams_[of_class], answer, {plan::Reason{.table = &kLibraryReasons}});
}

void LibraryCall::simulate_into(std::span<const weft2_order> asked, weft2_simulation& result) const {
  if (of_ != Of::order) refuse_library(path_, "it simulates in rewrites()", "simulate in order()");
  std::vector<plan::Order> orders;
  for (std::size_t k = 0; k < asked.size(); ++k) orders.push_back(order_to_simulate(k, asked[k]));
  const Timetable table = timetable_of(classes_, orders, costs_, options_);
  result.step_ns = table.makespan;
  if (result.begin_ns != nullptr) std::ranges::copy(table.start, result.begin_ns);
  if (result.end_ns != nullptr) std::ranges::copy(table.finish, result.end_ns);
  if (result.scratch_bytes == nullptr) return;
  for (std::size_t k = 0; k < orders.size(); ++k)
    result.scratch_bytes[k] = plan::make_plan(classes_[k], orders[k], "simulated").scratch_bytes;
}

void LibraryCall::schedule_into(const double* priorities, std::span<weft2_order> orders, double* step_ns) {
  if (of_ != Of::order) refuse_library(path_, "it schedules in rewrites()", "schedule in order()");
  const bool whole = std::ranges::all_of(
      orders, [](const weft2_order& order) { return order.sequence != nullptr && order.streams != nullptr; });
  if (priorities == nullptr || !whole) {
    refuse_library(path_, "a list schedule without priorities, sequence or streams", "set all of them");
  }
  if (!scheduler_) scheduler_.emplace(ClassTasks(classes_, costs_, options_.compute_streams), options_, limits_);
  const std::span<const double> of_tasks(priorities, scheduler_->tasks().size());
  if (std::ranges::any_of(of_tasks, [](double priority) { return std::isnan(priority); })) {
    refuse_library(path_, "a priority is no number (NaN)", "a finite number for each task");
  }
  const double step = scheduler_->run(of_tasks);
  if (step_ns != nullptr) *step_ns = step;
  const std::vector<plan::Order> made = scheduler_->orders();
  for (std::size_t k = 0; k < made.size(); ++k) {
    for (std::size_t i = 0; i < made[k].sequence.size(); ++i) {
      orders[k].sequence[i] = made[k].sequence[i].task.value;
      orders[k].streams[i] = made[k].sequence[i].stream.value;
    }
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
  return call.guarded([&] { call.simulate_into({orders, call.classes_.size()}, *result); });
}

std::int32_t LibraryCall::schedule(void* context, const double* priorities, weft2_order* orders,
                                   double* step_ns) noexcept {
  LibraryCall& call = call_of(context);
  return call.guarded([&] { call.schedule_into(priorities, {orders, call.classes_.size()}, step_ns); });
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
