#include "runtime/policy/library/library_version_2.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/library/library_answer.h"
#include "runtime/policy/library/library_problem.h"
#include "runtime/policy/scheduling/makespan.h"

namespace weft::policy {
namespace {

/// One call of a library's function: what it asked for, and the functions of Weft that it may call meanwhile. These are
/// called through C, so no exception may leave them.
class LibraryCall {
 public:
  enum class Of : std::uint8_t { rewrites, order };

  LibraryCall(Of of, const std::string& path, const std::string& parameters, const graph::Graph& graph,
              const PolicyOptions& options)
      : of_(of),
        path_(path),
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
              .fail = fail} {}
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  std::vector<plan::Rewrite> rewrites(const weft2_policy& entry) {
    run("rewrites()", [&] { return entry.rewrites(&problem_.problem(), &host_); });
    return std::move(rewrites_);
  }

  plan::Order order(const weft2_policy& entry) {
    LibraryAnswer answer(graph_.tasks().size());
    weft2_order order = {.size = sizeof(weft2_order),
                         .sequence = answer.sequence.data(),
                         .streams = answer.streams.data(),
                         .reasons = answer.reason_of.data(),
                         .edges = nullptr,
                         .edge_count = 0};
    run("order()", [&] { return entry.order(&problem_.problem(), &host_, &order); });
    answer.edges = edges_of(order);
    return order_of_answer(path_, graph_, streams_, answer, reasons_);
  }

 private:
  template <class Function>
  void run(const char* name, const Function& function) {
    std::int32_t failed = 0;
    std::string thrown;
    try {
      failed = function();
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

  std::vector<graph::Edge> edges_of(const weft2_order& order) const {
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
  plan::Order order_to_simulate(const weft2_order& order) const {
    LibraryAnswer answer(graph_.tasks().size());
    if (order.size < sizeof(weft2_order) || order.sequence == nullptr || order.streams == nullptr) {
      refuse_library(path_, "an order to simulate without size, sequence or streams",
                     "set size to sizeof(weft2_order), and both arrays");
    }
    std::copy_n(order.sequence, answer.sequence.size(), answer.sequence.begin());
    std::copy_n(order.streams, answer.streams.size(), answer.streams.begin());
    answer.edges = edges_of(order);
    return order_of_answer(path_, graph_, streams_, answer, {plan::Reason{.kind = plan::ReasonKind::not_given}});
  }

  void simulate_into(const weft2_order& orders, weft2_simulation& result) const {
    if (of_ != Of::order) refuse_library(path_, "it simulates in rewrites()", "simulate in order()");
    const plan::Order order = order_to_simulate(orders);
    const Timetable table = timetable_of(graph_, order, costs_, options_);
    result.step_ns = table.makespan;
    if (result.begin_ns != nullptr) std::ranges::copy(table.start, result.begin_ns);
    if (result.end_ns != nullptr) std::ranges::copy(table.finish, result.end_ns);
    if (result.scratch_bytes == nullptr) return;
    const std::shared_ptr<const graph::Graph> borrowed(std::shared_ptr<void>(), &graph_);
    *result.scratch_bytes = plan::make_plan(borrowed, order, "simulated").scratch_bytes;
  }

  /// 0, or 1 with the reason in error().
  template <class Function>
  std::int32_t guarded(const Function& function) noexcept {
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

  static LibraryCall& call_of(void* context) { return *static_cast<LibraryCall*>(context); }

  static std::int32_t simulate(void* context, const weft2_order* orders, weft2_simulation* result) noexcept {
    LibraryCall& call = call_of(context);
    return call.guarded([&] { call.simulate_into(*orders, *result); });
  }
  static std::int32_t add_rewrite(void* context, const char* text) noexcept {
    LibraryCall& call = call_of(context);
    return call.guarded([&] {
      if (call.of_ != Of::rewrites) throw UserError("add_rewrite() in order()", "rewrites in rewrites()", "move it");
      const std::vector<plan::Rewrite> more = plan::parse_rewrites(text);
      call.rewrites_.insert(call.rewrites_.end(), more.begin(), more.end());
    });
  }
  static std::uint32_t add_reason(void* context, const char* text, std::uint32_t for_memory) noexcept {
    LibraryCall& call = call_of(context);
    if (text == nullptr) return 0;
    if (call.reasons_.size() >= kMostAdded) {
      call.too_many_ = true;
      return 0;
    }
    call.reasons_.push_back(plan::parse_reason(for_memory != 0 ? std::string(plan::kForMemory) + text : text));
    return static_cast<std::uint32_t>(call.reasons_.size() - 1);
  }
  static const char* error(void* context) noexcept { return call_of(context).error_.c_str(); }
  static void fail(void* context, const char* message) noexcept {
    call_of(context).failure_ = message == nullptr ? "" : message;
  }

  const Of of_;
  const std::string& path_;
  const graph::Graph& graph_;
  const PolicyOptions& options_;
  const std::vector<plan::Stream> streams_;
  const cost::TaskCosts costs_;
  const LibraryProblem problem_;
  const weft2_host host_;
  std::vector<plan::Reason> reasons_ = {{.kind = plan::ReasonKind::not_given}};
  std::vector<plan::Rewrite> rewrites_;
  std::string error_, failure_;
  bool too_many_ = false;
};

}  // namespace

void check_version_2(const std::string& path, const weft2_policy* entry) {
  if (entry == nullptr) {
    refuse_library(path, "weft_policy_entry_2() returns null", "return the address of a static weft2_policy");
  }
  if (entry->version != weft2_version) {
    refuse_library(path,
                   fmt::format("it was compiled for version {} of the interface, and this Weft knows 1 and {}",
                               entry->version, static_cast<int>(weft2_version)),
                   "compile it with the policy_abi.h of this version");
  }
  if (entry->size < sizeof(weft2_policy) || entry->order == nullptr) {
    refuse_library(path,
                   fmt::format("its weft2_policy has {} bytes (at least {}), or no function order", entry->size,
                               sizeof(weft2_policy)),
                   "set size to sizeof(weft2_policy), and order");
  }
}

std::vector<plan::Rewrite> ask_rewrites(const std::string& path, const weft2_policy& entry,
                                        const std::string& parameters, const graph::Graph& graph,
                                        const PolicyOptions& options) {
  if (entry.rewrites == nullptr) return {};
  return LibraryCall(LibraryCall::Of::rewrites, path, parameters, graph, options).rewrites(entry);
}

plan::Order ask_version_2(const std::string& path, const weft2_policy& entry, const std::string& parameters,
                          const graph::Graph& graph, const PolicyOptions& options) {
  return LibraryCall(LibraryCall::Of::order, path, parameters, graph, options).order(entry);
}

}  // namespace weft::policy
