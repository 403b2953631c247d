#include "tools/studies/search_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/error.h"
#include "tools/config_options.h"

namespace weft::tools {
namespace {

/// Plans of finalists; the searching policy plans the best of them in addition.
const std::vector<std::string>& default_policies() {
  static const std::vector<std::string> names = {"program", "lhs"};
  return names;
}
constexpr const char* kSearching = "portfolio:budget=0";

std::set<std::string, std::less<>> kept_keys(const SearchFlags& flags) {
  std::set<std::string, std::less<>> kept;
  for (const std::string& key : flags.kept) {
    const std::vector<std::string>& known = study::searched_keys();
    if (std::ranges::find(known, key) == known.end()) {
      throw UserError(fmt::format("--keep {} is no key that a search chooses", key),
                      fmt::format("{}", fmt::join(known, ", ")), "leave it out: all other keys stay as they are");
    }
    kept.insert(key);
  }
  return kept;
}

}  // namespace

void add_search_flags(Command& command, SearchFlags& flags, const std::string& policies_help) {
  command.add({.names = "--keep",
               .target = &flags.kept,
               .value = "KEY",
               .help = "keys that stay as the configuration has them; grid, axis-order, micro-batch, recompute, "
                       "reshard-after-forward, zero-1",
               .suggestions = study::searched_keys()});
  command.add({.names = "--policies",
               .target = &flags.policies,
               .value = "POLICY",
               .help = policies_help.empty() ? "policies that plan every finalist; default: program and lhs, and "
                                               "portfolio:budget=0 for the best"
                                             : policies_help,
               .suggestions = policy_words()});
  command.add({.names = "--finalists",
               .target = &flags.finalists,
               .value = "N",
               .help = "steps that are planned and simulated whole",
               .least = 1,
               .most = 10'000});
  command.add({.names = "--jobs",
               .target = &flags.jobs,
               .value = "N",
               .help = "threads; 0: all cores",
               .least = 0,
               .most = 4096});
}

std::vector<policy::NamedPolicy> policies_of(const SearchFlags& flags, policy::TrustedLibraries libraries) {
  std::vector<policy::NamedPolicy> policies;
  for (const std::string& name : flags.policies) libraries.trust(name);
  for (const std::string& name : flags.policies) policies.push_back(policy::named_policy(name, libraries));
  return policies;
}

study::SearchOptions search_options(const SearchFlags& flags, const policy::TrustedLibraries& libraries) {
  study::SearchOptions options;
  options.kept = kept_keys(flags);
  options.policies = policies_of(flags, libraries);
  if (options.policies.empty()) {
    for (const std::string& name : default_policies()) options.policies.push_back(policy::named_policy(name));
    options.searching = policy::named_policy(kSearching);
  }
  options.finalists = static_cast<std::size_t>(flags.finalists);
  options.threads = threads_of(flags.jobs);
  return options;
}

int threads_of(int jobs) {
  return jobs > 0 ? jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace weft::tools
