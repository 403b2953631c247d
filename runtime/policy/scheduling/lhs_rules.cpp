#include "runtime/policy/scheduling/lhs_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/files/text_file.h"
#include "base/files/toml_document.h"

namespace weft::policy {
namespace {

constexpr const char* kFix = "write it as in examples/lhs_rules.toml";

struct RuleText {
  LhsRule rule;
  std::string_view name;
  plan::ReasonKind reason;
};

constexpr RuleText kRules[] = {
    {LhsRule::memory, "memory", plan::ReasonKind::rule_memory},
    {LhsRule::release, "release", plan::ReasonKind::rule_release},
    {LhsRule::near, "near", plan::ReasonKind::rule_near},
    {LhsRule::communication, "communication", plan::ReasonKind::rule_communication},
    {LhsRule::hide, "hide", plan::ReasonKind::rule_hide},
    {LhsRule::critical, "critical", plan::ReasonKind::rule_critical},
    {LhsRule::unlock, "unlock", plan::ReasonKind::rule_unlock},
    {LhsRule::consumer, "consumer", plan::ReasonKind::rule_consumer},
    {LhsRule::less_memory, "less-memory", plan::ReasonKind::rule_less_memory},
    {LhsRule::program, "program", plan::ReasonKind::rule_program},
};

const RuleText& text_of(LhsRule rule) {
  return kRules[static_cast<std::size_t>(rule)];
}

// `where` begins the error message; `how` describes how a list is written.
void add_rule(std::vector<LhsRule>& rules, std::string_view name, const std::string& where, std::string_view how) {
  const auto known = std::ranges::find(kRules, name, &RuleText::name);
  if (known == std::end(kRules)) {
    std::vector<std::string> names;
    for (const RuleText& rule : kRules) names.emplace_back(rule.name);
    const std::string nearest = nearest_name(name, names);
    throw UserError(fmt::format("{}: unknown rule \"{}\"", where, name), fmt::format("of {}, {}", join(names), how),
                    nearest.empty() ? "leave it out" : fmt::format("write \"{}\"", nearest));
  }
  if (std::ranges::find(rules, known->rule) != rules.end()) {
    throw UserError(fmt::format("{}: rule {} occurs twice", where, name), "each rule once", "leave one out");
  }
  rules.push_back(known->rule);
}

std::vector<LhsRule> completed(std::vector<LhsRule> rules) {
  if (std::ranges::find(rules, LhsRule::program) == rules.end()) rules.push_back(LhsRule::program);
  return rules;
}

}  // namespace

std::string_view to_string(LhsRule rule) {
  return text_of(rule).name;
}

plan::ReasonKind reason_of(LhsRule rule) {
  return text_of(rule).reason;
}

std::vector<LhsRule> parse_lhs_rules(std::string_view text) {
  std::vector<LhsRule> rules;
  for (bool more = !text.empty(); more;) {
    const std::string_view name = text.substr(0, text.find('+'));
    more = name.size() < text.size();
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    add_rule(rules, name, "policy lhs", "joined by +");
  }
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

}  // namespace weft::policy
