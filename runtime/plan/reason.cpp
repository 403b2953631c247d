#include "runtime/plan/reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "runtime/plan/rewrite.h"

namespace weft::plan {
namespace {

constexpr double kMiB = 1 << 20;

// In a pattern {} is the next number, {MiB} the next number, as bytes, and {ms} the next of `ns`.
struct KindText {
  ReasonKind kind;
  std::string_view pattern;
};

constexpr KindText kKinds[] = {
    {ReasonKind::program_order, "program order"},
    {ReasonKind::in_place, "issued in place, waited for where its result is used"},
    {ReasonKind::weight_gradient, "weight gradient: off the chain of input gradients"},
    {ReasonKind::bias_gradient, "bias gradient: off the chain of input gradients"},
    {ReasonKind::embedding_gradient, "embedding gradient: off the chain of input gradients"},
    {ReasonKind::gathered_no_earlier, "gathered no earlier than {} layers ahead of its use"},
    {ReasonKind::blocking, "blocking: no computation runs while a collective does"},
    {ReasonKind::drawn, "drawn from the ready tasks with seed {}"},
    {ReasonKind::axonn_blocking, "blocking: the next task waits for it"},
    {ReasonKind::axonn_reduced, "oar: waited for after the same layer's weight gradient"},
    {ReasonKind::axonn_scattered, "ors: waited for at the end of the backward pass"},
    {ReasonKind::axonn_gathered_next,
     "oag: issued when the weight gathered before it is used first, waited for by its own reader"},
    {ReasonKind::axonn_gathered,
     "oag: issued when the weight {} gathers before it is used first, waited for by its own reader"},
    {ReasonKind::axonn_data, "data axis: after the backward pass, blocking"},
    {ReasonKind::bucket, "bucket {} of {} ({} gradients, {MiB} MiB): issued when its last is ready"},
    {ReasonKind::gathered_ahead, "gathered ahead: {} layers in the forward, {} in the backward pass"},
    {ReasonKind::gathered_after, "gathered {} layers ahead, after that layer's gradients"},
    {ReasonKind::limiter, "limiter: at most {} layers are gathered and not passed yet"},
    {ReasonKind::reduced_after, "gradient reduced after the rest of the backward pass"},
    {ReasonKind::issued_after_input, "raised: issued as soon as its input is there"},
    {ReasonKind::issued_in_turn, "issued after the computations that come before it"},
    {ReasonKind::hides_before, "reordered: {ms} ms that hide {ms} ms of the collective before it"},
    {ReasonKind::prefetched, "prefetched as far as memory allows: {} of {} bytes in flight"},
    {ReasonKind::reordered, "its place in the best order of a window of {} tasks or more"},
    {ReasonKind::only_ready, "the only task of its stream that could start"},
    {ReasonKind::held_for_memory, "held back until memory was free: the forecast was above the limit"},
    {ReasonKind::above_memory_limit, "above the memory limit: nothing fits, and this comes first in the program"},
    {ReasonKind::best_ready, "the ready task with "},
    {ReasonKind::tied_ready, "first in program order of the ready tasks that tie on "},
    {ReasonKind::rule_memory, "memory: above half of the limit, it leaves the fewest bytes alive"},
    {ReasonKind::rule_release, "release: it completes the inputs of the longest collectives"},
    {ReasonKind::rule_near, "near: the shortest path to the next collective starts with it"},
    {ReasonKind::rule_communication, "communication: a path from it has the most communication"},
    {ReasonKind::rule_hide, "hide: its time is closest to the remaining time of the running collectives"},
    {ReasonKind::rule_critical, "critical: the longest path to the end of the step leads through it"},
    {ReasonKind::rule_unlock, "unlock: it makes the most tasks ready"},
    {ReasonKind::rule_consumer, "consumer: its result is read earliest in program order"},
    {ReasonKind::rule_less_memory, "less-memory: it leaves the fewest bytes alive"},
    {ReasonKind::rule_program, "program: all other rules tie, and it comes first in program order"},
    {ReasonKind::not_given, "the library gives no reason"},
};

// The second part of the texts of best_ready and tied_ready.
constexpr std::string_view kPriorities[] = {
    "the longest path to the end of the step",
    "the largest priority, found in {} moves from critical-path with sweeps ({ms} → {ms} ms)",
    "the largest priority, found by sweeps",
    "the earliest start in the policy's own order",
    "the largest priority, found in {} moves",
};

constexpr std::string_view kAfter = " after ";  // between the order and the rewrites that were chosen for memory
constexpr std::string_view kShortest = " (the shortest of {} orders, {ms} ms): ";
constexpr std::string_view kLeastMemory =
    " (no order keeps the limit of {} bytes; of {} this one takes the least, {ms} ms): ";
constexpr std::string_view kKeepsLimit = " (keeps the limit of {} bytes; the shortest of {} that do, {ms} ms): ";

static_assert(std::size(kKinds) == static_cast<std::size_t>(ReasonKind::other));
static_assert([] {
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    if (kKinds[i].kind != static_cast<ReasonKind>(i)) return false;
  }
  return true;
}());
static_assert(std::size(kPriorities) == static_cast<std::size_t>(Priority::annealed) + 1);

struct Pattern {
  std::string_view first, second;
};

Pattern pattern_of(ReasonKind kind, Priority priority) {
  if (kind == ReasonKind::other) return {};
  return {kKinds[static_cast<std::size_t>(kind)].pattern,
          has_priority(kind) ? kPriorities[static_cast<std::size_t>(priority)] : std::string_view()};
}

/// The numbers of a pattern, in order.
struct Values {
  std::array<std::uint64_t, 4> numbers = {};
  std::array<double, 2> ns = {};
  ReasonData used = {};
};

/// Calls literal(text) and number(placeholder) for the parts of a pattern in turn, until a call returns false.
template <class Literal, class Number>
bool walk(std::string_view pattern, const Literal& literal, const Number& number) {
  while (!pattern.empty()) {
    const std::size_t open = std::min(pattern.find('{'), pattern.size());
    if (open > 0 && !literal(pattern.substr(0, open))) return false;
    pattern.remove_prefix(open);
    if (pattern.empty()) break;
    const std::size_t close = pattern.find('}');
    if (!number(pattern.substr(1, close - 1))) return false;
    pattern.remove_prefix(close + 1);
  }
  return true;
}

void append(std::string& text, std::string_view pattern, Values& values) {
  const auto literal = [&](std::string_view part) {
    text += part;
    return true;
  };
  const auto number = [&](std::string_view placeholder) {
    if (placeholder == "ms") {
      text += fmt::format("{:.3f}", values.ns[values.used.ns++] / 1e6);
      return true;
    }
    const std::uint64_t value = values.numbers[values.used.numbers++];
    text += placeholder == "MiB" ? fmt::format("{:.2f}", static_cast<double>(value) / kMiB) : fmt::format("{}", value);
    return true;
  };
  walk(pattern, literal, number);
}

template <class Number>
bool take(std::string_view& text, Number& value) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const std::size_t size = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + size, value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

/// Removes a text that `pattern` makes from the front of `text`; false if the front is another text.
bool take(std::string_view& text, std::string_view pattern, Values& values) {
  const auto literal = [&](std::string_view part) {
    if (!text.starts_with(part)) return false;
    text.remove_prefix(part.size());
    return true;
  };
  const auto number = [&](std::string_view placeholder) {
    if (placeholder.empty()) return take(text, values.numbers[values.used.numbers++]);
    double value = 0;
    if (!take(text, value) || value > 1e9) return false;
    if (placeholder == "ms") {
      values.ns[values.used.ns++] = value * 1e6;
    } else {
      values.numbers[values.used.numbers++] = static_cast<std::uint64_t>(std::llround(value * kMiB));
    }
    return true;
  };
  return walk(pattern, literal, number);
}

Reason parse_unselected(std::string_view text) {
  for (const KindText& each : kKinds) {
    for (std::size_t p = 0; p < (has_priority(each.kind) ? std::size(kPriorities) : 1); ++p) {
      const auto priority = static_cast<Priority>(p);
      const Pattern pattern = pattern_of(each.kind, priority);
      std::string_view rest = text;
      Values values;
      if (!take(rest, pattern.first, values) || !take(rest, pattern.second, values) || !rest.empty()) continue;
      Reason reason{.kind = each.kind, .priority = priority, .numbers = values.numbers, .ns = values.ns};
      if (to_string(reason) == text) return reason;
    }
  }
  return {.kind = ReasonKind::other, .text = std::string(text)};
}

bool are_rewrites(std::string_view text) {
  try {
    return !parse_rewrites(text).empty();
  } catch (const UserError&) {
    return false;
  }
}

/// The order and the rewrites that `name` tells.
void name_order(Selection& selection, std::string_view name) {
  const std::size_t after = name.rfind(kAfter);
  if (after != std::string_view::npos && are_rewrites(name.substr(after + kAfter.size()))) {
    selection.rewrites = name.substr(after + kAfter.size());
    name = name.substr(0, after);
  }
  selection.order = name;
}

/// Removes the words about a selection from the front of `text`; returns nullopt if there are none.
std::optional<Selection> take_selection(std::string_view& text) {
  for (const std::string_view pattern : {kShortest, kLeastMemory, kKeepsLimit}) {
    const std::size_t name = text.find(pattern.substr(0, pattern.find('{')));
    if (name == std::string_view::npos) continue;
    std::string_view rest = text.substr(name);
    Values values;
    if (!take(rest, pattern, values)) continue;
    Selection selection{.makespan_ns = values.ns[0]};
    name_order(selection, text.substr(0, name));
    if (pattern != kShortest) selection.memory_limit = values.numbers[0];
    selection.keeps_limit = pattern == kKeepsLimit;
    selection.orders = values.numbers[pattern == kShortest ? 0 : 1];
    text = rest;
    return selection;
  }
  return std::nullopt;
}

void append(std::string& text, const Selection& selection) {
  text += selection.order;
  if (!selection.rewrites.empty()) text.append(kAfter).append(selection.rewrites);
  Values values{.numbers = {selection.orders}, .ns = {selection.makespan_ns}};
  if (selection.memory_limit == 0) return append(text, kShortest, values);
  values.numbers = {selection.memory_limit, selection.orders};
  append(text, selection.keeps_limit ? kKeepsLimit : kLeastMemory, values);
}

}  // namespace

const Selection* selection_of(std::span<const Reason> reasons) {
  for (const Reason& reason : reasons) {
    if (reason.selection) return &*reason.selection;
  }
  return nullptr;
}

bool has_priority(ReasonKind kind) {
  return kind == ReasonKind::best_ready || kind == ReasonKind::tied_ready;
}

ReasonData data_of(ReasonKind kind, Priority priority) {
  ReasonData data;
  const auto literal = [](std::string_view) { return true; };
  const auto number = [&](std::string_view placeholder) {
    ++(placeholder == "ms" ? data.ns : data.numbers);
    return true;
  };
  const Pattern pattern = pattern_of(kind, priority);
  walk(pattern.first, literal, number);
  walk(pattern.second, literal, number);
  return data;
}

bool is_for_memory(const Reason& reason) {
  switch (reason.kind) {
    case ReasonKind::limiter:
    case ReasonKind::held_for_memory:
    case ReasonKind::above_memory_limit:
    case ReasonKind::rule_memory:
    case ReasonKind::rule_less_memory:
      return true;
    case ReasonKind::other:
      return reason.text.starts_with(kForMemory);
    default:
      return false;
  }
}

std::string to_string(const Reason& reason) {
  std::string text;
  if (reason.selection) append(text, *reason.selection);
  Values values{.numbers = reason.numbers, .ns = reason.ns};
  const Pattern pattern = pattern_of(reason.kind, reason.priority);
  append(text, pattern.first, values);
  append(text, pattern.second, values);
  return text + reason.text;
}

Reason parse_reason(std::string_view text) {
  std::string_view rest = text;
  if (std::optional<Selection> selection = take_selection(rest)) {
    Reason reason = parse_unselected(rest);
    reason.selection = std::move(selection);
    if (to_string(reason) == text) return reason;
  }
  return parse_unselected(text);
}

}  // namespace weft::plan
