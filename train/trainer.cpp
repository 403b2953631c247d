#include "train/trainer.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/median.h"
#include "runtime/comm/agreement.h"
#include "runtime/plan/trace.h"
#include "train/checkpoint/replicas.h"
#include "train/data/tokenizer.h"
#include "train/evaluation.h"
#include "train/generator.h"
#include "train/measure/run_gemm_tuning.h"
#include "train/memory_check.h"
#include "train/run_files.h"
#include "train/step/device_choice.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"
#include "train/step/training_state.h"
#include "train/stop_signals.h"
#include "train/time_limit.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::uint64_t peak_memory_of_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

bool every(std::int64_t n, std::int64_t step) {
  return n > 0 && (step + 1) % n == 0;
}

constexpr std::int64_t kSampleTokens = 240;

// What a sample begins with, as far as the model can see.
std::string_view sample_prompt(const ModelConfig& model) {
  return std::string_view("The ").substr(0, static_cast<std::size_t>(std::min<std::int64_t>(4, model.context)));
}

/// On rank 0, told to the log and, if `speaks`, to the console.
TunedGemms tuned_here(const RunConfig& config, bool speaks) {
  const Log log(LogTopic::tuning, 0);
  StatusLine line(speaks);
  return tune_for_run(config, [&](const Status& status) {
    log.info("{}", status.text);
    line.print(status.text);
    line.show({"tuning matrix products", status.done, status.total});
  });
}

}  // namespace

Trainer::Trainer(World& world, const RunConfig& config, Console console, const MakeExecutor& make_executor)
    : world_(world),
      made_at_(Clock::now()),
      inputs_(find_run_inputs(world, config)),
      bf16_(bf16_of_run(world, config, inputs_.resume_from)),
      config_(with_bf16(config, bf16_)),
      console_(console),
      at_(coordinates_of(config.grid, world.rank())),
      specs_(model_parameters(config.model)),
      shards_(shard_parameters(config.model, specs_, config.grid, at_, config.zero1)),
      tuned_(gemm_tuning_of_run(world, config.gemm_tuning, inputs_.resume_from, StoredTuning::required,
                                [&] { return tuned_here(config_, console == Console::progress); })) {
  act_together(world_, [&] {  // machines have memories of their own
    check_memory(config_, world_.name() == "mpi" ? 1 : world_.size(), machine_memory_bytes());
  });
  const StepConfig step = step_config(config_);
  std::vector<ProgramGraph> graphs = {{"train", lower_train(config_.model, step)},
                                      {"eval", lower_eval(config_.model, step)}};
  if (inputs_.source.is_text()) {
    const auto prompt = static_cast<std::int64_t>(sample_prompt(config_.model).size());
    sample_model_ = with_short_context(config_.model, prompt + kSampleTokens);
    sample_prefill_ = prefill_length(prompt, kSampleTokens, sample_model_.context);
    for (ProgramGraph& graph : generation_graphs(sample_model_, config_.dtype, sample_prefill_, config_.grid)) {
      graphs.push_back(std::move(graph));
    }
  }
  const std::shared_ptr<const GemmTuning> products = table_of(tuned_, bf16_unit_of(config_));
  const auto begin = Clock::now();
  program_ = std::make_unique<Program>(
      world_, std::move(graphs),
      ProgramOptions{.policy = config_.policy,
                     .libraries = config_.libraries,
                     .policy_options = policy_options(config_),
                     .rewrites = chosen_rewrites(config_),
                     .grid = config_.grid,
                     .threads = static_cast<int>(config_.threads),
                     .kept_steps = std::max<std::int64_t>(1, config_.trace_steps),
                     .check_finite = config_.check_nan,
                     .gemm_tuning = products,
                     .make_executor = make_executor != nullptr ? make_executor : executor_of(config_, products),
                     .watchdog_seconds = config_.watchdog});
  planning_ms_ = 1e3 * seconds_since(begin);
  devices_ = find_devices(world_, program_->executor().runs_on());
  held_out_ = std::make_unique<EvalBatches>(inputs_.source.held_out(), config_.seq_len, share_of(config_, at_),
                                            config_.eval_sequences);
  initialize();
}

Trainer::~Trainer() = default;

std::vector<MutableParameterState> Trainer::parameter_states() const {
  return training_arrays(program_->state(), shards_, config_.dtype);
}

void Trainer::initialize() {
  const std::vector<MutableParameterState> parameters = parameter_states();
  act_together(world_, [&] {
    if (inputs_.resume_from) {
      load_checkpoint(*inputs_.resume_from, parameters, inputs_.share);
      Log(LogTopic::checkpoint, world_.rank())
          .info("{} loaded: the run goes on after {} steps", inputs_.resume_from->string(), inputs_.first_step);
    } else if (inputs_.init_from) {
      load_parameters(*inputs_.init_from, config_.model, parameters, inputs_.share);
      Log(LogTopic::checkpoint, world_.rank()).info("weights of {} loaded", inputs_.init_from->string());
    } else {
      initialize_parameters(parameters, config_.seed);
    }
  });
  expect_equal_replicas(world_, parameters);
  write_constants(program_->state(), config_, at_);
  program_->state_to_device();
}

RunDescription Trainer::description() const {
  return {config_, inputs_.source, *program_, planning_ms_, world_.name(), devices_, tuned_.get(), bf16_};
}

void Trainer::load_step(std::int64_t step) {
  const State& state = program_->state();
  const Batch batch = loader_->next(step);
  std::copy(batch.tokens.begin(), batch.tokens.end(), state.get<std::int32_t>(names::kTokens).begin());
  std::copy(batch.targets.begin(), batch.targets.end(), state.get<std::int32_t>(names::kTargets).begin());
  write_scalars(state, config_, step);
}

bool Trainer::start(const StartedStep& started, const StopReasons& wants_stop) {
  program_->state().get<float>(names::kMetrics)[2] = stop_vote(wants_stop);
  return program_->start("train", started.step);
}

StepMetrics Trainer::read_metrics(const StartedStep& of) const {
  const auto metrics = program_->state().get<float>(names::kMetrics);
  const StepTrace& trace = program_->last_trace("train");
  const auto tokens = static_cast<double>(config_.global_batch * config_.seq_len);
  StepMetrics result;
  result.step = of.step;
  result.loss = without_nan_sign(static_cast<double>(metrics[0]) / static_cast<double>(metrics[1]));
  result.grad_norm = without_nan_sign(metrics[3]);
  result.lr = of.lr;
  result.step_ms = static_cast<double>(program_->last_step_ns("train")) * 1e-6;
  result.tokens_per_s = tokens / result.step_ms * 1e3;
  result.model_tflops = config_.model.train_flops_per_token(config_.seq_len) * result.tokens_per_s * 1e-12;
  result.exposed_comm_ms = static_cast<double>(summarize(program_->plan("train"), trace).exposed) * 1e-6;
  result.peak_memory_bytes = peak_memory_of_process();
  return result;
}

void Trainer::say(LogTopic topic, const std::string& text) {
  if (world_.rank() != 0) return;
  Log(topic, 0).info("{}", text);
  if (progress_ != nullptr) progress_->message(text);
}

void Trainer::open_other_logs(RunLog& log) const {
  if (world_.name() != "mpi") return;
  world_.barrier();  // the folder is there, and an older run's files aren't
  std::error_code hidden;
  if (world_.rank() != 0 && std::filesystem::is_directory(config_.run_dir, hidden)) {
    log.open(log_file_of(config_.run_dir, world_.rank()));
  }
}

RunConfig Trainer::recorded_config() const {
  RunConfig config = config_;
  if (bf16_ && bf16_->source == Bf16Choice::Source::only) config.bf16_products.reset();
  if (tuned_) config.gemm_tuning = (std::filesystem::path(config_.run_dir) / kGemmTuningFile).string();
  return config;
}

void Trainer::keep_pairs_gain() {
  if (!bf16_ || bf16_->source != Bf16Choice::Source::measured || !bf16_->pairs_gain) return;
  const PairsGainFile file(config_.run_dir);
  try {
    file.write(*bf16_->pairs_gain);
  } catch (const RuntimeFault& error) {
    say(LogTopic::tuning, fmt::format("{}; the next run measures pairs of bf16 again", error.what()));
  }
}

CheckpointInfo Trainer::checkpoint_info(std::int64_t steps_done) const {
  CheckpointInfo info;
  info.step = steps_done;
  info.seed = config_.seed;
  info.tokens_seen = static_cast<std::uint64_t>(steps_done * config_.global_batch * config_.seq_len);
  info.dtype = config_.dtype;
  info.model = config_.model;
  info.config_toml = dump_toml(recorded_config());
  if (tuned_) info.gemm_tuning = to_json(*tuned_);
  info.versions = library_versions();
  return info;
}

std::vector<ParameterState> Trainer::checkpoint_arrays() const {
  std::vector<ParameterState> parameters;
  for (const MutableParameterState& p : parameter_states()) {
    parameters.push_back({p.spec, p.dtype, p.data, p.m, p.v, p.master, p.shard});
  }
  return parameters;
}

void Trainer::expect_space() const {
  const SpaceCheck space = checkpoints_->space(checkpoint_info(inputs_.first_step + 1), checkpoint_arrays());
  Log(LogTopic::checkpoint, world_.rank()).debug("a checkpoint takes {} of {} free bytes", space.needed, space.free);
  if (space.fits()) return;
  throw UserError("the first checkpoint " + space.text(), "room for it",
                  "--run-dir on another disk, or free some space");
}

void Trainer::save(std::int64_t steps_done, bool last) {
  world_.barrier();  // what is saved is a step that every rank has come through
  program_->state_to_host();
  const CheckpointInfo info = checkpoint_info(steps_done);
  last ? checkpoints_->save_now(info, checkpoint_arrays()) : checkpoints_->save(info, checkpoint_arrays());
  report_checkpoint();
  if (last) world_.barrier();  // nobody leaves before it is complete
}

void Trainer::report_checkpoint() {
  const auto path = checkpoints_->written();
  if (!path) return;
  last_checkpoint_ = *path;
  if (progress_ != nullptr) progress_->message("checkpoint written: " + path->string());  // the log knows
}

bool Trainer::is_due_after(std::int64_t step) const {
  return every(config_.eval_every, step) || (config_.save && every(config_.save_every, step));
}

void Trainer::expect_finite(const StepMetrics& metrics) {
  if (std::isfinite(metrics.loss) && std::isfinite(metrics.grad_norm)) return;
  if (world_.rank() != 0) world_.barrier();  // all ranks see the same; rank 0 ends the run
  throw RuntimeFault(
      fmt::format("step {}: the loss is {}, the gradient's norm {}: the model is lost since then; "
                  "--check-nan names the first task that makes a NaN or an infinity",
                  metrics.step, metrics.loss, metrics.grad_norm));
}

std::string Trainer::sample() {
  // On a grid that cuts the model all ranks run these plans together, else rank 0 alone: they hold no collective.
  Sampler sampler({.temperature = 0.7, .top_k = 40, .seed = config_.seed});
  const ByteTokenizer tokenizer;
  std::vector<std::int32_t> text = tokenizer.encode(sample_prompt(config_.model));
  Generator generator(*program_, sample_model_, sample_prefill_);
  const std::vector<std::int32_t> prompt = text;
  generator.generate(prompt, kSampleTokens, sampler, [&](std::int32_t token) {
    if (token >= ByteTokenizer::kVocabulary) return false;
    text.push_back(token);
    return token != ByteTokenizer::kEndOfText;
  });
  return tokenizer.decode(text);
}

void Trainer::write_traces(TrainResult& result) {
  const std::vector<StepTrace> traces = program_->traces("train");
  for (const StepTrace& trace : traces) {
    const OverlapSummary summary = summarize(program_->plan("train"), trace);
    const double share = 1.0 / static_cast<double>(traces.size());
    result.exposed_comm_ms += static_cast<double>(summary.exposed) * 1e-6 * share;
    result.communication_ms += static_cast<double>(summary.communication) * 1e-6 * share;
    result.overlap_fraction += summary.overlap_fraction() * share;
  }
  if (config_.trace_steps == 0) return;
  const auto files = write_trace_files(config_.run_dir, world_, program_->plan("train"), config_.grid, traces,
                                       [&](const std::string& line) { say(LogTopic::run, line); });
  result.files.insert(result.files.end(), files.begin(), files.end());
}

std::unique_ptr<Watchdog> Trainer::report_when_stopped() const {
  constexpr double kSeconds = 0.4;
  const auto progress = [executor = &program_->executor(), idle = std::uint64_t{0}]() mutable {
    const ExecutorStatus status = executor->status();
    return status.running && StopSignals::received() != 0 ? status.completed : ++idle;
  };
  const auto report = [executor = &program_->executor(), log = Log(LogTopic::watchdog, world_.rank())] {
    log.tell(LogLevel::warning,
             fmt::format("weft: asked to stop, but no task has ended since; {}", executor->describe()));
  };
  return std::make_unique<Watchdog>(kSeconds, progress, report);
}

TrainResult Trainer::run(OldFiles old_files, RunLog* log) {
  const bool writes = world_.rank() == 0;
  const StopSignals signals;
  const std::unique_ptr<Watchdog> stop_watch = report_when_stopped();
  std::unique_ptr<MetricsFile> metrics_file;
  TrainResult result;
  checkpoints_ =
      std::make_unique<CheckpointWriter>(world_, config_.run_dir, Retention{config_.keep_last, config_.keep_every});
  if (config_.save) expect_space();
  if (writes) {
    const std::filesystem::path run_dir = config_.run_dir;
    if (old_files == OldFiles::removed) remove_run_files(run_dir);
    make_run_dir(run_dir, recorded_config());
    if (log != nullptr) log->open(log_file_of(run_dir, 0));
    if (tuned_) write_durable(run_dir / kGemmTuningFile, to_json(*tuned_));
    keep_pairs_gain();
    metrics_file = std::make_unique<MetricsFile>(run_dir / kMetricsFile, inputs_.first_step);
    if (console_ == Console::progress) progress_ = std::make_unique<Progress>(inputs_.first_step, config_.steps);
    result.files.push_back(run_dir / kMetricsFile);
    for (const auto& file : write_graph_files(run_dir, program_->plan("train"), config_.grid,
                                              [&](const std::string& line) { say(LogTopic::run, line); })) {
      result.files.push_back(file);
    }
  }
  if (log != nullptr) open_other_logs(*log);

  const auto begin = Clock::now();
  result.first_step = result.steps_done = inputs_.first_step;
  StopReasons stop;  // that the ranks have agreed on
  TimeLimit limit(config_.max_time);
  const auto held_out_loss = [&]() -> std::optional<double> {
    const auto evaluation_begin = Clock::now();
    const Evaluation found = evaluate(*program_, *held_out_, [&] {
      return StopReasons{StopSignals::received() != 0, limit.is_up(seconds_since(begin))};
    });
    stop.add(found.stop);
    if (!found.complete) {
      say(LogTopic::evaluation,
          fmt::format("the evaluation was ended early, after {} of {} batches", found.batches, held_out_->size()));
      return std::nullopt;
    }
    limit.evaluation_took(seconds_since(evaluation_begin));
    result.val_loss = found.loss;
    result.evaluated_step = result.steps_done;
    return found.loss;
  };
  result.first_val_loss = held_out_loss();
  if (result.first_val_loss) {
    say(LogTopic::evaluation,
        fmt::format("held-out loss before step {}: {:.4f} nats a token", inputs_.first_step, *result.first_val_loss));
  }
  const auto training_begin = Clock::now();
  loader_ = std::make_unique<BatchLoader>(inputs_.source.train(),
                                          BatchPlan(inputs_.source.train().size(), config_.seq_len, config_.seed),
                                          share_of(config_, at_), inputs_.first_step);
  std::vector<double> step_ms;
  // The newest step is the last one where the run is at its end, or a vote of it or of the step before said so.
  const auto is_last = [&](std::int64_t newest) { return stop.any() || newest + 1 == config_.steps; };
  const auto finish = [&](const StartedStep& of, bool newest) {
    program_->finish();
    stop.add(stop_reasons(program_->state().get<float>(names::kMetrics)[2]));
    StepMetrics metrics = read_metrics(of);
    result.steps_done = of.step + 1;
    if (of.step == inputs_.first_step) {
      result.first_loss = metrics.loss;
      result.first_step_seconds = seconds_since(made_at_);
    }
    result.last_loss = metrics.loss;
    step_ms.push_back(metrics.step_ms);
    limit.step_took(metrics.step_ms * 1e-3);
    // Whoever sends a signal may not wait long: then the model is saved and nothing else.
    const bool evaluates = every(config_.eval_every, of.step) || (newest && is_last(of.step));
    if (evaluates && !stop.signal) metrics.val_loss = held_out_loss();
    if (writes && metrics.val_loss) {
      Log(LogTopic::evaluation, 0)
          .info("held-out loss after step {}: {:.4f} nats a token", result.steps_done, *metrics.val_loss);
    }
    const bool last = newest && is_last(of.step);
    // Before the checkpoint, so that a run which goes on from there has a line for every step.
    if (metrics_file != nullptr) metrics_file->write(metrics);
    if (progress_ != nullptr) progress_->update(metrics, seconds_since(training_begin));
    expect_finite(metrics);
    if (config_.save && (last || every(config_.save_every, of.step))) save(of.step + 1, last);
  };

  // Where the device can be given work ahead, a step's results are looked at while the next one runs.
  std::optional<StartedStep> under_way;
  for (std::int64_t step = inputs_.first_step; step < config_.steps; ++step) {
    report_checkpoint();
    load_step(step);
    const StartedStep now{step, program_->state().get<float>(names::kScalars)[0]};
    const bool ahead = start(now, {StopSignals::received() != 0, limit.ends_training(seconds_since(begin))});
    if (under_way) finish(*under_way, false);
    under_way = now;
    if (!ahead || is_last(step) || is_due_after(step)) {
      finish(now, true);
      under_way.reset();
    }
    if (is_last(step)) break;
  }
  result.stopped_by_signal = stop.signal;
  result.stopped_by_time = stop.time;
  if (writes) {
    Log(LogTopic::run, 0)
        .info("{} after step {} of {}, loss {:.4f}",
              stop.signal ? "stopped by a signal"
              : stop.time ? "stopped by --max-time"
                          : "done",
              result.steps_done, config_.steps, result.last_loss);
  }
  result.step_ms = median(step_ms);
  if (result.step_ms > 0) {
    result.tokens_per_s = static_cast<double>(config_.global_batch * config_.seq_len) / result.step_ms * 1e3;
  }
  write_traces(result);
  const bool samples = writes || config_.grid.model_ranks() > 1;
  if (samples && sample_prefill_ > 0 && !result.stopped_by_signal) result.sample = sample();
  if (!last_checkpoint_.empty()) result.files.push_back(last_checkpoint_);
  result.peak_memory_bytes = peak_memory_of_process();
  result.device_memory_bytes = static_cast<std::uint64_t>(program_->device_bytes());
  result.devices = devices_;
  result.seconds = seconds_since(begin);
  progress_.reset();
  return result;
}

}  // namespace weft
