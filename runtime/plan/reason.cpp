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

constexpr std::string_view kAfter = " after ";  // between the order and the rewrites that were chosen for memory

enum SelectionCode : std::uint16_t { kShortest, kLeastMemory, kKeepsLimit };
constexpr ReasonText kSelectionTexts[] = {
    {" (the shortest of {} orders, {ms} ms): "},
    {" (no order keeps the limit of {} bytes; of {} this one takes the least, {ms} ms): "},
    {" (keeps the limit of {} bytes; the shortest of {} that do, {ms} ms): "},
};
constexpr ReasonTable kSelections{"selection", kSelectionTexts};

std::string_view pattern_of(const Reason& reason) {
  return reason.table == nullptr ? std::string_view() : reason.table->texts[reason.code].pattern;
}

/// Calls literal(text), number(placeholder, value) and time(ns) for the parts of the reason's pattern in turn, until a
/// call returns false. `R`: Reason or const Reason.
template <class R, class Literal, class Number, class Time>
bool walk(R& reason, const Literal& literal, const Number& number, const Time& time) {
  std::size_t numbers = 0, times = 0;
  for (std::string_view pattern = pattern_of(reason); !pattern.empty();) {
    const std::size_t open = std::min(pattern.find('{'), pattern.size());
    if (open > 0 && !literal(pattern.substr(0, open))) return false;
    pattern.remove_prefix(open);
    if (pattern.empty()) break;
    const std::string_view placeholder = pattern.substr(1, pattern.find('}') - 1);
    pattern.remove_prefix(placeholder.size() + 2);
    const bool goes_on = placeholder == "policy" ? literal(reason.table->name)
                         : placeholder == "ms"   ? time(reason.ns[times++])
                                                 : number(placeholder, reason.numbers[numbers++]);
    if (!goes_on) return false;
  }
  return true;
}

void append(std::string& text, const Reason& reason) {
  const auto add = [&](std::string_view part) {
    text += part;
    return true;
  };
  const auto number = [&](std::string_view placeholder, std::uint64_t value) {
    if (placeholder == "word") return add(reason.table->words[value]);
    return add(placeholder == "MiB" ? fmt::format("{:.2f}", static_cast<double>(value) / kMiB)
                                    : fmt::format("{}", value));
  };
  walk(reason, add, number, [&](double ns) { return add(fmt::format("{:.3f}", ns / 1e6)); });
}

template <class Number>
bool take(std::string_view& text, Number& value) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const std::size_t size = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + size, value);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

/// The longest of the words that the text begins with.
bool take_word(std::string_view& text, std::span<const std::string_view> words, std::uint64_t& index) {
  std::size_t longest = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() <= longest || !text.starts_with(words[i])) continue;
    longest = words[i].size();
    index = i;
  }
  text.remove_prefix(longest);
  return longest > 0;
}

/// Removes a text that the reason's pattern makes from the front of `text`, and sets the reason's numbers; false if the
/// front is another text.
bool take(std::string_view& text, Reason& reason) {
  const auto literal = [&](std::string_view part) {
    if (!text.starts_with(part)) return false;
    text.remove_prefix(part.size());
    return true;
  };
  const auto number = [&](std::string_view placeholder, std::uint64_t& value) {
    if (placeholder == "word") return take_word(text, reason.table->words, value);
    if (placeholder.empty()) return take(text, value);
    double mebibytes = 0;
    if (!take(text, mebibytes) || mebibytes > 1e9) return false;
    value = static_cast<std::uint64_t>(std::llround(mebibytes * kMiB));
    return true;
  };
  return walk(reason, literal, number, [&](double& ns) {
    if (!take(text, ns) || ns > 1e9) return false;
    ns *= 1e6;
    return true;
  });
}

Reason parse_unselected(std::string_view text, ReasonTables tables) {
  for (const ReasonTable* table : tables) {
    for (std::size_t code = 0; code < table->texts.size(); ++code) {
      std::string_view rest = text;
      Reason reason{.table = table, .code = static_cast<std::uint16_t>(code)};
      if (take(rest, reason) && rest.empty() && to_string(reason) == text) return reason;
    }
  }
  return {.text = std::string(text)};
}

/// After the order's name.
std::string proof_words(Proof proof) {
  return proof == Proof::none ? "" : fmt::format(", {}", to_string(proof));
}

bool are_rewrites(std::string_view text) {
  try {
    return !parse_rewrites(text).empty();
  } catch (const UserError&) {
    return false;
  }
}

/// The order, what is proved of it, and the rewrites that `name` tells.
void name_order(Selection& selection, std::string_view name) {
  const std::size_t after = name.rfind(kAfter);
  if (after != std::string_view::npos && are_rewrites(name.substr(after + kAfter.size()))) {
    selection.rewrites = name.substr(after + kAfter.size());
    name = name.substr(0, after);
  }
  for (const Proof proof : {Proof::best_without_waits, Proof::optimal}) {
    const std::string words = proof_words(proof);
    if (!name.ends_with(words)) continue;
    selection.proof = proof;
    name.remove_suffix(words.size());
    break;
  }
  selection.order = name;
}

/// Removes the words about a selection from the front of `text`; returns nullopt if there are none.
std::optional<Selection> take_selection(std::string_view& text) {
  for (const std::uint16_t code : {kShortest, kLeastMemory, kKeepsLimit}) {
    Reason words{.table = &kSelections, .code = code};
    const std::size_t name = text.find(pattern_of(words).substr(0, pattern_of(words).find('{')));
    if (name == std::string_view::npos) continue;
    std::string_view rest = text.substr(name);
    if (!take(rest, words)) continue;
    Selection selection{.makespan_ns = words.ns[0]};
    name_order(selection, text.substr(0, name));
    if (code != kShortest) selection.memory_limit = words.numbers[0];
    selection.keeps_limit = code == kKeepsLimit;
    selection.orders = words.numbers[code == kShortest ? 0 : 1];
    text = rest;
    return selection;
  }
  return std::nullopt;
}

void append(std::string& text, const Selection& selection) {
  text += selection.order;
  text += proof_words(selection.proof);
  if (!selection.rewrites.empty()) text.append(kAfter).append(selection.rewrites);
  Reason words{.table = &kSelections, .numbers = {selection.orders}, .ns = {selection.makespan_ns}};
  if (selection.memory_limit > 0) {
    words.code = selection.keeps_limit ? kKeepsLimit : kLeastMemory;
    words.numbers = {selection.memory_limit, selection.orders};
  }
  append(text, words);
}

}  // namespace

std::string_view to_string(Proof proof) {
  if (proof == Proof::none) return "";
  return proof == Proof::optimal ? "proved optimal" : "best among orders without waits";
}

const Selection* selection_of(std::span<const Reason> reasons) {
  for (const Reason& reason : reasons) {
    if (reason.selection) return &*reason.selection;
  }
  return nullptr;
}

std::size_t numbers_in_text(const Reason& reason) {
  std::size_t numbers = 0;
  const auto any = [](const auto&) { return true; };
  walk(
      reason, any, [&](std::string_view, std::uint64_t) { return ++numbers > 0; }, any);
  return numbers;
}

bool is_for_memory(const Reason& reason) {
  if (reason.table == nullptr) return reason.text.starts_with(kForMemory);
  return reason.table->texts[reason.code].for_memory;
}

std::string to_string(const Reason& reason) {
  std::string text;
  if (reason.selection) append(text, *reason.selection);
  append(text, reason);
  return text + reason.text;
}

Reason parse_reason(std::string_view text, ReasonTables tables) {
  std::string_view rest = text;
  if (std::optional<Selection> selection = take_selection(rest)) {
    Reason reason = parse_unselected(rest, tables);
    reason.selection = std::move(selection);
    if (to_string(reason) == text) return reason;
  }
  return parse_unselected(text, tables);
}

}  // namespace weft::plan
