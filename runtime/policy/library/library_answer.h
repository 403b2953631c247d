// What a policy in a shared library answers, and the rules to which it is held before anything is planned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/plan/order.h"

namespace weft::policy {

/// Entries that a library hasn't filled.
inline constexpr std::uint32_t kUnsetEntry = UINT32_MAX;

/// Of tasks of which a library says nothing.
inline constexpr plan::ReasonText kLibraryTexts[] = {{"the library gives no reason"}};
inline constexpr plan::ReasonTable kLibraryReasons{"library", kLibraryTexts};

/// Limits a library that adds without end.
inline constexpr std::size_t kMostAdded = 10'000'000;

/// Throws a UserError about the library at `path`, for its author.
[[noreturn]] void refuse_library(const std::string& path, const std::string& why, std::string_view fix);

/// The order of one graph, as a library writes it.
struct LibraryAnswer {
  explicit LibraryAnswer(std::size_t tasks)
      : sequence(tasks, kUnsetEntry), streams(tasks, kUnsetEntry), reason_of(tasks, 0) {}

  std::vector<std::uint32_t> sequence, streams, reason_of;  // by position
  std::vector<graph::Edge> edges;                           // its own, by indices that may be wrong
};

/// The order, on `streams`. `reasons`: those that the library added, after the one that stands for none. Throws the
/// exceptions of refuse_library(): a task that is missing, unknown or there twice, a stream that can't run it, a reason
/// that isn't there, an order or an added edge that contradicts the graph's edges or the order.
plan::Order order_of_answer(const std::string& path, const graph::Graph& graph, std::vector<plan::Stream> streams,
                            const LibraryAnswer& answer, const std::vector<plan::Reason>& reasons);

}  // namespace weft::policy
