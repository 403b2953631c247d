#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/median.h"
#include "runtime/comm/agreement.h"
#include "runtime/execute/watchdog.h"
#include "train/data/batches.h"
#include "train/evaluation.h"
#include "train/run/expert_load.h"
#include "train/run/step_routing.h"
#include "train/step/step_config.h"
#include "train/step/step_data.h"
#include "train/step/training_state.h"
#include "train/stopping.h"
#include "train/training_checkpoints.h"

namespace weft::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool every(std::int64_t n, std::int64_t step) {
  return n > 0 && (step + 1) % n == 0;
}

/// The steps of a training run, with its evaluations, its checkpoints, and the votes that end it early. All calls are
/// collective over the world.
class TrainingLoop {
 public:
  /// All four must outlive this object; `result` gets losses, measurements of the steps and the reason for the end.
  TrainingLoop(TrainingSetup& setup, TrainingCheckpoints& checkpoints, TrainingReport& report, TrainResult& result)
      : setup_(setup),
        config_(setup.config()),
        checkpoints_(checkpoints),
        report_(report),
        result_(result),
        limit_(config_.max_time, setup.inputs.decay_seconds),
        watch_(setup.world, config_, setup.program->state()) {
    if (config_.record_routing.empty() || setup.world.rank() != 0) return;
    recorder_ = std::make_unique<RoutingRecorder>(config_.record_routing, setup.routing);
  }

  /// From the evaluation before the first step to the last checkpoint.
  void run() {
    begun_at_ = Clock::now();
    const std::int64_t first = setup_.inputs.first_step;
    result_.first_step = result_.steps_done = first;
    result_.steps = config_.steps;
    result_.first_val_loss = held_out_loss();
    if (result_.first_val_loss) {
      report_.say(LogTopic::evaluation,
                  fmt::format("held-out loss before step {}: {:.4f} nats a token", first, *result_.first_val_loss));
    }
    if (config_.keep_best) best_loss_ = checkpoints_.best_loss();
    training_begun_at_ = Clock::now();
    loader_ = std::make_unique<BatchLoader>(setup_.inputs.source.train, *setup_.batches, share_of(config_, setup_.at),
                                            first, goldfish_mask(config_), setup_.first_sequence());
    run_steps();
    result_.stopped_by_signal = stop_.signal;
    result_.stopped_by_time = stop_.time;
    result_.step_ms = median(step_ms_);
    if (result_.step_ms > 0) {
      result_.tokens_per_s = static_cast<double>(config_.global_batch * config_.seq_len) / result_.step_ms * 1e3;
    }
  }

 private:
  struct StartedStep {
    std::int64_t step = 0;
    double lr = 0;
  };

  // If the device accepts work ahead, the host reads a step's results while the next step runs.
  void run_steps() {
    std::optional<StartedStep> under_way;
    for (std::int64_t step = setup_.inputs.first_step; step < config_.steps; ++step) {
      checkpoints_.report();
      load(step);
      const StartedStep now{step, setup_.program->state().get<float>(ops::names::kScalars)[0]};
      const bool ahead = start(now);
      checkpoints_.step_started();
      if (under_way) finish(*under_way, false);
      under_way = now;
      // An evaluation or a checkpoint must follow the step before the next starts.
      const bool is_due = every(config_.eval_every, step) || (config_.save && every(config_.save_every, step)) ||
                          every(config_.sample_every, step);
      if (!ahead || is_last(step) || is_due) {
        finish(now, true);
        under_way.reset();
      }
      if (is_last(step)) break;
    }
  }

  void load(std::int64_t step) {
    const execute::State& state = setup_.program->state();
    const Batch batch = loader_->next(step);
    write_ids(state, ops::names::kTokens, batch.tokens);
    write_ids(state, ops::names::kTargets, batch.targets);
    if (config_.document_mask) write_ids(state, ops::names::kDocumentStarts, batch.document_starts);
    write_scalars(state, config_, step, batch.counted, decay_share(step));
    if (config_.replay_routing.empty()) return;
    give_choices(setup_.world, {config_.model, step_config(config_)}, state,
                 setup_.replayed ? setup_.replayed->read(step) : Choices());
  }

  /// The share of the learning rate's decay that is over by the time limit. All ranks have rank 0's.
  double decay_share(std::int64_t step) {
    if (config_.max_time == 0 || step < config_.warmup) return 0;
    const double elapsed = seconds_since(begun_at_);
    limit_.begin_decay(elapsed);
    return comm::of_ranks(setup_.world, limit_.decay_share(elapsed)).front();
  }

  /// Starts a step with its inputs and this rank's vote on whether it is the last.
  bool start(const StartedStep& started) {
    const StopReasons wants_stop{StopSignals::received() != 0, limit_.ends_training(seconds_since(begun_at_))};
    setup_.program->state().get<float>(ops::names::kMetrics)[2] = stop_vote(wants_stop);
    return setup_.program->start("train", started.step);
  }

  /// `newest`: no later step was started.
  void finish(const StartedStep& of, bool newest) {
    setup_.program->finish();
    stop_.add(stop_reasons(setup_.program->state().get<float>(ops::names::kMetrics)[2]));
    StepMetrics metrics = metrics_of_step(setup_, of.step, of.lr);
    if (config_.model.experts > 0) note_experts(of.step, newest && is_last(of.step));
    result_.steps_done = of.step + 1;
    if (of.step == setup_.inputs.first_step) {
      result_.first_loss = metrics.loss;
      if (of.step == 0) metrics.val_loss_before = result_.first_val_loss;
      result_.first_step_seconds = seconds_since(setup_.begun_at);
    }
    result_.last_loss = metrics.loss;
    step_ms_.push_back(metrics.step_ms);
    limit_.step_took(metrics.step_ms * 1e-3);
    // The sender of a signal may not wait long, so the run only saves the model then.
    const bool evaluates = every(config_.eval_every, of.step) || (newest && is_last(of.step));
    if (evaluates && !stop_.signal) metrics.val_loss = held_out_loss();
    const bool last = newest && is_last(of.step);
    // Before the checkpoint, so that a run that continues from it has a line for every step.
    report_.step(metrics, seconds_since(training_begun_at_));
    expect_finite(metrics);
    if (every(config_.sample_every, of.step) && !last) report_.sample_after(of.step + 1);  // the last one is close()'s
    const bool best = config_.keep_best && is_best(metrics.val_loss);
    if (config_.save && (last || best || every(config_.save_every, of.step))) {
      checkpoints_.save({of.step + 1, metrics.val_loss, limit_.decay_seconds(seconds_since(begun_at_))}, last);
    }
  }

  /// Keeps the choices of a run that records, and what they tell of the experts.
  void note_experts(std::int64_t step, bool last) {
    if (!config_.record_routing.empty()) {
      const Choices choices =
          choices_of_ranks(setup_.world, {config_.model, step_config(config_)}, setup_.program->state());
      if (recorder_) recorder_->append(choices);
    }
    watch_.add(step);
    if (!last && !watch_.is_due(step)) return;
    const ExpertLoad load = watch_.gather();
    result_.experts.add(load);
    report_.experts(load);
  }

  /// Whether the loss is the lowest until now; remembers it.
  bool is_best(std::optional<double> val_loss) {
    if (!val_loss || (best_loss_ && !(*val_loss < *best_loss_))) return false;
    best_loss_ = val_loss;
    return true;
  }

  /// nullopt if the evaluation ended early.
  std::optional<double> held_out_loss() {
    const auto begin = Clock::now();
    std::int64_t batches = 0;
    const Evaluation found = evaluate(*setup_.program, *setup_.held_out, [&] {
      report_.evaluating(batches++, setup_.held_out->size());
      return StopReasons{StopSignals::received() != 0, limit_.is_up(seconds_since(begun_at_))};
    });
    stop_.add(found.stop);
    if (!found.complete) {
      report_.say(LogTopic::evaluation, fmt::format("the evaluation ended early, after {} of {} batches", found.batches,
                                                    setup_.held_out->size()));
      return std::nullopt;
    }
    limit_.evaluation_took(seconds_since(begin));
    result_.val_loss = found.loss;
    result_.evaluated_step = result_.steps_done;
    return found.loss;
  }

  /// Whether the newest step is the last: at the end of the run, or by a vote of this or the previous step.
  bool is_last(std::int64_t newest) const { return stop_.any() || newest + 1 == config_.steps; }

  void expect_finite(const StepMetrics& metrics) {
    if ((std::isfinite(metrics.loss) || !metrics.learnt) && std::isfinite(metrics.grad_norm)) return;
    if (setup_.world.rank() != 0) setup_.world.barrier();  // all ranks have the same values; rank 0 ends the run
    throw RuntimeFault(
        fmt::format("step {}: the loss is {}, the gradient's norm {}: the model's weights are invalid from here on; "
                    "--check-nan names the first task that makes a NaN or an infinity",
                    metrics.step, metrics.loss, metrics.grad_norm));
  }

  TrainingSetup& setup_;
  const RunConfig& config_;
  TrainingCheckpoints& checkpoints_;
  TrainingReport& report_;
  TrainResult& result_;
  StopReasons stop_;  // on which the ranks have agreed
  TimeLimit limit_;
  Clock::time_point begun_at_, training_begun_at_;
  std::unique_ptr<BatchLoader> loader_;
  std::optional<double> best_loss_;  // of a run that keeps the best checkpoint
  std::vector<double> step_ms_;
  ExpertWatch watch_;
  std::unique_ptr<RoutingRecorder> recorder_;  // rank 0's, of a run that records
};

/// Of rank 0, which speaks for all. Of a terminal the line of progress is left.
std::string_view what_a_signal_does(const TrainingSetup& setup) {
  if (setup.world.rank() != 0) return "";
  if (!setup.config().save) {
    return "\nweft: stopping: the step is finished, and saved nowhere (save = false); a second signal ends at once\n";
  }
  return "\nweft: stopping: the step is finished and saved; a second signal ends at once, without saving\n";
}

/// A launcher that ends a job after the loss of a rank signals the other ranks and kills them a second later. In this
/// time they report the collective in which the lost rank is missing.
std::unique_ptr<execute::Watchdog> report_when_stopped(const TrainingSetup& setup) {
  constexpr double kSeconds = 0.4;
  const execute::Executor* const executor = &setup.program->executor();
  const auto progress = [executor, idle = std::uint64_t{0}]() mutable {
    const execute::ExecutorStatus status = executor->status();
    return status.running && StopSignals::received() != 0 ? status.completed : ++idle;
  };
  const auto report = [executor, log = Log(LogTopic::watchdog, setup.world.rank())] {
    log.tell(LogLevel::warning, fmt::format("weft: a signal asked the run to stop, but no task has ended since; {}",
                                            executor->describe()));
  };
  return std::make_unique<execute::Watchdog>(kSeconds, progress, report);
}

/// Long prompts may fill whole sequences, which cost their time and teach nothing.
void warn_of_sequences_without_target(const TrainingSetup& setup) {
  if (setup.world.rank() != 0) return;
  const std::uint64_t without = setup.batches->sequences_without_target(setup.inputs.source.train);
  const std::uint64_t all = setup.batches->windows_per_epoch();
  if (without == 0) return;
  Log(LogTopic::run, 0)
      .warning(
          "{} of {} sequences of an epoch ({:.1f} %) have no target that counts in the loss: nothing is learnt from "
          "them (--packing documents and a longer --seq-len keep a prompt and its completion in one sequence)",
          without, all, 100.0 * static_cast<double>(without) / static_cast<double>(all));
}

}  // namespace

TrainResult run_training(TrainingSetup& setup, bool removes_old, RunLog* log) {
  const StopSignals signals(what_a_signal_does(setup));
  const std::unique_ptr<execute::Watchdog> stop_watch = report_when_stopped(setup);
  TrainResult result;
  TrainingReport report(setup);
  TrainingCheckpoints checkpoints(setup, [&](const std::string& text) { report.show(text); });
  if (setup.config().save) checkpoints.expect_space();
  const std::string held_out_note = choose_held_out(setup);  // which the run's configuration keeps
  report.open(removes_old, log, result);
  if (!held_out_note.empty()) report.say(LogTopic::evaluation, held_out_note);
  warn_of_sequences_without_target(setup);
  const auto begin = Clock::now();
  TrainingLoop(setup, checkpoints, report, result).run();
  report.close(result);
  if (!checkpoints.newest().empty()) result.files.push_back(checkpoints.newest());
  result.seconds = seconds_since(begin);
  return result;
}

}  // namespace weft::train
