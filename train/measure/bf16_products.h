// The unit that multiplies bf16 in a run on CPUs: the configured one, the one that the checkpoint was trained with, or
// the faster one here. The speed is measured once per CPU model, so that noise can't give two runs different bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kernels/cpu/gemm/packed_unit.h"
#include "kernels/cpu/isa/level.h"
#include "runtime/comm/communicator.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// A file with the speed of bf16 pairs relative to fp32 on a CPU model, for runs in a folder and in its neighbours.
class PairsGainFile {
 public:
  /// The file is in the folder where these runs keep their tuned products.
  explicit PairsGainFile(const std::filesystem::path& run_dir, std::string cpu_model = cpu::cpu_model());

  const std::filesystem::path& path() const { return path_; }
  /// nullopt if there is no valid file.
  std::optional<double> read() const;
  /// Throws RuntimeFault if it can't be written.
  void write(double gain) const;

 private:
  std::filesystem::path path_;
  std::string cpu_model_;
};

struct Bf16Choice {
  enum class Source : std::uint8_t {
    only,      // the CPU has no other useful unit
    asked,     // by the key bf16-products
    stored,    // with the checkpoint that the run continues
    kept,      // by a run in a neighbouring folder, on this CPU model
    measured,  // just now
  };
  PackedUnit unit = PackedUnit::f32;
  Source source = Source::only;
  std::optional<double> pairs_gain = {};  // if it was kept or measured

  friend bool operator==(const Bf16Choice&, const Bf16Choice&) = default;
};

/// The inputs of the choice.
struct Bf16Facts {
  PackedUnit widest = PackedUnit::f32;             // of the CPU
  std::optional<PackedUnit> asked, stored;         // which the CPU has
  std::optional<double> kept;                      // the gain of pairs
  std::function<std::optional<double>()> measure;  // measures the gain of pairs; called only if no other input decides
};

Bf16Choice choose_bf16(const Bf16Facts& facts);

/// For a filled-in configuration: rank 0 chooses for all ranks. nullopt on GPUs and in fp32. Collective over the world.
/// Throws UserError if a CPU lacks the configured unit or rank 0's choice. A unit that is stored with `checkpoint` but
/// that this CPU lacks is ignored, since its bits can't be repeated here.
std::optional<Bf16Choice> bf16_of_run(comm::World& world, const RunConfig& config,
                                      const std::optional<std::filesystem::path>& checkpoint = std::nullopt,
                                      const std::function<std::optional<double>()>& measure = cpu::pairs_gain);

/// The run with the choice as its key bf16-products.
ResolvedRun with_bf16(ResolvedRun run, const std::optional<Bf16Choice>& choice);

/// "pairs (AVX512_BF16), 1.98 times as fast as fp32, as measured".
std::string to_string(const Bf16Choice& choice);

}  // namespace weft::train
