// C++ vectors as NumPy arrays, and back. By buffers alone, so that any version of NumPy will do.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/policy/python/joined_problem.h"

namespace weft::python {

namespace py = pybind11;

/// Read-only.
template <class Value>
py::object array_of(const std::vector<Value>& values) {
  const py::bytes bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
  return py::module_::import("numpy").attr("frombuffer")(bytes, py::str(py::format_descriptor<Value>::format()));
}

/// Texts become an array of Python's strings.
inline py::object array_of(const std::vector<std::string>& texts) {
  py::list list;
  for (const std::string& text : texts) list.append(text);
  const py::object array = py::module_::import("numpy").attr("array");
  return array(list, py::arg("dtype") = "object");
}

/// The elements of an array of one dimension. Raises ValueError if it has other elements or another number of them.
template <class Value>
std::vector<Value> elements_of(const py::buffer& array, std::size_t count) {
  const py::buffer_info info = array.request();
  if (info.ndim != 1 || info.format != py::format_descriptor<Value>::format() ||
      info.shape[0] != static_cast<py::ssize_t>(count)) {
    throw py::value_error("expected an array of " + std::to_string(count) + " elements of type " +
                          py::format_descriptor<Value>::format());
  }
  std::vector<Value> values(count);
  const auto* const bytes = static_cast<const char*>(info.ptr);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = *reinterpret_cast<const Value*>(bytes + static_cast<py::ssize_t>(i) * info.strides[0]);
  }
  return values;
}

/// {"tasks": {"name": array, …}, …}
inline py::dict tables_of(const std::vector<policy::Column>& columns) {
  py::dict tables;
  for (const policy::Column& column : columns) {
    const py::str table(column.table.data(), column.table.size());
    if (!tables.contains(table)) tables[table] = py::dict();
    const py::object values = std::visit([](const auto& of_column) { return array_of(of_column); }, column.values);
    values.attr("flags").attr("writeable") = false;
    tables[table][py::str(column.name.data(), column.name.size())] = values;
  }
  return tables;
}

}  // namespace weft::python
