#include "python/src/function_policy.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "python/src/host.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/library/policy_library.h"
#include "runtime/policy/python/joined_problem.h"
#include "runtime/policy/python/python_policy.h"

namespace weft::python {
namespace {

struct CloseHost {
  void operator()(Host* host) const { host->close(); }
};
/// Ends a host with the call whose functions it uses, however the call ends.
using OpenHost = std::unique_ptr<Host, CloseHost>;

/// Calls Python while it plans, so whoever asks it must hold Python's lock. An exception of Python is kept, since
/// planning makes a refusal of it.
class FunctionPolicy final : public policy::Policy {
 public:
  FunctionPolicy(std::string name, py::object function, py::object rewrites)
      : name_(std::move(name)), function_(std::move(function)), rewrites_(std::move(rewrites)) {}

  std::string name() const override { return name_; }

  void raise_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const policy::PolicyOptions& options) const override {
    if (rewrites_.is_none()) return {};
    failure_ = nullptr;
    const auto ask = [&](const weft2_problem* problem, const weft2_host* host) {
      const policy::JoinedProblem joined(name_, *problem, *host);
      const auto for_python = std::make_shared<Host>(joined, nullptr);
      const OpenHost open(for_python.get());
      const py::object answer = called([&] { return rewrites_(problem_of(joined, for_python)); });
      if (answer.is_none()) return 0;
      for (const py::handle text : py::cast<py::iterable>(answer)) {
        if (host->add_rewrite(host->context, py::cast<std::string>(text).c_str()) == 0) continue;
        policy::refuse_library(name_, host->error(host->context), "");
      }
      return 0;
    };
    const std::shared_ptr<const graph::Graph> one = graph::borrowed(graph);
    return policy::LibraryCall(name_, "", {&one, 1}, options).rewrites(ask);
  }

  std::vector<plan::Order> orders(graph::Classes classes, const policy::PolicyOptions& options) const override {
    failure_ = nullptr;
    std::optional<policy::JoinedProblem> joined;  // the orders point to its edges
    const auto ask = [&](const weft2_problem* problem, const weft2_host* host, weft2_order* orders) {
      joined.emplace(name_, *problem, *host);
      const auto for_python = std::make_shared<Host>(*joined, nullptr);
      const OpenHost open(for_python.get());
      const py::object asked = problem_of(*joined, for_python);
      const py::object answer = called([&] { return function_(asked); });
      if (answer.is_none()) {
        policy::refuse_library(name_, "it returns None", "return the sequence of tasks, or a weft.Order");
      }
      const py::object full = called([&] { return asked.attr("order")(answer); });
      const auto sequence = elements_of<std::uint32_t>(full.attr("sequence"), joined->tasks()),
                 streams = elements_of<std::uint32_t>(full.attr("streams"), joined->tasks());
      std::vector<std::uint32_t> reasons;
      if (!full.attr("reasons").is_none()) reasons = reasons_of(full.attr("reasons"), *host, joined->tasks());
      joined->divide({sequence, streams, reasons, edges_of(full.attr("edges"))}, orders);
      return 0;
    };
    return policy::LibraryCall(name_, "", classes, options).orders(ask);
  }

 private:
  /// Calls Python, and keeps what it raises.
  template <class Call>
  py::object called(const Call& call) const {
    try {
      return call();
    } catch (const py::error_already_set&) {
      failure_ = std::current_exception();
      throw;
    }
  }

  std::vector<std::uint32_t> reasons_of(const py::iterable& reasons, const weft2_host& host, std::size_t count) const {
    std::map<std::string, std::uint32_t> numbers;
    std::vector<std::uint32_t> of_positions;
    for (const py::handle each : reasons) {
      const auto text = py::cast<std::string>(py::str(each));
      const auto [found, added] = numbers.try_emplace(text, 0);
      if (added) found->second = host.add_reason(host.context, text.c_str(), 0);
      of_positions.push_back(found->second);
    }
    if (of_positions.size() == count) return of_positions;
    policy::refuse_library(name_, "its order has " + std::to_string(of_positions.size()) + " reasons",
                           "one reason for each position");
  }

  std::string name_;
  py::object function_, rewrites_;
  mutable std::exception_ptr failure_;
};

}  // namespace

void raise_failure_of(const policy::NamedPolicy& policy) {
  if (const auto* const function = dynamic_cast<const FunctionPolicy*>(policy.policy.get())) function->raise_failure();
}

policy::NamedPolicy policy_of(const py::object& policy) {
  if (py::isinstance<py::str>(policy)) {
    auto name = py::cast<std::string>(policy);
    // Whoever calls this could run that code anyway.
    if (const std::string file(policy::library_of(name)); file.ends_with(".py")) {
      const std::string text = name.substr(std::min(name.size(), file.size() + 1));
      const auto own = py::module_::import("sys").attr("executable");
      const std::string interpreter = py::isinstance<py::str>(own) ? py::cast<std::string>(own) : "";
      return {name, policy::python_policy(file, text, interpreter.empty() ? "python3" : interpreter)};
    }
    policy::TrustedLibraries libraries;
    libraries.trust(name);
    return policy::named_policy(std::move(name), libraries);
  }
  const bool has_order = py::hasattr(policy, "order");
  if (!has_order && PyCallable_Check(policy.ptr()) == 0) {
    throw py::type_error("a policy is a name, a function of a Problem, or an object with a method order(problem)");
  }
  const py::object named = py::hasattr(policy, "__name__") ? policy : py::object(py::type::of(policy));
  auto name = py::cast<std::string>(named.attr("__name__"));
  auto made = std::make_shared<FunctionPolicy>(name, has_order ? py::object(policy.attr("order")) : policy,
                                               py::getattr(policy, "rewrites", py::none()));
  return {std::move(name), std::move(made)};
}

}  // namespace weft::python
