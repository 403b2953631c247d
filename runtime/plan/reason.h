// A policy's reason for a task's position: a code and numbers, of which the policy's own table makes a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft::plan {

/// What a code means. In the pattern {} stands for the next of Reason::numbers, {MiB} for the next as bytes, {word} for
/// the word of the table that the next is the index of, {ms} for the next of Reason::ns, and {policy} for the table's
/// name.
struct ReasonText {
  std::string_view pattern;
  bool for_memory = false;  // the task was delayed or preferred to keep a memory limit
};

/// The reasons of a policy, or of code that policies share. It stands in that code's own file, and outlives all
/// reasons.
struct ReasonTable {
  std::string_view name;
  std::span<const ReasonText> texts;  // by code
  std::span<const std::string_view> words = {};
};

/// Tables with different names.
using ReasonTables = std::span<const ReasonTable* const>;

/// What is proved of an order against others of its graph, under the costs that the policy had.
enum class Proof : std::uint8_t {
  none,
  best_without_waits,  // no other order is shorter whose tasks start as soon as their streams and inputs allow
  optimal,             // no plan is shorter, whatever its order, streams and added edges
};

/// "", "best among orders without waits", "proved optimal".
std::string_view to_string(Proof proof);

/// The choice of this order among several, by a portfolio or to keep a memory limit.
struct Selection {
  std::string order = {};          // its policy, as make_policy() takes it, or how the search found it
  std::uint64_t orders = 0;        // number of orders to choose from
  std::uint64_t memory_limit = 0;  // bytes of scratch; 0: any order could be chosen, and this is the shortest
  bool keeps_limit = false;        // the shortest that keeps the limit; false: none did, and this takes the least
  double makespan_ns = 0;
  std::string rewrites = {};  // of the graph, which the policy chose to keep the limit: "recompute=0-3;reshard"
  Proof proof = Proof::none;
  friend bool operator==(const Selection&, const Selection&) = default;
};

/// A code of a table, with its data. Data that its text doesn't have keep their defaults.
struct Reason {
  const ReasonTable* table = nullptr;  // null: `text`, from a shared library or an edited plan file
  std::uint16_t code = 0;
  std::array<std::uint64_t, 5> numbers = {};
  std::array<double, 2> ns = {};
  std::string text = {};
  std::optional<Selection> selection = {};
  friend bool operator==(const Reason&, const Reason&) = default;
};

/// The first selection of an order's reasons, which all have the same; null if they have none.
const Selection* selection_of(std::span<const Reason> reasons);

/// How many of Reason::numbers the reason's text has.
std::size_t numbers_in_text(const Reason& reason);

/// What texts from outside begin with if the task was delayed or preferred to keep a memory limit.
inline constexpr std::string_view kForMemory = "for memory: ";

/// Was the task delayed or preferred to keep a memory limit?
bool is_for_memory(const Reason& reason);

/// The text in plans, traces and drawings: "limiter: at most 2 layers are gathered and not passed yet".
std::string to_string(const Reason& reason);

/// The reason of one of the tables that to_string() turns into `text`, else `text` itself. Times and bytes are as exact
/// as the text.
Reason parse_reason(std::string_view text, ReasonTables tables);

}  // namespace weft::plan
