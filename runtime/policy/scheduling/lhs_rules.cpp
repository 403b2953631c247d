#include "runtime/policy/scheduling/lhs_rules.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::size_t kLargestFile = 64 * 1024;  // it bounds the depth of tables, which toml++ takes down recursively
constexpr std::string_view kFix = "write it as in examples/lhs_rules.toml";

struct RuleText {
  LhsRule rule;
  std::string_view name;
  ReasonKind reason;
};

constexpr RuleText kRules[] = {
    {LhsRule::memory, "memory", ReasonKind::rule_memory},
    {LhsRule::release, "release", ReasonKind::rule_release},
    {LhsRule::near, "near", ReasonKind::rule_near},
    {LhsRule::communication, "communication", ReasonKind::rule_communication},
    {LhsRule::hide, "hide", ReasonKind::rule_hide},
    {LhsRule::critical, "critical", ReasonKind::rule_critical},
    {LhsRule::unlock, "unlock", ReasonKind::rule_unlock},
    {LhsRule::consumer, "consumer", ReasonKind::rule_consumer},
    {LhsRule::less_memory, "less-memory", ReasonKind::rule_less_memory},
    {LhsRule::program, "program", ReasonKind::rule_program},
};

const RuleText& text_of(LhsRule rule) {
  return kRules[static_cast<std::size_t>(rule)];
}

// `where` stands in front of what is wrong, `how` tells how a list is written.
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
    throw UserError(fmt::format("{}: rule {} stands twice", where, name), "each rule once", "leave one out");
  }
  rules.push_back(known->rule);
}

std::vector<LhsRule> completed(std::vector<LhsRule> rules) {
  if (std::ranges::find(rules, LhsRule::program) == rules.end()) rules.push_back(LhsRule::program);
  return rules;
}

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kLargestFile + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (!in.is_open() || in.bad()) {
    throw UserError(fmt::format("can't read the rules {}", path.string()), "a TOML file with a list `rules`",
                    "check the path");
  }
  if (text.size() > kLargestFile) {
    throw UserError(fmt::format("{} is larger than {} bytes", path.string(), kLargestFile), "a list of rules",
                    std::string(kFix));
  }
  return text;
}

}  // namespace

std::string_view to_string(LhsRule rule) {
  return text_of(rule).name;
}

ReasonKind reason_of(LhsRule rule) {
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
  const auto place = [&](const toml::node& node) {
    return fmt::format("{}, line {}", path.string(), node.source().begin.line);
  };
  toml::table document;
  try {
    document = toml::parse(text_of_file(path));
  } catch (const toml::parse_error& error) {
    throw UserError(fmt::format("{}, line {}: {}", path.string(), error.source().begin.line, error.description()),
                    "TOML", std::string(kFix));
  }
  for (const auto& [key, node] : document) {
    if (key.str() == "rules") continue;
    throw UserError(fmt::format("{}: unknown key \"{}\"", place(node), std::string(key.str())), "rules, a list",
                    std::string(kFix));
  }
  const toml::node* list = document.get("rules");
  if (list == nullptr || !list->is_array() || list->as_array()->empty()) {
    throw UserError(fmt::format("{} has no list of rules", path.string()), "rules, a list of at least one",
                    std::string(kFix));
  }
  std::vector<LhsRule> rules;
  for (const toml::node& node : *list->as_array()) {
    const auto* name = node.as_string();
    if (name == nullptr) throw UserError(fmt::format("{}: no text", place(node)), "names of rules", std::string(kFix));
    add_rule(rules, name->get(), place(node), "each in quotes");
  }
  return completed(std::move(rules));
}

std::vector<LhsRule> lhs_rules(std::string_view text) {
  return text.ends_with(".toml") ? read_lhs_rules(text) : parse_lhs_rules(text);
}

}  // namespace weft
