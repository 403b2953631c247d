// Accesses of a task by the argument names in its operation's schema.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"

namespace weft::graph {

/// The index of an argument among the accesses of a task. Rows of the schema that aren't present have no access.
template <class Op>
constexpr std::size_t place_among_accesses(const Op& operation, ArgumentName<Op> argument) {
  const auto rows = operation.arguments();
  std::size_t place = 0;
  for (std::size_t i = 0; i < argument.index(); ++i) place += rows[i].present ? 1 : 0;
  return place;
}

/// The accesses of a task whose operation is an Op. A name that isn't an argument of Op doesn't compile.
///
///   const NamedAccesses<Gemm> accesses(task);
///   const View& c = accesses["C"].view;
///   const Access* bias = accesses.find("bias");  // null: the product has none
template <class Op>
class NamedAccesses {
 public:
  explicit NamedAccesses(const Task& task) : task_(task), operation_(std::get<Op>(task.operation)) {}

  const Access* find(ArgumentName<Op> argument) const {
    const std::size_t place = place_among_accesses(operation_, argument);
    const bool there = operation_.arguments()[argument.index()].present && place < task_.accesses.size();
    return there ? &task_.accesses[place] : nullptr;
  }
  /// Throws std::logic_error if the task doesn't have the argument.
  const Access& operator[](ArgumentName<Op> argument) const {
    if (const Access* access = find(argument)) return *access;
    const auto name = operation_.arguments()[argument.index()].name;
    throw std::logic_error("task '" + task_.name + "' has no argument " + std::string(name));
  }

 private:
  const Task& task_;
  const Op& operation_;
};

/// An access with its argument's name; the access is absent for an argument that the task doesn't have.
template <class Op>
struct NamedAccess {
  ArgumentName<Op> argument;
  std::optional<Access> access;
};

/// The result of `access` if the condition holds, else nothing.
template <class F>
std::optional<Access> access_if(bool condition, F&& access) {
  return condition ? std::optional<Access>(access()) : std::nullopt;
}

/// The accesses of a task in the order of its schema, given by name in any order. Throws std::logic_error if a present
/// argument is missing or an absent one is given.
///
///   task.accesses = accesses_of(op, {{"x", read(x)}, {"y", write(y)}});
template <class Op>
std::vector<Access> accesses_of(const Op& operation, std::initializer_list<NamedAccess<Op>> given) {
  std::array<std::optional<Access>, argument_count<Op>> slots;
  for (const NamedAccess<Op>& named : given) slots[named.argument.index()] = named.access;
  const auto rows = operation.arguments();
  std::vector<Access> accesses;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (rows[i].present != slots[i].has_value()) {
      throw std::logic_error(std::string(operation.kind) + ": argument " + std::string(rows[i].name) +
                             (rows[i].present ? " is missing" : " is given, but the operation has none"));
    }
    if (slots[i]) accesses.push_back(*slots[i]);
  }
  return accesses;
}

/// Replaces an access of a task whose operation is an Op.
template <class Op>
void replace_access(Task& task, ArgumentName<Op> argument, const Access& access) {
  task.accesses.at(place_among_accesses(std::get<Op>(task.operation), argument)) = access;
}

/// Adds an argument to a task: `change` sets the field of the operation on which the argument's presence depends.
template <class Op, class Change>
void add_access(Task& task, ArgumentName<Op> argument, const Access& access, const Change& change) {
  auto& operation = std::get<Op>(task.operation);
  change(operation);
  const auto place = static_cast<std::ptrdiff_t>(place_among_accesses(operation, argument));
  task.accesses.insert(task.accesses.begin() + place, access);
}

}  // namespace weft::graph
