// The fields of any operation by the names in its schema, for fingerprints, dumps and tooltips.
#pragma once

#include <tuple>
#include <variant>

#include "graph/operation.h"

namespace weft::graph {

/// Calls f(row of the schema, value) for each field, except told_if_set() fields that aren't set. Values are integers,
/// floats, bools, a Channel or an Epilogue.
template <class F>
void for_each_field_schema(const Operation& operation, F&& f) {
  std::visit(
      [&]<class Op>(const Op& op) {
        const auto tell = [&]<class T>(const FieldSchema<Op, T>& row) {
          const T& value = op.*row.member;
          if (!row.only_if_set || value != T{}) f(row, value);
        };
        std::apply([&](const auto&... rows) { (tell(rows), ...); }, Op::fields());
      },
      operation);
}

/// Like for_each_field_schema(), but calls f(name, value).
template <class F>
void for_each_field(const Operation& operation, F&& f) {
  for_each_field_schema(operation, [&](const auto& row, const auto& value) { f(row.name, value); });
}

}  // namespace weft::graph
