#include "train/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "train/stop_signals.h"
#include "train/training_checkpoints.h"
#include "train/training_loop.h"

namespace weft::train {

Trainer::Trainer(comm::World& world, const ResolvedRun& run, Console console,
                 const execute::MakeExecutor& make_executor)
    : console_(console), setup_(set_up_training(world, run, console == Console::progress, make_executor)) {}

RunDescription Trainer::description() const {
  return {setup_->config(),     setup_->inputs.source, *setup_->program,    setup_->planning_ms,
          setup_->world.name(), setup_->devices,       setup_->tuned.get(), setup_->bf16};
}

std::unique_ptr<execute::Watchdog> Trainer::report_when_stopped() const {
  constexpr double kSeconds = 0.4;
  const execute::Executor* const executor = &setup_->program->executor();
  const auto progress = [executor, idle = std::uint64_t{0}]() mutable {
    const execute::ExecutorStatus status = executor->status();
    return status.running && StopSignals::received() != 0 ? status.completed : ++idle;
  };
  const auto report = [executor, log = Log(LogTopic::watchdog, setup_->world.rank())] {
    log.tell(LogLevel::warning, fmt::format("weft: a signal asked the run to stop, but no task has ended since; {}",
                                            executor->describe()));
  };
  return std::make_unique<execute::Watchdog>(kSeconds, progress, report);
}

TrainResult Trainer::run(OldFiles old_files, RunLog* log) {
  const StopSignals signals;
  const std::unique_ptr<execute::Watchdog> stop_watch = report_when_stopped();
  TrainResult result;
  TrainingReport report(*setup_);
  TrainingCheckpoints checkpoints(*setup_, [&](const std::string& text) { report.show(text); });
  if (setup_->config().save) checkpoints.expect_space();
  report.open({console_ == Console::progress, old_files == OldFiles::removed, log}, result);
  const auto begin = std::chrono::steady_clock::now();
  TrainingLoop(*setup_, checkpoints, report, result).run();
  report.close(result);
  if (!checkpoints.newest().empty()) result.files.push_back(checkpoints.newest());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace weft::train
