// What multiplies bf16 in a run on CPUs: what it was asked for, what its checkpoint was trained with, or what is faster
// here, which is measured once for a CPU's model, so that noise can't give two runs different bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kernels/cpu/cpu_model.h"
#include "kernels/cpu/gemm/pair_speed.h"
#include "runtime/comm/communicator.h"
#include "train/config/resolved_run.h"

namespace weft::train {

/// How many times as fast as fp32 pairs of bf16 were on a CPU model, for runs in a folder and those beside it.
class PairsGainFile {
 public:
  /// In the folder where such runs keep their tuned products.
  explicit PairsGainFile(const std::filesystem::path& run_dir, std::string cpu_model = cpu::cpu_model());

  const std::filesystem::path& path() const { return path_; }
  /// Null if there is no file, or none that can be believed.
  std::optional<double> read() const;
  /// Throws RuntimeFault if it can't be written.
  void write(double gain) const;

 private:
  std::filesystem::path path_;
  std::string cpu_model_;
};

struct Bf16Choice {
  enum class Source : std::uint8_t {
    only,      // the CPU has nothing else that is worth asking for
    asked,     // by the key bf16-products
    stored,    // with the checkpoint that the run goes on from
    kept,      // by a run beside it, on this CPU model
    measured,  // just now
  };
  PackedUnit unit = PackedUnit::f32;
  Source source = Source::only;
  std::optional<double> pairs_gain = {};  // where it was kept or measured

  friend bool operator==(const Bf16Choice&, const Bf16Choice&) = default;
};

/// What a choice depends on.
struct Bf16Facts {
  PackedUnit widest = PackedUnit::f32;             // of the CPU
  std::optional<PackedUnit> asked, stored;         // which the CPU has
  std::optional<double> kept;                      // the gain of pairs
  std::function<std::optional<double>()> measure;  // the same; called only where nothing else tells
};

Bf16Choice choose_bf16(const Bf16Facts& facts);

/// For a filled-in configuration: rank 0 chooses and all ranks get the same. Null on GPUs and in fp32. Collective over
/// the world. Throws UserError where a CPU lacks what was asked for, or what rank 0 chose. A unit that is stored with
/// `checkpoint` but that this CPU lacks counts as none: its bits can't be repeated here.
std::optional<Bf16Choice> bf16_of_run(comm::World& world, const RunConfig& config,
                                      const std::optional<std::filesystem::path>& checkpoint = std::nullopt,
                                      const std::function<std::optional<double>()>& measure = cpu::pairs_gain);

/// The run with that choice as its key.
ResolvedRun with_bf16(ResolvedRun run, const std::optional<Bf16Choice>& choice);

/// "pairs (AVX512_BF16), 1.98 times as fast as fp32, as measured".
std::string to_string(const Bf16Choice& choice);

}  // namespace weft::train
