// The choice of the unit that multiplies bf16; see bf16_products.h.
#include "train/measure/bf16_products.h"

#include <fmt/format.h>

#include <cstddef>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/text/json_object.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

constexpr const char* kKey = "bf16-products";
constexpr const char* kGainFormat = "weft-pairs-gain";
constexpr std::int64_t kGainVersion = 1;
constexpr std::size_t kLargestFile = std::size_t{1} << 16;

std::optional<PackedUnit> stored_unit(const std::filesystem::path& checkpoint) {
  const std::string config = read_checkpoint_info(checkpoint).config_toml;
  std::optional<std::string> text;
  try {  // reads this key only: the configuration of another version may have unknown keys
    const Document document = read_toml(config, "", "");
    const auto value = document.root().find(kKey);
    if (value && value->is_text()) text = value->text();
  } catch (const UserError&) {
    return std::nullopt;
  }
  if (!text) return std::nullopt;
  RunConfig trained;
  set_key(trained, kKey, *text, in_quotes(checkpoint));
  const bool here = trained.bf16_products && cpu::has_unit(*trained.bf16_products);
  return here ? trained.bf16_products : std::nullopt;
}

std::string name_of(PackedUnit unit) {
  switch (unit) {
    case PackedUnit::f32:
      return "fp32 after a conversion";
    case PackedUnit::pairs:
      return "pairs (AVX512_BF16)";
    case PackedUnit::amx:
      return "AMX tiles";
  }
  return "?";
}

Bf16Choice choice_of_rank_0(const RunConfig& config, const std::optional<std::filesystem::path>& checkpoint,
                            const std::function<std::optional<double>()>& measure) {
  Bf16Facts facts{cpu::widest_bf16_unit(), config.bf16_products, {}, {}, measure};
  if (facts.asked && !cpu::has_unit(*facts.asked)) {
    throw UserError(fmt::format("bf16-products = {} on a CPU without {}", to_string(*facts.asked),
                                *facts.asked == PackedUnit::amx ? "AMX" : "AVX512_BF16"),
                    "fp32, or an instruction set that `weft doctor` lists", "--bf16-products auto");
  }
  if (checkpoint) facts.stored = stored_unit(*checkpoint);
  if (!config.run_dir.empty()) facts.kept = PairsGainFile(config.run_dir).read();
  return choose_bf16(facts);
}

}  // namespace

PairsGainFile::PairsGainFile(const std::filesystem::path& run_dir, std::string cpu_model)
    : path_(execute::tuning_folder(run_dir) / fmt::format("pairs_{}.json", execute::readable_file_name(cpu_model))),
      cpu_model_(std::move(cpu_model)) {}

std::optional<double> PairsGainFile::read() const {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error)) return std::nullopt;
  try {
    const Document document = read_json(whole_file(path_, kLargestFile), in_quotes(path_));
    const DocumentValue in = document.of_format("a measured gain of pairs", kGainFormat, kGainVersion);
    if (in["cpu"].text() != cpu_model_) return std::nullopt;
    return in["gain"].number({.least = 0, .above = true});
  } catch (const UserError&) {
    return std::nullopt;
  }
}

void PairsGainFile::write(double gain) const {
  std::error_code made;  // if this fails, writing the file reports the error
  std::filesystem::create_directories(path_.parent_path(), made);
  JsonObject document;
  document.add("format", kGainFormat).add("version", kGainVersion).add("cpu", cpu_model_).add("gain", gain);
  write_durable(path_, indented_json(document.text()) + "\n");
}

Bf16Choice choose_bf16(const Bf16Facts& facts) {
  using Source = Bf16Choice::Source;
  if (facts.asked) return {*facts.asked, Source::asked};
  if (facts.stored) return {*facts.stored, Source::stored};
  if (facts.widest != PackedUnit::pairs) return {facts.widest, Source::only};
  if (facts.kept) return {cpu::fastest_bf16_unit(facts.widest, facts.kept), Source::kept, facts.kept};
  const std::optional<double> gain = facts.measure();
  return {cpu::fastest_bf16_unit(facts.widest, gain), Source::measured, gain};
}

std::optional<Bf16Choice> bf16_of_run(comm::World& world, const RunConfig& config,
                                      const std::optional<std::filesystem::path>& checkpoint,
                                      const std::function<std::optional<double>()>& measure) {
  if (!computes_in_bf16(config)) return std::nullopt;
  Bf16Choice choice;
  if (world.rank() == 0) choice = choice_of_rank_0(config, checkpoint, measure);
  world.barrier();  // unlike other collectives, a barrier leaves the cores to the measurement
  choice = comm::of_ranks(world, choice).front();
  if (!cpu::has_unit(choice.unit)) {
    throw UserError(fmt::format("rank {} has a CPU without {}, by which rank 0 multiplies bf16", world.rank(),
                                name_of(choice.unit)),
                    "CPUs with the same unit", "--bf16-products fp32");
  }
  return choice;
}

ResolvedRun with_bf16(ResolvedRun run, const std::optional<Bf16Choice>& choice) {
  if (choice) run.config.bf16_products = choice->unit;
  return run;
}

std::string to_string(const Bf16Choice& choice) {
  std::string text = name_of(choice.unit);
  const bool pairs = choice.unit == PackedUnit::pairs;
  if (choice.pairs_gain) {
    text += fmt::format("{} {:.2f} times as fast as fp32{}", pairs ? "," : ": pairs are", *choice.pairs_gain,
                        choice.source == Bf16Choice::Source::kept ? ", as measured by a run in a neighbouring folder"
                                                                  : ", as measured");
  }
  if (choice.source == Bf16Choice::Source::stored) text += ", as the checkpoint was trained";
  if (choice.source == Bf16Choice::Source::asked) text += ", as configured";
  return text;
}

}  // namespace weft::train
