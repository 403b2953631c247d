#include "python/src/host.h"

#include <string>
#include <utility>

namespace weft::python {

Host::Host(const policy::JoinedProblem& joined, std::shared_ptr<void> keeps)
    : tasks_(joined.class_of_task().size()), host_(&joined.host()), keeps_(std::move(keeps)) {}

const weft2_host& Host::host() const {
  if (host_ == nullptr) throw py::value_error("this problem was a policy's argument, and its call is over");
  return *host_;
}

void Host::expect(std::int32_t failed) const {
  if (failed != 0) throw py::value_error(host().error(host().context));
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
  auto tasks = elements_of<std::uint32_t>(sequence, tasks_),
       streams_of_tasks = elements_of<std::uint32_t>(streams, tasks_);
  const std::vector<weft2_added_edge> added = edges_of(edges);
  const weft2_order order = {.size = sizeof(weft2_order),
                             .sequence = tasks.data(),
                             .streams = streams_of_tasks.data(),
                             .reasons = nullptr,
                             .edges = added.data(),
                             .edge_count = added.size()};
  std::vector<double> begin(times ? tasks_ : 0), end(begin.size());
  std::int64_t scratch = 0;
  weft2_simulation result = {.size = sizeof(weft2_simulation),
                             .step_ns = 0,
                             .begin_ns = times ? begin.data() : nullptr,
                             .end_ns = times ? end.data() : nullptr,
                             .scratch_bytes = memory ? &scratch : nullptr};
  expect(host().simulate(host().context, &order, &result));
  return py::make_tuple(result.step_ns, times ? array_of(begin) : py::none(), times ? array_of(end) : py::none(),
                        memory ? py::object(py::int_(scratch)) : py::none());
}

py::tuple Host::schedule(const py::buffer& priorities) const {
  const std::vector<double> of_tasks = elements_of<double>(priorities, tasks_);
  std::vector<std::uint32_t> sequence(tasks_), streams(tasks_);
  weft2_order order = {.size = sizeof(weft2_order),
                       .sequence = sequence.data(),
                       .streams = streams.data(),
                       .reasons = nullptr,
                       .edges = nullptr,
                       .edge_count = 0};
  expect(host().schedule(host().context, of_tasks.data(), &order, nullptr));
  return py::make_tuple(array_of(sequence), array_of(streams));
}

py::object problem_of(const policy::JoinedProblem& joined, const std::shared_ptr<Host>& host) {
  const weft2_problem& problem = joined.problem();
  const py::object type = py::module_::import("weft.problem").attr("Problem");
  return type(tables_of(policy::columns_of(joined)), problem.classes[0].memory_limit, problem.shared_cores,
              problem.seed, host);
}

}  // namespace weft::python
