#include "train/training_checkpoints.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/comm/agreement.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/run/run_files.h"
#include "train/step/training_state.h"

namespace weft::train {
namespace {

Retention retention_of(const RunConfig& config) {
  return {config.keep_last, config.keep_every, config.keep_best};
}

}  // namespace

RunConfig recorded_config(const TrainingSetup& setup) {
  RunConfig config = setup.config();
  if (setup.bf16 && setup.bf16->source == Bf16Choice::Source::only) config.bf16_products.reset();
  if (config.epochs > 0) config.steps = 0;  // the epochs tell them again
  if (setup.tuned) config.gemm_tuning = (std::filesystem::path(config.run_dir) / execute::kGemmTuningFile).string();
  return config;
}

TrainingCheckpoints::TrainingCheckpoints(const TrainingSetup& setup, std::function<void(const std::string& text)> show)
    : setup_(setup),
      show_(std::move(show)),
      writer_(setup.world, setup.config().run_dir, retention_of(setup.config()),
              parameters_elsewhere(setup.config(), setup.specs, setup.at).empty() ? RankHolds::every_parameter
                                                                                  : RankHolds::own_stage) {
  // A run that was killed between a checkpoint and this has left older ones.
  if (setup.world.rank() == 0 && setup.config().save && setup.inputs.first_step > 0)
    remove_superseded(setup.config().run_dir, setup.inputs.first_step, retention_of(setup.config()));
}

CheckpointInfo TrainingCheckpoints::info(std::int64_t steps_done) const {
  const RunConfig& config = setup_.config();
  CheckpointInfo info;
  info.step = steps_done;
  info.seed = config.seed;
  info.tokens_seen = setup_.tokens_seen(steps_done);
  info.dtype = config.dtype;
  info.model = config.model;
  info.config_toml = dump_toml(recorded_config(setup_));
  if (setup_.tuned) info.gemm_tuning = execute::to_json(*setup_.tuned);
  if (setup_.inputs.tokenizer) {
    const text::TokenizerFacts& facts = setup_.inputs.tokenizer->facts();
    info.tokenizer = facts.files;
    info.ends = {facts.begin, facts.ends};
  }
  info.tokenizer_digest = setup_.inputs.tokenizer_digest;
  info.data = setup_.inputs.source.mark;
  info.padded = setup_.inputs.cut == BatchPlan::Cut::padded;
  info.versions = library_versions();
  info.base = setup_.inputs.base;
  return info;
}

void TrainingCheckpoints::expect_space() {
  const SpaceCheck space = writer_.space(info(setup_.inputs.first_step + 1), setup_.parameters());
  Log(LogTopic::checkpoint, setup_.world.rank())
      .debug("a checkpoint takes {} of {} free bytes", space.needed, space.free);
  if (space.fits()) return;
  throw UserError("the first checkpoint " + space.text(), "room for it",
                  "--run-dir on another disk, or free some space");
}

std::optional<double> TrainingCheckpoints::best_loss() const {
  const auto best = best_checkpoint(setup_.config().run_dir, setup_.inputs.first_step);
  const std::string text = comm::text_of_rank_0(setup_.world, best ? fmt::format("{}", best->val_loss) : "");
  if (text.empty()) return std::nullopt;
  return parse_number<double>(text, "val_loss", -1e300, 1e300);
}

void TrainingCheckpoints::save(const RunPosition& at, bool last) {
  setup_.world.barrier();  // every rank has finished the step that is saved
  step_started();
  writer_.finish();  // it reads arrays that state_to_host() writes
  CheckpointInfo saved = info(at.steps_done);
  if (setup_.config().keep_best) saved.val_loss = at.val_loss;
  saved.decay_seconds = comm::of_ranks(setup_.world, at.decay_seconds).front();
  if (!last && setup_.config().copy_beside && setup_.program->start_state_to_host()) {
    leaving_ = saved;
    return;
  }
  setup_.program->state_to_host();
  last ? writer_.save_now(saved, setup_.parameters()) : writer_.save(saved, setup_.parameters());
  report();
  if (last) setup_.world.barrier();  // no rank ends before the checkpoint is complete
}

// No step writes the host's arrays of what is on a device.
void TrainingCheckpoints::step_started() {
  if (!leaving_) return;
  setup_.program->finish_state_to_host();
  writer_.save_in_place(*std::exchange(leaving_, std::nullopt), setup_.parameters());
}

void TrainingCheckpoints::report() {
  const auto path = writer_.written();
  if (!path) return;
  newest_ = *path;
  show_("checkpoint written: " + path->string());
}

}  // namespace weft::train
