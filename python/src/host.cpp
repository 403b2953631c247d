#include "python/src/host.h"

#include <string>
#include <utility>

namespace weft::python {

Host::Host(const policy::JoinedProblem& joined, std::shared_ptr<void> keeps)
    : tasks_(joined.tasks()), joined_(&joined), keeps_(std::move(keeps)) {}

template <class Function>
void Host::call(const Function& function) const {
  if (joined_ == nullptr) throw py::value_error("this problem was a policy's argument, and its call is over");
  try {
    function(*joined_);
  } catch (const std::exception& exception) {
    throw py::value_error(exception.what());
  }
}

std::vector<weft2_added_edge> edges_of(const py::iterable& edges) {
  std::vector<weft2_added_edge> result;
  for (const py::handle each : edges) {
    const auto edge = py::cast<py::tuple>(py::tuple(py::reinterpret_borrow<py::object>(each)));
    if (edge.size() != 2 && edge.size() != 4) {
      throw py::value_error("an edge is (from, to) or (from, to, issued_before, distance)");
    }
    const bool whole = edge.size() == 4;
    result.push_back({py::cast<std::uint32_t>(edge[0]), py::cast<std::uint32_t>(edge[1]),
                      static_cast<std::uint8_t>(whole && py::cast<std::uint32_t>(edge[2]) != 0 ? 1 : 0),
                      whole ? py::cast<std::uint8_t>(edge[3]) : std::uint8_t{0}});
  }
  return result;
}

py::tuple Host::simulate(const py::buffer& sequence, const py::buffer& streams, const py::iterable& edges, bool times,
                         bool memory) const {
  const auto tasks = elements_of<std::uint32_t>(sequence, tasks_),
             streams_of_tasks = elements_of<std::uint32_t>(streams, tasks_);
  const std::vector<weft2_added_edge> added = edges_of(edges);
  std::vector<double> begin(times ? tasks_ : 0), end(begin.size());
  std::int64_t scratch = 0;
  double step_ns = 0;
  call([&](const policy::JoinedProblem& joined) {
    step_ns =
        joined.simulate({.sequence = tasks, .streams = streams_of_tasks, .edges = added},
                        times ? begin.data() : nullptr, times ? end.data() : nullptr, memory ? &scratch : nullptr);
  });
  return py::make_tuple(step_ns, times ? array_of(begin) : py::none(), times ? array_of(end) : py::none(),
                        memory ? py::object(py::int_(scratch)) : py::none());
}

py::tuple Host::schedule(const py::buffer& priorities) const {
  const std::vector<double> of_tasks = elements_of<double>(priorities, tasks_);
  std::vector<std::uint32_t> sequence(tasks_), streams(tasks_);
  call([&](const policy::JoinedProblem& joined) { joined.schedule(of_tasks.data(), sequence, streams); });
  return py::make_tuple(array_of(sequence), array_of(streams));
}

py::object problem_of(const policy::JoinedProblem& joined, const std::shared_ptr<Host>& host) {
  const py::object type = py::module_::import("weft.problem").attr("Problem");
  return type(tables_of(joined.columns()), joined.memory_limit(), joined.problem().shared_cores, joined.problem().seed,
              host);
}

}  // namespace weft::python
