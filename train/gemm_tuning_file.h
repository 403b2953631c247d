// Files of tuned matrix products, which `weft tune` writes, runs read, and checkpoints keep.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/comm/communicator.h"
#include "runtime/gemm_tuning.h"

namespace weft {

/// The file of a checkpoint or run folder that holds the table it was trained with.
inline constexpr std::string_view kGemmTuningFile = "gemm_tuning.json";

/// The value of the key gemm-tuning that means the default methods, whatever a checkpoint holds.
inline constexpr std::string_view kNoGemmTuning = "none";
/// The value that means: tuned at the start, or what a checkpoint holds.
inline constexpr std::string_view kAutoGemmTuning = "auto";

/// A table and what it was measured on. Results don't depend on `threads`; speed does.
struct TunedGemms {
  TuningMachine machine;
  int threads = 1;
  GemmTuning table;
};

/// JSON: format "weft-gemm-tuning", version 1, the members above, a product a line, and "crc32c", the checksum of the
/// rest.
std::string to_json(const TunedGemms& tuned);

/// Reads what to_json() writes. `name` stands for the file in messages. Throws UserError unless every part is there and
/// believable: each product once, with a method that can run it here, the checksum right, and the machine this one.
TunedGemms parse_gemm_tuning(std::string_view json_text, const std::string& name);

/// The text of a file, to be parsed. Throws UserError if it can't be read or is larger than any table.
std::string read_gemm_tuning_text(const std::filesystem::path& path);

/// The table alone, as programs take it, with what multiplies bf16; null where both are.
std::shared_ptr<const GemmTuning> table_of(const std::shared_ptr<const TunedGemms>& tuned,
                                           std::optional<cpu::PackedUnit> bf16 = std::nullopt);

/// What to do with a checkpoint's table that was measured on another machine: its bits can't be repeated here. Refuse
/// it, or use the default methods.
enum class StoredTuning : std::uint8_t { required, if_it_fits };

/// What the key gemm-tuning comes to: a file's table; kNoGemmTuning: none; empty: that of `checkpoint`, if it has one;
/// kAutoGemmTuning: the same where there is a checkpoint, else what `tune` returns, which rank 0 calls while the others
/// wait. Null: none. Rank 0 reads; all ranks get the same. Collective over the world. Throws UserError as
/// parse_gemm_tuning() does, and for kAutoGemmTuning where nothing can be tuned: `tune` is null.
std::shared_ptr<const TunedGemms> gemm_tuning_of_run(World& world, const std::string& setting,
                                                     const std::optional<std::filesystem::path>& checkpoint,
                                                     StoredTuning stored,
                                                     const std::function<TunedGemms()>& tune = nullptr);

}  // namespace weft
