#include "runtime/policy/scheduling/lhs_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/files/toml_document.h"

namespace weft::policy {
namespace {

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
