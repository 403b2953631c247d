// Files of tuned matrix products, which `weft tune` writes, runs read, and checkpoints keep.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/execute/tuning/gemm_tuning.h"

namespace weft::execute {

/// The file of a checkpoint or run folder that holds the table it was trained with.
inline constexpr std::string_view kGemmTuningFile = "gemm_tuning.json";

/// A table and the machine on which it was measured. Results don't depend on `threads`; speed does.
struct TunedGemms {
  TuningMachine machine;
  int threads = 1;
  GemmTuning table;
};

/// JSON: format "weft-gemm-tuning", version 1, the members above, a product a line, and "crc32c", the checksum of the
/// rest.
std::string to_json(const TunedGemms& tuned);

/// Reads what to_json() writes. `name` stands for the file in messages. Throws UserError unless every member is present
/// and valid: each product once, with a method that can run it here, the right checksum, and this machine.
TunedGemms parse_gemm_tuning(std::string_view json_text, const std::string& name);

/// The text of a file, to be parsed. Throws UserError if it can't be read or is larger than any table.
std::string read_gemm_tuning_text(const std::filesystem::path& path);

/// The table for programs, with the unit that multiplies bf16; null if both are.
std::shared_ptr<const GemmTuning> table_of(const std::shared_ptr<const TunedGemms>& tuned,
                                           std::optional<PackedUnit> bf16 = std::nullopt);

}  // namespace weft::execute
