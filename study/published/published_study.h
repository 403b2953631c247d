// Published training runs beside their simulation by machine files: the error of each, medians of the half that was
// learnt from and of the half that is judged, and whether runs are ranked as they were measured.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "study/experiment.h"
#include "study/published/published_runs.h"

namespace weft::study {

struct PublishedRow {
  PublishedRun run = {};
  double tokens = 0;  // simulated tokens a second and rank; 0: it can't be simulated
  double plain = 0;   // the same by the machine file without rates by shape
  std::int64_t memory_bytes = 0;
  double device_bytes = 0;  // memory of a device
  std::string reason = {};  // why it can't be simulated

  bool possible() const { return reason.empty(); }
  double error() const { return tokens / run.tokens - 1; }
};

struct PublishedStudyOptions {
  std::vector<std::string> groups = {};   // names; empty: all
  std::optional<Half> half = {};          // none: both
  std::vector<std::string> numbers = {};  // "MACHINE.KEY=VALUE", in place of those of the files
  int threads = 1;
};

/// Simulates a run under its policy. Throws UserError.
PublishedRow simulated_run(const PublishedRun& run, const std::vector<std::string>& numbers);

std::vector<PublishedRow> study_published(const PublishedStudyOptions& options, const TellStatus& tell);

/// Errors of many runs.
struct ErrorSummary {
  std::size_t runs = 0;
  double median = 0;     // of the errors' absolute values
  double bias = 0;       // median of the errors themselves
  double within_20 = 0;  // share of the runs
};

/// `predicted` and `published`: rates of the same runs.
ErrorSummary summary_of(std::span<const double> predicted, std::span<const double> published);

/// The factor by which predicted rates come closest to the published ones: the mean of the logarithms of their ratios.
double fitted_factor(std::span<const double> predicted, std::span<const double> published);

/// Pairs of runs whose published rates differ by 3 % or more.
struct Ranking {
  std::size_t pairs = 0, right = 0;
};

Ranking ranking_of(std::span<const double> predicted, std::span<const double> published);

/// As text a table of the runs, one of the halves and one of the groups; as JSON {"runs": […], "halves": […],
/// "groups": […]}; as CSV the runs; as a picture simulated over published rates.
Results results_of(const std::vector<PublishedRow>& rows);

}  // namespace weft::study
