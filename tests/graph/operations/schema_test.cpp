// Everything derived from a schema exists, and the names in files and fingerprints don't change.
#include "graph/operations/schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "graph/operation.h"
#include "graph/task_signature.h"
#include "inspect/drawing/colors.h"
#include "tests/graph/every_operation.h"
#include "tests/graph/operations_golden.h"
#include "tests/graph/schema_graph.h"

namespace weft::graph {
namespace {

using testing::every_operation;

/// Calls f(Op{}) for every alternative of Operation.
template <class F>
void for_each_operation(F&& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (f(std::variant_alternative_t<I, OperationVariant>{}), ...);
  }
  (std::make_index_sequence<std::variant_size_v<OperationVariant>>());
}

Graph graph_of_every_operation() {
  GraphBuilder builder;
  int number = 0;
  for (const Operation& operation : every_operation()) {
    const std::string name = fmt::format("t{}", number);
    testing::task_of_schema(name, operation, number % 2 == 0 ? DType::f32 : DType::bf16).add_to(builder);
    ++number;
  }
  return std::move(builder).build();
}

std::string golden_lines(const Graph& graph, const Task& task) {
  std::string fields;
  for_each_field(task.operation, [&]<class T>(std::string_view name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      fields += fmt::format("{}={} ", name, to_string(value));
    } else {
      fields += fmt::format("{}={} ", name, value);
    }
  });
  const Work work = work_of(task.operation, 2);
  return fmt::format("{}: {}| {}\n  {} flops, {} bytes, {} sent, {}\n", kind_name(task.operation), fields,
                     task_signature(graph, task), work.flops, work.bytes, work.network_bytes,
                     inspect::style_of(task.operation).name);
}

std::set<std::string_view> present_names(const Operation& operation) {
  return with_arguments(operation, [](std::span<const ArgumentSchema> rows) {
    std::set<std::string_view> names;
    for (const ArgumentSchema& row : rows) {
      if (row.present) names.insert(row.name);
    }
    return names;
  });
}

// Kinds, fields, signatures and fingerprints are in plan files, profiles and machine files. Renaming something in C++
// must not rename them.
TEST(Schema, WhatFilesKnowStaysAsItIs) {
  const Graph graph = graph_of_every_operation();
  std::string text;
  for (const Task& task : graph.tasks()) text += golden_lines(graph, task);
  EXPECT_EQ(text, testing::kOperationsGolden);
  EXPECT_EQ(graph.fingerprint(), testing::kOperationsFingerprint);
}

TEST(Schema, EveryOperationIsAmongTheSamples) {
  std::set<std::size_t> sampled;
  for (const Operation& operation : every_operation()) sampled.insert(operation.index());
  EXPECT_EQ(sampled.size() + 1, std::variant_size_v<OperationVariant>);  // Opaque has no schema to sample
}

TEST(Schema, KindsAreUnique) {
  std::set<std::string_view> kinds;
  for_each_operation([&](const auto& op) { EXPECT_TRUE(kinds.insert(op.kind).second) << op.kind; });
}

TEST(Schema, NamesAreUniqueWithinAnOperation) {
  for_each_operation([](const auto& op) {
    std::set<std::string_view> arguments, fields;
    for (const ArgumentSchema& row : op.arguments()) EXPECT_TRUE(arguments.insert(row.name).second) << row.name;
    std::apply([&](const auto&... row) { (fields.insert(row.name), ...); }, op.fields());
    EXPECT_EQ(fields.size(), std::tuple_size_v<decltype(op.fields())>) << op.kind;
    EXPECT_FALSE(arguments.contains("") || fields.contains("")) << op.kind;
  });
}

// The dtype of an argument that follows another argument is known whenever the argument is present.
TEST(Schema, DtypesFollowArgumentsThatAreThere) {
  for (const Operation& operation : every_operation()) {
    const auto names = present_names(operation);
    with_arguments(operation, [&](std::span<const ArgumentSchema> rows) {
      for (const ArgumentSchema& row : rows) {
        if (!row.present || row.elements.rule != ArgumentElements::Rule::same_as) continue;
        EXPECT_TRUE(names.contains(row.elements.other)) << kind_name(operation) << " " << row.name;
        EXPECT_NE(row.elements.other, row.name);
      }
    });
  }
}

TEST(Schema, EveryTaskWritesSomethingOrSendsIt) {
  for (const Operation& operation : every_operation()) {
    if (std::holds_alternative<Send>(operation)) continue;
    with_arguments(operation, [&](std::span<const ArgumentSchema> rows) {
      EXPECT_TRUE(std::ranges::any_of(rows, [](const ArgumentSchema& row) {
        return row.present && row.mode != AccessMode::read;
      })) << kind_name(operation);
    });
  }
}

TEST(Schema, ArgumentNamesArePlacesThatTheCompilerKnows) {
  static_assert(ArgumentName<Gemm>("A").index() == 0 && ArgumentName<Gemm>("packed_B").index() == 6);
  static_assert(argument_count<Gemm> == 7 && argument_count<Broadcast> == 1);
  static_assert(Gemm{.m = 2, .n = 3, .k = 5}.arguments()[1].shape.rows == 5);
}

TEST(Schema, ContiguousArgumentsMayComeInOtherShapes) {
  EXPECT_EQ(seen_as({2, 3}, 2, 3, false), (SeenShape{2, 3}));
  EXPECT_EQ(seen_as({2, 3}, 1, 6, true), (SeenShape{2, 3}));
  EXPECT_EQ(seen_as({2, 3}, 3, 2, false), std::nullopt);
  EXPECT_EQ(seen_as({2, 3}, 2, 4, true), std::nullopt);
  EXPECT_EQ(seen_as(any_shape(6), 3, 2, false), (SeenShape{3, 2}));
  EXPECT_EQ(seen_as(any_shape(6), 1, 5, true), std::nullopt);
  EXPECT_EQ(seen_as(any_rows(3), 4, 3, false), (SeenShape{4, 3}));
  EXPECT_EQ(seen_as(any_rows(3), 1, 12, true), (SeenShape{4, 3}));
  EXPECT_EQ(seen_as(any_rows(3), 1, 13, true), std::nullopt);
  EXPECT_EQ(seen_as(any_rows(0), 0, 0, true), std::nullopt);
  EXPECT_EQ(seen_as(any_size(), 1, 13, true), (SeenShape{1, 13}));
  EXPECT_EQ(seen_as(any_size(), 2, 13, false), std::nullopt);
}

}  // namespace
}  // namespace weft::graph
