// Weft's side of a Problem in Python: it simulates and schedules orders of a step.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "python/src/arrays.h"
#include "runtime/policy/python/joined_problem.h"

namespace weft::python {

/// The functions that python/weft/problem.py asks of its host. `keeps` owns the problem; null: it is a policy's
/// argument.
class Host {
 public:
  Host(const policy::JoinedProblem& joined, std::shared_ptr<void> keeps);

  /// (step_ns, begin_ns or None, end_ns or None, scratch_bytes or None). Raises ValueError if it is no order.
  py::tuple simulate(const py::buffer& sequence, const py::buffer& streams, const py::iterable& edges, bool times,
                     bool memory) const;
  /// (sequence, streams)
  py::tuple schedule(const py::buffer& priorities) const;
  /// The end of a policy's call, after which the problem must not be used.
  void close() { joined_ = nullptr; }

 private:
  /// Calls a function of the problem. Raises ValueError if it fails.
  template <class Function>
  void call(const Function& function) const;

  std::size_t tasks_;
  const policy::JoinedProblem* joined_;
  std::shared_ptr<void> keeps_;
};

std::vector<weft2_added_edge> edges_of(const py::iterable& edges);

/// A Problem of Python with this host.
py::object problem_of(const policy::JoinedProblem& joined, const std::shared_ptr<Host>& host);

}  // namespace weft::python
