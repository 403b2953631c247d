#include "runtime/policy/library/policy_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/shared_library.h"
#include "graph/analysis.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/scheduling/class_tasks.h"
#include "runtime/policy/scheduling/program_order.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

constexpr std::size_t kMostAdded = 10'000'000;  // limits a library that adds without end

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

/// An order of one graph under check. Refuses a task that is missing, unknown or there twice, a stream that can't run
/// it, a reason that isn't there, an order or an added edge that contradicts the graph's edges or the order.
class Checking {
 public:
  Checking(const std::string& path, const graph::Graph& graph, const weft2_order& answer)
      : path_(path), graph_(graph), answer_(answer), count_(graph.tasks().size()) {}

  void place(plan::Order& order) const {
    std::vector<bool> seen(count_, false);
    std::vector<graph::TaskId> ids;
    for (std::size_t i = 0; i < count_; ++i) {
      const graph::TaskId id = task_at(i);
      if (seen[id.index()]) {
        refuse(fmt::format("task {} ('{}') is in the sequence twice, so another task is missing", id.value,
                           graph_.task(id).name),
               "put every task in the sequence once");
      }
      seen[id.index()] = true;
      expect_stream(i, graph_.task(id), order.streams);
      const std::uint32_t reason = answer_.reasons == nullptr ? 0 : answer_.reasons[i];
      if (reason >= order.reasons.size()) {
        refuse(fmt::format("reasons[{}] = {} isn't a value that add_reason() returned", i, reason),
               "store the value that add_reason() returns, or leave 0");
      }
      ids.push_back(id);
      order.sequence.push_back({id, plan::StreamId(answer_.streams[i]), reason});
    }
    if (const std::string why = graph::why_not_topological(graph_, ids); !why.empty()) {
      refuse("its sequence contradicts an edge: " + why, "put each task after all tasks that have an edge to it");
    }
  }

  void add_edges(plan::Order& order) const {
    std::vector<std::size_t> position(count_);
    for (std::size_t i = 0; i < order.sequence.size(); ++i) position[order.sequence[i].task.index()] = i;
    if (answer_.edge_count > kMostAdded || (answer_.edge_count > 0 && answer_.edges == nullptr)) {
      refuse(fmt::format("its order has {} edges", answer_.edge_count),
             "an array of at most ten million edges, or none");
    }
    for (const auto& [from, to, issued_before, distance] : std::span(answer_.edges, answer_.edge_count)) {
      const bool exist = from < count_ && to < count_,
                 forward = exist && (distance > 0 || position[from] < position[to]);
      if (!forward || distance > 1) {
        refuse(
            fmt::format("its edge from task {} to task {} contradicts its sequence, or a task doesn't exist", from, to),
            "add edges that go forward in the sequence, or to the next step (distance 1)");
      }
      const auto kind = issued_before != 0 ? graph::EdgeKind::issued_before : graph::EdgeKind::completes_before;
      order.added_edges.push_back(policy_edge(graph::TaskId(from), graph::TaskId(to), kind, distance));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why, std::string_view fix) const { refuse_library(path_, why, fix); }

  graph::TaskId task_at(std::size_t i) const {
    const std::uint32_t task = answer_.sequence[i];
    if (task < count_) return graph::TaskId(task);
    refuse(task == kUnsetEntry ? fmt::format("sequence[{}] of {} is not filled", i, count_)
                               : fmt::format("sequence[{}] = {} isn't an index of the {} tasks", i, task, count_),
           "put every task in the sequence once");
  }

  void expect_stream(std::size_t i, const graph::Task& task, const std::vector<plan::Stream>& streams) const {
    const std::uint32_t number = answer_.streams[i];
    const graph::Channel* channel = graph::channel_of(task.operation);
    const plan::StreamId own = channel == nullptr ? plan::StreamId() : plan::stream_of_channel(streams, *channel);
    const bool known = number < streams.size();
    if (known && (channel == nullptr ? streams[number].compute : own == plan::StreamId(number))) return;
    const std::string fix = channel == nullptr
                                ? "give a computation a stream of channel -1"
                                : fmt::format("give it stream {}, of channel {}", own.value, streams[own.index()].name);
    refuse(fmt::format("streams[{}] = {} can't run task '{}'", i,
                       known ? fmt::format("{} ({})", number, streams[number].name) : fmt::format("{}", number),
                       task.name),
           fix);
  }

  const std::string& path_;
  const graph::Graph& graph_;
  const weft2_order& answer_;
  const std::size_t count_;
};

// The loader searches system folders for a path without a slash, so the path is made absolute.
std::array<std::string, 1> place_of(const std::string& path) {
  return {std::filesystem::absolute(path).string()};
}

[[noreturn]] void refuse_version(const std::string& path, std::uint32_t found) {
  const std::string source = std::filesystem::path(path).stem().string() + ".cpp";
  throw UserError(
      fmt::format("policy {}: it was compiled for version {} of the interface", path, found),
      fmt::format("version {}", static_cast<int>(weft2_version)),
      fmt::format("change the source as docs/policies.md tells, and compile it with the header that `cmake --install "
                  "build --prefix PREFIX` installs: c++ -std=c++20 -O2 -fPIC -shared -I PREFIX/include {} -o {}",
                  source, path));
}

/// The library's own struct. Throws UserError if it isn't of this version.
const weft2_policy& policy_in(const SharedLibrary& library, const std::string& path) {
  auto* const entry = library.find<const weft2_policy*(std::uint32_t)>("weft_policy_entry_2");
  if (entry == nullptr) {
    if (library.find<const void*()>("weft_policy_entry") != nullptr) refuse_version(path, 1);
    refuse_library(path, "it exports no function weft_policy_entry_2",
                   "declare it extern \"C\" and export it, as examples/policy does");
  }
  const weft2_policy* const policy = entry(weft2_version);
  if (policy == nullptr) {
    refuse_library(path, "weft_policy_entry_2() returns null", "return the address of a static weft2_policy");
  }
  if (policy->version != weft2_version) refuse_version(path, policy->version);
  if (policy->size < sizeof(weft2_policy) || policy->order == nullptr) {
    refuse_library(path,
                   fmt::format("its weft2_policy has {} bytes (at least {}), or no function order", policy->size,
                               sizeof(weft2_policy)),
                   "set size to sizeof(weft2_policy), and order");
  }
  return *policy;
}

class LibraryPolicy final : public Policy {
 public:
  LibraryPolicy(std::string path, std::string parameters)
      : path_(std::move(path)), parameters_(std::move(parameters)), library_(place_of(path_)) {
    if (!library_) {
      throw UserError(fmt::format("can't load the policy {}: {}", path_, library_.failure()),
                      "a shared library as in examples/policy", "check the path and how the library was linked");
    }
    policy_ = &policy_in(library_, path_);
  }

  std::string name() const override { return parameters_.empty() ? path_ : path_ + ":" + parameters_; }

  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override {
    if (policy_->rewrites == nullptr) return {};
    const std::shared_ptr<const graph::Graph> one = graph::borrowed(graph);
    return LibraryCall(path_, parameters_, {&one, 1}, options).rewrites(policy_->rewrites);
  }

  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override {
    return LibraryCall(path_, parameters_, classes, options).orders(policy_->order);
  }

  PolicyScope scope() const override {
    return policy_->several_classes != 0 ? PolicyScope::any : PolicyScope::one_class;
  }

 private:
  std::string path_, parameters_;
  SharedLibrary library_;
  const weft2_policy* policy_ = nullptr;  // in the library
};

}  // namespace

void refuse_library(const std::string& path, const std::string& why, std::string_view fix) {
  throw UserError(fmt::format("policy {}: {}", path, why), "", fix);
}

std::unique_ptr<Policy> load_policy_library(const std::string& path, std::string parameters) {
  return std::make_unique<LibraryPolicy>(path, std::move(parameters));
}

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
            .simulate =
                [](void* context, const weft2_order* orders, weft2_simulation* result) noexcept {
                  LibraryCall& call = call_of(context);
                  return call.guarded([&] { call.simulate_into({orders, call.classes_.size()}, *result); });
                },
            .add_rewrite =
                [](void* context, const char* text) noexcept {
                  LibraryCall& call = call_of(context);
                  return call.guarded([&] {
                    if (call.of_ != Of::rewrites)
                      throw UserError("add_rewrite() in order()", "rewrites in rewrites()", "move it");
                    const std::vector<plan::Rewrite> more = plan::parse_rewrites(text);
                    call.rewrites_.insert(call.rewrites_.end(), more.begin(), more.end());
                  });
                },
            .add_reason =
                [](void* context, const char* text, std::uint32_t for_memory) noexcept {
                  return call_of(context).add_reason(text, for_memory != 0);
                },
            .error = [](void* context) noexcept { return call_of(context).error_.c_str(); },
            .fail = [](void* context,
                       const char* message) noexcept { call_of(context).failure_ = message == nullptr ? "" : message; },
            .schedule =
                [](void* context, const double* priorities, weft2_order* orders, double* step_ns) noexcept {
                  LibraryCall& call = call_of(context);
                  return call.guarded([&] { call.schedule_into(priorities, {orders, call.classes_.size()}, step_ns); });
                }} {}

std::vector<plan::Rewrite> LibraryCall::rewrites(const ForeignRewrites& function) {
  of_ = Of::rewrites;
  run("rewrites()", [&] { return function(&problem_.problem(), &host_); });
  return std::move(rewrites_);
}

std::vector<plan::Order> LibraryCall::orders(const ForeignOrder& function) {
  of_ = Of::order;
  std::vector<std::vector<std::uint32_t>> entries;  // of each class: its sequence, streams and reasons
  std::vector<weft2_order> filled;
  for (const auto& graph : classes_) {
    const std::size_t tasks = graph->tasks().size();
    std::uint32_t* const each = entries.emplace_back(3 * tasks, kUnsetEntry).data();
    std::fill_n(each + 2 * tasks, tasks, 0);
    filled.push_back({.size = sizeof(weft2_order),
                      .sequence = each,
                      .streams = each + tasks,
                      .reasons = each + 2 * tasks,
                      .edges = nullptr,
                      .edge_count = 0});
  }
  std::vector<weft2_order> answers = filled;  // the library may replace pointers, but only its edges count
  run("order()", [&] { return function(&problem_.problem(), &host_, filled.data()); });
  std::vector<plan::Order> orders;
  for (std::size_t k = 0; k < answers.size(); ++k) {
    answers[k].edges = filled[k].edges;
    answers[k].edge_count = filled[k].edge_count;
    orders.push_back(order_of(k, answers[k], reasons_));
  }
  return orders;
}

plan::Order LibraryCall::order_of(std::size_t of_class, const weft2_order& order,
                                  const std::vector<plan::Reason>& reasons) const {
  plan::Order result{.streams = streams_[of_class], .sequence = {}, .added_edges = {}, .reasons = reasons};
  const Checking checking(path_, *classes_[of_class], order);
  checking.place(result);
  checking.add_edges(result);
  return result;
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

void LibraryCall::simulate_into(std::span<const weft2_order> asked, weft2_simulation& result) const {
  if (of_ != Of::order) refuse_library(path_, "it simulates in rewrites()", "simulate in order()");
  std::vector<plan::Order> orders;
  for (weft2_order order : asked) {
    if (order.size < sizeof(weft2_order) || order.sequence == nullptr || order.streams == nullptr) {
      refuse_library(path_, "an order to simulate without size, sequence or streams",
                     "set size to sizeof(weft2_order), and both arrays");
    }
    order.reasons = nullptr;  // a simulation has no use for reasons
    orders.push_back(order_of(orders.size(), order, {plan::Reason{.table = &kLibraryReasons}}));
  }
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

std::uint32_t LibraryCall::add_reason(const char* text, bool for_memory) {
  if (text == nullptr) return 0;
  too_many_ = too_many_ || reasons_.size() >= kMostAdded;
  if (too_many_) return 0;
  reasons_.push_back({.text = for_memory ? std::string(plan::kForMemory) + text : text});
  return static_cast<std::uint32_t>(reasons_.size() - 1);
}

}  // namespace weft::policy
