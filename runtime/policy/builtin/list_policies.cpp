#include "runtime/policy/builtin/list_policies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <ranges>
#include <string>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {

std::vector<plan::Order> CriticalPathPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  const LimitedLists lists(classes, options);
  const std::vector<double> rank = upward_rank(lists.tasks());
  return lists.shortest(by_priority(rank)).orders;
}

namespace {

constexpr std::string_view kDefaultRules = "memory+release+critical+unlock+consumer+program";
constexpr const char* kFix = "write it as in examples/lhs_rules.toml";

// `where` begins the error message; `how` describes how a list is written.
void add_rule(std::vector<LhsRule>& rules, std::string_view name, const std::string& where, std::string_view how) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::size(kLhsTexts); ++i) names.emplace_back(to_string(static_cast<LhsRule>(i)));
  const auto known = std::ranges::find(names, name);
  if (known == names.end()) {
    const std::string nearest = nearest_name(name, names);
    throw UserError(fmt::format("{}: unknown rule \"{}\"", where, name), fmt::format("of {}, {}", join(names), how),
                    nearest.empty() ? "leave it out" : fmt::format("write \"{}\"", nearest));
  }
  const auto rule = static_cast<LhsRule>(known - names.begin());
  if (std::ranges::find(rules, rule) != rules.end()) {
    throw UserError(fmt::format("{}: rule {} occurs twice", where, name), "each rule once", "leave one out");
  }
  rules.push_back(rule);
}

std::vector<LhsRule> completed(std::vector<LhsRule> rules) {
  if (std::ranges::find(rules, LhsRule::program) == rules.end()) rules.push_back(LhsRule::program);
  return rules;
}

}  // namespace

std::string_view to_string(LhsRule rule) {
  const std::string_view text = kLhsTexts[static_cast<std::size_t>(rule)].pattern;
  return text.substr(0, text.find(':'));
}

std::vector<LhsRule> parse_lhs_rules(std::string_view text) {
  std::vector<LhsRule> rules;
  for (const auto part : std::views::split(text, '+'))
    add_rule(rules, std::string_view(part.begin(), part.end()), "policy lhs", "joined by +");
  return completed(std::move(rules));
}

std::vector<LhsRule> read_lhs_rules(const std::filesystem::path& path) {
  const std::string text =
      read_text_file(path, "the file of rules", kLargestToml, "a TOML file with a list `rules`", kFix);
  const Document document = read_toml(text, path.string(), kFix);
  document.root().only({"rules"});
  const std::vector<DocumentValue> names = document.root()["rules"].items();
  if (names.empty()) document.root()["rules"].refuse("a list of at least one rule");
  std::vector<LhsRule> rules;
  for (const DocumentValue& name : names) add_rule(rules, name.text(), name.where(), "each in quotes");
  return completed(std::move(rules));
}

std::vector<LhsRule> lhs_rules(std::string_view text) {
  return text.ends_with(".toml") ? read_lhs_rules(text) : parse_lhs_rules(text);
}

RuleChooser::RuleChooser(const ClassTasks& tasks, std::vector<LhsRule> rules)
    : rules_(std::move(rules)), rank_(upward_rank(tasks, PathEdges::all)) {
  const std::size_t size = tasks.size();
  near_.assign(size, std::numeric_limits<double>::infinity());
  communication_.assign(size, 0);
  consumer_.assign(size, std::numeric_limits<std::uint32_t>::max());
  for (std::uint32_t i = 0; i < size; ++i) collective_.push_back(graph::is_collective(tasks.task(i).operation) ? 1 : 0);
  const std::vector<std::uint32_t> order = tasks.topological_order();
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const std::uint32_t i = *at;
    tasks.each_after(i, [&](std::uint32_t to) {
      near_[i] = std::min(near_[i], collective_[to] != 0 ? 0 : tasks.cost(to) + near_[to]);
      communication_[i] = std::max(communication_[i], communication_[to] + (collective_[to] != 0 ? tasks.cost(to) : 0));
      consumer_[i] = std::min(consumer_[i], to);
    });
    near_[i] += tasks.cost(i);
  }
}

std::vector<plan::Reason> RuleChooser::reasons() const {
  std::vector<plan::Reason> reasons;
  for (const LhsRule rule : rules_)
    reasons.push_back({.table = &kLhsReasons, .code = static_cast<std::uint16_t>(rule)});
  return reasons;
}

double RuleChooser::value(LhsRule rule, std::uint32_t task, const ListScheduler& state) const {
  const bool collective = collective_[task] != 0;
  switch (rule) {
    case LhsRule::memory:
      if (state.memory_limit(task) <= 0 || 2 * state.live_bytes(task) <= state.memory_limit(task)) return 0;
      [[fallthrough]];
    case LhsRule::less_memory:
      return static_cast<double>(state.frees(task));
    case LhsRule::release: {
      double sum = 0;
      for (const std::uint32_t next : state.successors(task)) {
        if (collective_[next] != 0 && state.missing(next) == 1) sum += state.cost(next);
      }
      return sum;
    }
    case LhsRule::near:
      return collective ? 0 : -near_[task];
    case LhsRule::communication:
      return communication_[task];
    case LhsRule::hide: {
      const auto end = state.end_of_collectives(task);
      return collective || !end ? 0 : -std::abs(*end - state.now() - state.cost(task));
    }
    case LhsRule::critical:
      return rank_[task];
    case LhsRule::unlock: {
      const auto next = state.successors(task);
      return static_cast<double>(std::ranges::count_if(next, [&](std::uint32_t n) { return state.missing(n) == 1; }));
    }
    case LhsRule::consumer:
      return collective ? -static_cast<double>(consumer_[task]) : 0;
    case LhsRule::program:
      return -static_cast<double>(task);
  }
  return 0;
}

ListChooser::Choice RuleChooser::choose(std::span<const std::uint32_t> ready, const ListScheduler& state) {
  best_.resize(ready.size());
  for (std::uint32_t i = 0; i < best_.size(); ++i) best_[i] = i;
  std::uint32_t decided = 0;
  for (std::uint32_t r = 0; r < rules_.size() && best_.size() > 1; ++r) {
    double most = -std::numeric_limits<double>::infinity();
    next_.clear();
    for (const std::uint32_t i : best_) {
      const double own = value(rules_[r], ready[i], state);
      if (own > most) next_.clear();
      if (own < most) continue;
      most = own;
      next_.push_back(i);
    }
    if (next_.size() < best_.size()) decided = r;
    best_.swap(next_);
  }
  return {best_.front(), decided};
}

LhsPolicy::LhsPolicy() : rules_(parse_lhs_rules(kDefaultRules)) {}

LhsPolicy::LhsPolicy(PolicyParameters& parameters) : rules_(lhs_rules(parameters.text("rules", kDefaultRules))) {
  chunks_ = chunks_parameter(parameters);
}

std::vector<plan::Order> LhsPolicy::schedules(ListScheduler& scheduler) const {
  if (std::ranges::find(rules_, LhsRule::less_memory) != rules_.end()) scheduler.watch_memory();
  RuleChooser chooser(scheduler.tasks(), rules_);
  scheduler.run(chooser);
  return scheduler.orders(chooser);
}

std::vector<plan::Order> LhsPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  return LimitedLists(classes, options).shortest([&](ListScheduler& scheduler) { return schedules(scheduler); }).orders;
}

}  // namespace weft::policy
