#include "train/training_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/buffer.h"
#include "base/error.h"
#include "base/files/durable_file.h"
#include "runtime/plan/trace.h"
#include "text/tokenizer.h"
#include "train/generator.h"
#include "train/run/model_speed.h"
#include "train/run/run_files.h"
#include "train/training_checkpoints.h"

namespace weft::train {

StepMetrics metrics_of_step(const TrainingSetup& setup, std::int64_t step, double lr) {
  const execute::Program& program = *setup.program;
  const RunConfig& config = setup.config();
  const auto metrics = program.state().get<float>(ops::names::kMetrics);
  const plan::StepTrace& trace = program.last_trace("train");
  StepMetrics result;
  result.step = step;
  result.wall_time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  result.tokens_seen = static_cast<std::int64_t>(setup.tokens_seen(step + 1));
  result.learnt = metrics[1] != 0;
  result.loss = without_nan_sign(static_cast<double>(metrics[0]) / static_cast<double>(metrics[1]));
  result.grad_norm = without_nan_sign(metrics[3]);
  result.lr = lr;
  const auto step_ns = static_cast<double>(program.last_step_ns("train"));
  result.step_ms = step_ns * 1e-6;
  result.tokens_per_s = tokens_per_second(config, step_ns);
  result.model_tflops = model_flops_per_second(config, step_ns) * 1e-12;
  if (setup.run.machine != nullptr) {
    result.mfu = model_flops_share(config, config.grid.ranks(), *setup.run.machine, step_ns);
  }
  result.exposed_comm_ms = static_cast<double>(plan::summarize(program.plan("train"), trace).exposed) * 1e-6;
  result.peak_memory_bytes = static_cast<std::uint64_t>(peak_resident_bytes());
  return result;
}

void TrainingReport::open(bool removes_old, RunLog* log, TrainResult& result) {
  if (setup_.world.rank() == 0) make_files(removes_old, log, result);
  if (log != nullptr) open_other_logs(*log);
}

// Opens the logs of processes other than rank 0's, if they see the run folder.
void TrainingReport::open_other_logs(RunLog& log) const {
  if (!setup_.world.of_processes()) return;
  setup_.world.barrier();  // the folder is there, and an older run's files aren't
  std::error_code hidden;
  const std::filesystem::path run_dir = setup_.config().run_dir;
  if (setup_.world.rank() != 0 && std::filesystem::is_directory(run_dir, hidden)) {
    log.open(log_file_of(run_dir, setup_.world.rank()));
  }
}

void TrainingReport::make_files(bool removes_old, RunLog* log, TrainResult& result) {
  const RunConfig& config = setup_.config();
  const std::filesystem::path run_dir = config.run_dir;
  if (removes_old) remove_run_files(run_dir);
  make_run_dir(run_dir, recorded_config(setup_));
  if (log != nullptr) log->open(log_file_of(run_dir, 0));
  if (setup_.tuned) write_durable(run_dir / execute::kGemmTuningFile, execute::to_json(*setup_.tuned));
  keep_pairs_gain();
  make_metrics_files(result);
  if (setup_.speaks) {
    progress_ = std::make_unique<Progress>(setup_.inputs.first_step, config.steps, config.log_every);
  }
  logged_.emplace(config.steps, config.log_every);
  for (const auto& file : write_graph_files(run_dir, setup_.program->plan("train"), config.grid,
                                            [&](const std::string& line) { say(LogTopic::run, line); })) {
    result.files.push_back(file);
  }
}

void TrainingReport::make_metrics_files(TrainResult& result) {
  const RunConfig& config = setup_.config();
  const std::filesystem::path run_dir = config.run_dir;
  const std::int64_t first_step = setup_.inputs.first_step;
  const auto add = [&](std::string_view name, MetricsForm form) {
    metrics_files_.push_back(std::make_unique<MetricsFile>(run_dir / name, first_step, form));
    result.files.push_back(run_dir / name);
  };
  add(kMetricsFile, MetricsForm::json_lines);
  if (config.metrics_csv) add(kMetricsTable, MetricsForm::csv);
  if (config.model.experts > 0) {
    experts_file_ = std::make_unique<MetricsFile>(run_dir / kExpertsFile, first_step);
    result.files.push_back(run_dir / kExpertsFile);
  }
  if (config.tensorboard) {
    tensorboard_ = std::make_unique<TensorBoardFile>(run_dir / kTensorBoardFolder, first_step);
    result.files.push_back(run_dir / kTensorBoardFolder);
  }
}

// For runs beside this one.
void TrainingReport::keep_pairs_gain() {
  const std::optional<Bf16Choice>& bf16 = setup_.bf16;
  if (!bf16 || bf16->source != Bf16Choice::Source::measured || !bf16->pairs_gain) return;
  const PairsGainFile file(setup_.config().run_dir);
  try {
    file.write(*bf16->pairs_gain);
  } catch (const RuntimeFault& error) {
    say(LogTopic::tuning, fmt::format("{}; the next run measures pairs of bf16 again", error.what()));
  }
}

void TrainingReport::say(LogTopic topic, const std::string& text) {
  if (setup_.world.rank() == 0) Log(topic, 0).info("{}", text);
  show(text);
}

void TrainingReport::show(const std::string& text) {
  if (progress_ != nullptr) progress_->message(text);
}

void TrainingReport::step(const StepMetrics& metrics, double seconds) {
  if (setup_.world.rank() == 0 && metrics.val_loss) {
    Log(LogTopic::evaluation, 0)
        .info("held-out loss after step {}: {:.4f} nats a token", metrics.step + 1, *metrics.val_loss);
  }
  if (logged_ && logged_->has(metrics, seconds)) {
    const Status status = progress_status(metrics, setup_.inputs.first_step, setup_.config().steps, seconds);
    Log(LogTopic::run, 0).info("step {}  {}", status.text, status.time);
  }
  for (const auto& file : metrics_files_) file->write(metrics);
  if (tensorboard_ != nullptr) tensorboard_->write(metrics);
  if (progress_ != nullptr) progress_->update(metrics, seconds);
}

void TrainingReport::experts(const ExpertLoad& load) {
  if (experts_file_ == nullptr) return;
  const bool replayed = !setup_.config().replay_routing.empty();
  experts_file_->write(json_line(load, replayed));
  Log(LogTopic::run, 0).debug("experts after step {}: {}", load.last_step + 1, load_text(load, replayed));
}

void TrainingReport::evaluating(std::int64_t done, std::int64_t batches) {
  if (progress_ != nullptr) progress_->evaluating(done, batches);
}

bool TrainingReport::samples() const {
  return setup_.sample_prefill > 0 && (setup_.world.rank() == 0 || setup_.config().grid.model_ranks() > 1);
}

void TrainingReport::sample_after(std::int64_t steps) {
  if (!samples()) return;
  const std::string text = sample();
  if (setup_.world.rank() == 0) say(LogTopic::run, fmt::format("a sample after step {}: {}", steps, text));
}

void TrainingReport::close(TrainResult& result) {
  if (setup_.world.rank() == 0) {
    Log(LogTopic::run, 0)
        .info("{} after step {} of {}, loss {}",
              result.stopped_by_signal ? "stopped by a signal"
              : result.stopped_by_time ? "stopped by --max-time"
                                       : "done",
              result.steps_done, setup_.config().steps, loss_text(result.last_loss, !std::isnan(result.last_loss)));
  }
  write_traces(result);
  if (samples() && !result.stopped_by_signal) result.sample = sample();
  result.peak_memory_bytes = static_cast<std::uint64_t>(peak_resident_bytes());
  const std::int64_t ranks_here = setup_.world.of_processes() ? 1 : setup_.world.size();
  result.planned_memory_bytes = ranks_here * setup_.program->memory_bytes();
  result.program_memory_bytes = static_cast<std::int64_t>(result.peak_memory_bytes) - setup_.resident_before;
  result.device_memory_bytes = static_cast<std::uint64_t>(setup_.program->device_bytes());
  result.devices = setup_.devices;
}

void TrainingReport::write_traces(TrainResult& result) {
  const RunConfig& config = setup_.config();
  const plan::Plan& plan = setup_.program->plan("train");
  const std::vector<plan::StepTrace> traces = setup_.program->traces("train");
  for (const plan::StepTrace& trace : traces) {
    const plan::OverlapSummary summary = plan::summarize(plan, trace);
    const double share = 1.0 / static_cast<double>(traces.size());
    result.exposed_comm_ms += static_cast<double>(summary.exposed) * 1e-6 * share;
    result.communication_ms += static_cast<double>(summary.communication) * 1e-6 * share;
    result.overlap_fraction += summary.overlap_fraction() * share;
  }
  if (config.trace_steps == 0) return;
  const auto files = write_trace_files(config.run_dir, setup_.world, plan, config.grid, traces,
                                       [&](const std::string& line) { say(LogTopic::run, line); });
  result.files.insert(result.files.end(), files.begin(), files.end());
}

std::string TrainingReport::sample() {
  // All ranks run these plans together if the grid shards the model; else only rank 0, as the plans have no
  // collectives.
  Sampler sampler({.temperature = 0.7, .top_k = 40, .seed = setup_.config().seed});
  const text::Tokenizer& tokenizer = *setup_.sample_tokenizer;
  std::vector<std::int32_t> text = setup_.sample_prompt;
  if (text.front() == tokenizer.facts().separator()) text.erase(text.begin());
  Generator generator(*setup_.program, setup_.sample_model, setup_.sample_prefill);
  generator.generate(setup_.sample_prompt, kSampleTokens, sampler, [&](std::int32_t token) {
    if (token >= tokenizer.vocabulary()) return false;
    text.push_back(token);
    return !tokenizer.facts().is_end(token);
  });
  return tokenizer.decode(text);
}

}  // namespace weft::train
