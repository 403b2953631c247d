// The compiled half of the package weft, which python/weft wraps.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "inspect/formats/graph_file.h"
#include "inspect/import/trace_import.h"
#include "python/src/graph_builder.h"
#include "python/src/host.h"
#include "python/src/step.h"
#include "runtime/policy/catalog/policies.h"

namespace weft::python {
namespace {

void bind_graphs(py::module_& module) {
  py::class_<graph::OpenGraph>(module, "OpenGraph")
      .def_readonly("name", &graph::OpenGraph::name)
      .def_readonly("source", &graph::OpenGraph::source)
      .def_readonly("notes", &graph::OpenGraph::notes)
      .def_readonly("world", &graph::OpenGraph::world)
      .def("classes",
           [](const graph::OpenGraph& graph) {
             std::vector<std::string> names;
             for (const graph::OpenClass& each : graph.classes) names.push_back(each.name);
             return names;
           })
      .def("write", [](const graph::OpenGraph& graph, const std::string& path) {
        inspect::write_graph_file(path, graph, Named::by_person);
      });
  module.def("read_graph", [](const std::string& path) { return inspect::read_graph_file(path); });
  module.def("import_traces",
             [](const std::vector<std::string>& files, std::optional<std::int64_t> number, bool whole) {
               const std::vector<std::filesystem::path> paths(files.begin(), files.end());
               if (paths.empty()) throw UserError("no trace", "the files of one or many ranks", "name them");
               const inspect::StepChoice choice{.number = number, .whole = whole};
               return inspect::import_traces(paths, inspect::trace_format(paths.front()), choice).graph;
             });
  using Names = std::vector<std::string>;
  py::class_<GraphBuilder::Task>(module, "GraphTask")
      .def(py::init<std::string, std::string, std::string, double, std::optional<std::string>, Names, Names, Names,
                    std::int32_t, std::int32_t, std::string>());
  py::class_<GraphBuilder>(module, "GraphBuilder")
      .def(py::init<std::string>())
      .def("add_channel", &GraphBuilder::add_channel)
      .def("add_tensor", &GraphBuilder::add_tensor)
      .def("add_task", &GraphBuilder::add_task)
      .def("built", &GraphBuilder::built);
}

void bind_steps(py::module_& module) {
  py::class_<Step, std::shared_ptr<Step>>(module, "Step")
      .def_static("of_config", &Step::of_config)
      .def_static("of_open_graph", &Step::of_open_graph)
      .def_readonly("title", &Step::title)
      .def_readonly("default_policy", &Step::default_policy)
      .def("problem", &Step::python_problem)
      .def("scaled", &Step::scaled)
      .def("with_memory", &Step::with_memory)
      .def("bounds", &Step::bounds)
      .def("write_graph", &Step::write_graph);
  py::class_<Report>(module, "Report")
      .def(py::init<std::shared_ptr<Step>, const py::object&>())
      .def("summary", &Report::summary)
      .def("violations", &Report::violations)
      .def("timeline", &Report::timeline)
      .def("exposed", &Report::exposed)
      .def("remedies", &Report::remedies)
      .def("write_plan", &Report::write_plan)
      .def("svg", &Report::svg);
  py::class_<Host, std::shared_ptr<Host>>(module, "Host")
      .def("simulate", &Host::simulate)
      .def("schedule", &Host::schedule);
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.attr("__version__") = WEFT_VERSION;
  py::register_exception<UserError>(module, "Refused", PyExc_ValueError);
  py::register_exception<RuntimeFault>(module, "Fault", PyExc_RuntimeError);
  bind_graphs(module);
  bind_steps(module);
  module.def("policy_names", [] { return policy::graph_policy_names(); });
}

}  // namespace weft::python
