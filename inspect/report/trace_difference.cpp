#include "inspect/report/trace_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/median.h"
#include "base/text/text_table.h"

namespace weft::inspect {
namespace {

constexpr std::array<const char*, 5> kSums = {"step", "computing", "communicating", "exposed", "idle"};

struct Medians {
  std::array<double, kSums.size()> sums{};
  std::map<std::string, double> kinds;
  std::vector<double> tasks;
};

Medians medians_of(const plan::Recording& recording) {
  std::array<std::vector<double>, kSums.size()> sums;
  std::map<std::string, std::vector<double>> kinds;
  std::vector<std::vector<double>> tasks(recording.tasks.size());
  for (const plan::RecordedRank& rank : recording.ranks) {
    for (const plan::RecordedStep& step : rank.steps) {
      const plan::OverlapSummary overlap = plan::summarize(recording, step);
      const std::array<std::int64_t, kSums.size()> values = {overlap.step, overlap.compute, overlap.communication,
                                                             overlap.exposed,
                                                             overlap.step - overlap.compute - overlap.exposed};
      for (std::size_t i = 0; i < values.size(); ++i) sums[i].push_back(static_cast<double>(values[i]));
      std::map<std::string, double> of_kind;
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        const auto length = static_cast<double>(step.times[i].end - step.times[i].begin);
        of_kind[recording.tasks[i].kind] += length;
        tasks[i].push_back(length);
      }
      for (const auto& [kind, sum] : of_kind) kinds[kind].push_back(sum);
    }
  }
  Medians out;
  for (std::size_t i = 0; i < sums.size(); ++i) out.sums[i] = quantile(std::move(sums[i]), 0.5);
  for (auto& [kind, values] : kinds) out.kinds[kind] = quantile(std::move(values), 0.5);
  for (auto& values : tasks) out.tasks.push_back(quantile(std::move(values), 0.5));
  return out;
}

void sort_by_change(std::vector<ValueChange>& values) {
  std::ranges::stable_sort(values, std::greater(), [](const ValueChange& v) { return std::abs(v.change()); });
}

TextTable table_of(const char* title, std::span<const ValueChange> values) {
  TextTable table{.columns = {{.head = title, .words = true, .least = 16},
                              {.head = "a"},
                              {.head = "b"},
                              {.head = "b - a"},
                              {.head = "", .rank = 1}}};
  for (const ValueChange& value : values) {
    const std::string relative = value.a > 0 ? fmt::format("{:+.1f} %", 100 * value.change() / value.a) : "new";
    table.rows.push_back({value.name, fmt::format("{:.3f}", value.a * 1e-6), fmt::format("{:.3f}", value.b * 1e-6),
                          fmt::format("{:+.3f}", value.change() * 1e-6), value.change() == 0 ? "" : relative});
  }
  return table;
}

std::string names_text(const std::vector<std::string>& names, std::string_view which, std::size_t most) {
  if (names.empty()) return "";
  std::string text = fmt::format("\n{} tasks are only in {}:\n", names.size(), which);
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += "  " + names[i] + "\n";
  if (names.size() > most) text += "  …\n";
  return text;
}

}  // namespace

TraceDifference compare_recordings(const plan::Recording& a, const plan::Recording& b) {
  const Medians of_a = medians_of(a), of_b = medians_of(b);
  TraceDifference out;
  out.policy_a = a.policy, out.policy_b = b.policy;
  for (std::size_t i = 0; i < kSums.size(); ++i) out.sums.push_back({kSums[i], of_a.sums[i], of_b.sums[i]});
  std::map<std::string, ValueChange> kinds;
  for (const auto& [kind, time] : of_a.kinds) kinds[kind].a = time;
  for (const auto& [kind, time] : of_b.kinds) kinds[kind].b = time;
  for (auto& [kind, value] : kinds) out.kinds.push_back({kind, value.a, value.b});
  sort_by_change(out.kinds);
  std::unordered_map<std::string_view, std::size_t> in_b;
  for (std::size_t i = 0; i < b.tasks.size(); ++i) in_b.emplace(b.tasks[i].name, i);
  std::vector<bool> met(b.tasks.size(), false);
  for (std::size_t i = 0; i < a.tasks.size(); ++i) {
    const auto found = in_b.find(a.tasks[i].name);
    if (found == in_b.end()) {
      out.only_a.push_back(a.tasks[i].name);
      continue;
    }
    met[found->second] = true;
    out.tasks.push_back({a.tasks[i].name, of_a.tasks[i], of_b.tasks[found->second]});
  }
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (!met[i]) out.only_b.push_back(b.tasks[i].name);
  }
  sort_by_change(out.tasks);
  return out;
}

StyledText styled_difference(const TraceDifference& difference, std::size_t most, std::optional<std::size_t> width) {
  StyledText text(fmt::format("a: policy {}, b: policy {}; medians over ranks and steps, in ms\n\n",
                              difference.policy_a, difference.policy_b));
  text.add(table_text(table_of("sums", difference.sums), width));
  text.add("\n").add(table_text(table_of("kinds, all tasks of a step", difference.kinds), width));
  const std::span<const ValueChange> tasks = difference.tasks;
  if (!tasks.empty()) {
    text.add("\n").add(
        table_text(table_of("tasks that changed most", tasks.first(std::min(most, tasks.size()))), width));
  }
  return text.add(names_text(difference.only_a, "a", most)).add(names_text(difference.only_b, "b", most));
}

JsonObject difference_json(const TraceDifference& difference) {
  const auto list = [](const std::vector<ValueChange>& values) {
    JsonArray out;
    for (const ValueChange& value : values) {
      out.add(JsonObject().add("name", value.name).add("a_ns", value.a).add("b_ns", value.b));
    }
    return out;
  };
  return JsonObject()
      .add("policy_a", difference.policy_a)
      .add("policy_b", difference.policy_b)
      .add("sums", list(difference.sums))
      .add("kinds", list(difference.kinds))
      .add("tasks", list(difference.tasks))
      .add("only_a", difference.only_a)
      .add("only_b", difference.only_b);
}

}  // namespace weft::inspect
