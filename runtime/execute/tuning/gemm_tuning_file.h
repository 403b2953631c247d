// Files of tuned matrix products and attention, which `weft tune` writes, runs read, and checkpoints keep.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status_line.h"
#include "runtime/execute/tuning/gemm_trials.h"

namespace weft::execute {

/// The file of a checkpoint or run folder that holds the table it was trained with.
inline constexpr std::string_view kGemmTuningFile = "gemm_tuning.json";

/// A table and the machine on which it was measured. Results don't depend on `threads`; speed does.
struct TunedGemms {
  TuningMachine machine;
  int threads = 1;
  GemmTuning table;
};

/// JSON: format "weft-gemm-tuning", version 1, the members above, a product a line, an attention a line where there are
/// some, and "crc32c", the checksum of the rest.
std::string to_json(const TunedGemms& tuned);

/// Reads what to_json() writes. `name` stands for the file in messages. Throws UserError unless every member is present
/// and valid: each problem once, with a method that can run it here, the right checksum, and this machine.
TunedGemms parse_gemm_tuning(std::string_view json_text, const std::string& name);

/// The text of a file, to be parsed. Throws UserError if it can't be read or is larger than any table.
std::string read_gemm_tuning_text(const std::filesystem::path& path);

/// "12 matrix products", "12 matrix products and 4 attention kernels".
std::string contents_of(const GemmTuning& table);

/// The table for programs, with the unit that multiplies bf16; null if both are.
std::shared_ptr<const GemmTuning> table_of(const std::shared_ptr<const TunedGemms>& tuned,
                                           std::optional<PackedUnit> bf16 = std::nullopt);

/// Tables that runs in neighbouring folders share, so that each product is tuned once: a file for each machine and
/// library version, on CPUs for each number of threads too.
///
///   const GemmTuningCache cache{"runs/gemm_tuning", this_machine(), 2};
///   const TunedGemms tuned = cache.complete(products, measure, tell);
struct GemmTuningCache {
  std::filesystem::path folder;
  TuningMachine machine;
  int threads = 1;  // 0: they make no difference

  std::filesystem::path file() const;

  /// The choices for exactly these problems, so that choices that other runs add change no fingerprint. Measures the
  /// problems that the file lacks and adds them to it; a file that can't be used is replaced. `tell` gets a line before
  /// the first measurement and one after each. Throws UserError where the file can't be written, before anything is
  /// measured.
  TunedGemms complete(std::span<const GemmProblem> products, const TryGemm& measure, const TellStatus& tell,
                      std::span<const AttentionProblem> attention = {},
                      const TryAttention& measure_attention = nullptr) const;
};

/// Letters, digits and dots of a text, other characters as single hyphens, and a number that makes similar names
/// unique.
std::string readable_file_name(const std::string& text);

/// The folder of the cache that runs in `run_dir` and in neighbouring folders share.
std::filesystem::path tuning_folder(const std::filesystem::path& run_dir);

}  // namespace weft::execute
