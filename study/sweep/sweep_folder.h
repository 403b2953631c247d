// The folder of a sweep: results.csv, to which rows are appended as they are computed, so that a sweep that was killed
// goes on; and at the end results.json and plot.svg. base.toml holds what all rows rest on.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "study/columns.h"
#include "study/result_folder.h"
#include "study/sweep/sweep.h"
#include "train/run/appended_file.h"

namespace weft::study {

/// base.toml: the configuration, which simulates, and in its comments the noise, the numbers of the machine that --set
/// gave, and checksums of the machines and the profiles.
FolderDescription sweep_base(const Sweep& sweep);

class SweepFolder {
 public:
  /// Makes the folder, or opens one that an equal sweep left. Throws UserError on a folder with other files, of another
  /// sweep, or in which a sweep is running.
  SweepFolder(std::filesystem::path folder, const Sweep& sweep);

  /// The rows that the folder had.
  const std::vector<SweepRow>& rows() const { return rows_; }
  /// Appends rows to results.csv.
  void keep(std::span<const SweepRow> rows);
  /// Writes results.csv in the order of `rows`, then the folder's rows that this sweep doesn't have; results.json and
  /// plot.svg of `rows`.
  void finish(std::span<const SweepRow> rows);

 private:
  ResultFolder folder_;
  const Sweep& sweep_;
  Columns<SweepRow> columns_;
  std::vector<SweepRow> rows_;
  std::optional<train::AppendedFile> results_;
};

}  // namespace weft::study
