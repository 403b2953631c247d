// Tables of tuned matrix products that runs in neighbouring folders share, so that each product is tuned once.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "base/status_line.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"

namespace weft::execute {

/// A file for each machine and library version, on CPUs for each number of
/// threads too.
///
///   const GemmTuningCache cache{"runs/gemm_tuning", this_machine(), 2};
///   const TunedGemms tuned = cache.complete(products, measure, tell);
struct GemmTuningCache {
  std::filesystem::path folder;
  TuningMachine machine;
  int threads = 1;  // 0: they make no difference

  std::filesystem::path file() const;

  /// The choices for exactly these products, so that choices that other runs add change no fingerprint. Measures the
  /// products that the file lacks and adds them to it; a file that can't be used is replaced. `tell` gets a line before
  /// the first measurement and one after each. Throws UserError where the file can't be written, before anything is
  /// measured.
  TunedGemms complete(std::span<const GemmProblem> products,
                      const std::function<GemmTrial(const GemmProblem& problem)>& measure,
                      const TellStatus& tell) const;
};

/// Letters, digits and dots of a text, other characters as single hyphens, and a number that makes similar names
/// unique.
std::string readable_file_name(const std::string& text);

/// The folder of the cache that runs in `run_dir` and in neighbouring folders share.
std::filesystem::path tuning_folder(const std::filesystem::path& run_dir);

}  // namespace weft::execute
