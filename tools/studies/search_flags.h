// The flags of commands that search for the best configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/trusted_libraries.h"
#include "study/search/search.h"
#include "tools/command_line/command.h"

namespace weft::tools {

struct SearchFlags {
  std::vector<std::string> kept, policies, pipes;
  std::int64_t finalists = 6;
  int jobs = 0;
};

/// Adds --keep, --policies, --finalists and --jobs, which set `flags` when they are parsed.
void add_search_flags(Command& command, SearchFlags& flags, const std::string& policies_help = "");

/// The policies as objects; those of `libraries` and those that are named may be loaded.
std::vector<policy::NamedPolicy> named_policies(const std::vector<std::string>& names,
                                                policy::TrustedLibraries libraries);

/// Without ranks. Throws UserError.
study::SearchOptions search_options(const SearchFlags& flags, const policy::TrustedLibraries& libraries);

}  // namespace weft::tools
