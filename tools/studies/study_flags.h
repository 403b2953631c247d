// Flags that several studies have: where the results of an experiment go, and how a search for the best configuration
// is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status_line.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/trusted_libraries.h"
#include "study/experiment.h"
#include "study/search/search.h"
#include "tools/command_line/command.h"

namespace weft::tools {

struct ResultFlags {
  std::vector<std::string> files = {};  // by their endings
  std::string svg = {}, folder = {};
  bool json = false, quiet = false;

  /// Throws UserError unless the files and the picture can be written.
  void check() const;
  void write(const study::Results& results) const;
  /// Prints JSON, or the text and, without --quiet, what stands in the folder.
  void print(const study::Results& results, const std::string& in_folder = "") const;
  /// Shows the progress of `run`, which gets a TellStatus, on a terminal; of a run whose steps take minutes, `as_lines`
  /// elsewhere too.
  template <class Run>
  auto with_status(const Run& run, bool as_lines = false) const {
    StatusLine line(!json && !quiet);
    return run([&](const Status& status) { as_lines ? line.tell(status) : line.show(status); });
  }
};

/// Adds --json and --quiet. `what`: "rows".
void add_result_flags(Command& command, ResultFlags& flags, const std::string& what);

struct SearchFlags {
  std::vector<std::string> kept, tried, policies, pipes;
  std::int64_t finalists = 20;
  double max_seconds = 0;
  std::string included = {};
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
