// The flags that say where the results of an experiment go.
#pragma once

#include <string>
#include <vector>

#include "base/status_line.h"
#include "study/experiment.h"
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

}  // namespace weft::tools
