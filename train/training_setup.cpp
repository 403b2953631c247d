#include "train/training_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "base/status_line.h"
#include "kernels/cpu/isa/kernel_choice.h"
#include "ops/model_flops.h"
#include "runtime/comm/agreement.h"
#include "runtime/execute/device/devices.h"
#include "train/checkpoint/adapter_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/replicas.h"
#include "train/checkpoint/weights.h"
#include "train/evaluation.h"
#include "train/generator.h"
#include "train/measure/run_gemm_tuning.h"
#include "train/run/resumed_run.h"
#include "train/run/run_files.h"
#include "train/step/device_choice.h"
#include "train/step/planning.h"
#include "train/step/run_graphs.h"
#include "train/step/step_config.h"
#include "train/step/step_data.h"
#include "train/step/training_state.h"

namespace weft::train {
namespace {

using Clock = std::chrono::steady_clock;

/// Checks the machine and the files that only rank 0 reads, before data is read or anything is measured. Returns the
/// table of a tuning file that the run names. `own_devices`: the run takes the devices of its configuration.
std::shared_ptr<const execute::TunedGemms> check_machine(comm::World& world, const ResolvedRun& run, bool own_devices) {
  comm::act_together(world, [&] {  // each machine checks its own memory
    check_memory(run.config, world.of_processes() ? 1 : world.size(), machine_memory_bytes());
  });
  if (own_devices) expect_devices(world, run.config);
  if (run.gemm_tuning.from != TuningSetting::From::file) return nullptr;
  return gemm_tuning_of_run(world, run.gemm_tuning, std::nullopt, StoredTuning::required);
}

/// The graphs of a step, an evaluation and, for a model that writes text, a sample.
std::vector<execute::ProgramGraph> graphs_of(const TrainingSetup& setup) {
  const RunConfig& config = setup.config();
  std::vector<execute::ProgramGraph> graphs = {train_graph(config, setup.at.pipe), eval_graph(config, setup.at.pipe)};
  if (setup.sample_prefill == 0) return graphs;
  for (execute::ProgramGraph& graph :
       generation_graphs(setup.sample_model, config.dtype, setup.sample_prefill, config.grid,
                         {config.pipeline, setup.at.pipe}, forward_policy(config))) {
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

/// Tunes on rank 0; reports to the log and, if `speaks`, to the console.
execute::TunedGemms tuned_here(const ResolvedRun& run, bool speaks) {
  const Log log(LogTopic::tuning, 0);
  StatusLine line(speaks);
  return tune_for_run(run, [&](const Status& status) {
    log.info("{}", status.text);
    line.print(status.text);
    line.show({"tuning matrix products", status.done, status.total});
  });
}

void make_program(TrainingSetup& setup, const execute::MakeExecutor& make_executor) {
  const RunConfig& config = setup.config();
  std::vector<execute::ProgramGraph> graphs = graphs_of(setup);
  const std::shared_ptr<const execute::GemmTuning> products = execute::table_of(setup.tuned, bf16_unit_of(config));
  setup.world.barrier();  // no rank of this process has begun
  setup.resident_before = resident_bytes();
  setup.world.barrier();
  const auto begin = Clock::now();
  setup.program = std::make_unique<execute::Program>(
      setup.world, std::move(graphs),
      execute::ProgramOptions{.policy = setup.run.policy.policy,
                              .policy_options = policy_options(setup.run),
                              .rewrites = chosen_rewrites(setup.run),
                              .grid = config.grid,
                              .threads = static_cast<int>(config.threads),
                              .kept_steps = std::max<std::int64_t>(1, config.trace_steps),
                              .check_finite = config.check_nan,
                              .gemm_tuning = products,
                              .make_executor = make_executor != nullptr ? make_executor : executor_of(config, products),
                              .bind_cores = make_executor != nullptr ? nullptr : binding_of(config),
                              .watchdog_seconds = config.watchdog});
  setup.planning_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Another level than before gives other bits from here on, as do other libraries; the user may have a choice.
void warn_of_other_kernels(const TrainingSetup& setup, const std::filesystem::path& checkpoint) {
  if (setup.world.rank() != 0) return;
  const auto versions = read_checkpoint_info(checkpoint).versions;
  const auto before = versions.find(std::string(kKernelsVersion));
  if (before == versions.end() || before->second == cpu::kernel_level()) return;
  Log(LogTopic::checkpoint, 0)
      .warning("{} was trained by kernels for {} and continues with {}, which round otherwise (--isa chooses)",
               checkpoint.string(), before->second, cpu::kernel_level());
}

/// The weights of `from`, and initial adapters where it has none.
void load_initial_weights(const TrainingSetup& setup, const std::filesystem::path& from) {
  const RunConfig& config = setup.config();
  std::vector<ParameterState> saved = setup.parameters(), adapters;
  const bool has_adapters =
      !config.adapter.empty() || (is_checkpoint(from) && read_checkpoint_info(from).model.lora.used());
  if (config.model.lora.used() && !has_adapters) {
    const auto is_base = [](const ParameterState& parameter) { return parameter.spec->frozen; };
    const auto first = std::stable_partition(saved.begin(), saved.end(), is_base);
    adapters.assign(first, saved.end());
    saved.erase(first, saved.end());
  }
  load_parameters_and_adapters({from, config.adapter}, config.model, saved, setup.inputs.share,
                               parameters_elsewhere(config, setup.specs, setup.at));
  initialize_parameters(adapters, config.seed);
  Log(LogTopic::checkpoint, setup.world.rank()).info("weights of {} loaded", from.string());
}

void fill_parameters(const TrainingSetup& setup) {
  const RunConfig& config = setup.config();
  const RunInputs& inputs = setup.inputs;
  const std::vector<ParameterState> parameters = setup.parameters();
  comm::act_together(setup.world, [&] {
    if (inputs.resume_from) {
      warn_of_other_kernels(setup, *inputs.resume_from);
      load_checkpoint(*inputs.resume_from, parameters, inputs.share,
                      parameters_elsewhere(config, setup.specs, setup.at));
      Log(LogTopic::checkpoint, setup.world.rank())
          .info("{} loaded: the run continues after {} steps", inputs.resume_from->string(), inputs.first_step);
    } else if (inputs.init_from) {
      load_initial_weights(setup, *inputs.init_from);
    } else {
      initialize_parameters(parameters, config.seed);
    }
  });
  expect_equal_replicas(setup.world, parameters);
  write_constants(setup.program->state(), config, setup.at);
  setup.program->state_to_device();
}

/// Opens the file of choices to replay, or looks whether they can be recorded.
void set_up_routing(TrainingSetup& setup) {
  const RunConfig& config = setup.config();
  if (config.record_routing.empty() && config.replay_routing.empty()) return;
  const RunInputs& inputs = setup.inputs;
  setup.routing = routing_info(config, inputs.source.digest, inputs.first_step, setup.first_sequence());
  comm::act_together(setup.world, [&] {
    if (setup.world.rank() != 0) return;
    if (!config.record_routing.empty()) expect_recordable(config.record_routing, setup.routing);
    if (config.replay_routing.empty()) return;
    setup.replayed = std::make_unique<RoutingFile>(config.replay_routing);
    setup.replayed->expect_fits(setup.routing);
    setup.replayed->expect_steps(setup.routing, config.steps);
  });
}

/// The text that a model begins with, at most as long as its context. With sample-every any tokenizer that is known
/// serves; without, only that of bytes, since the graphs of a sample take time and memory.
void set_up_sample(TrainingSetup& setup) {
  const RunConfig& config = setup.config();
  if (setup.inputs.source.is_text) setup.sample_tokenizer = std::make_shared<text::ByteTokenizer>();
  if (config.sample_every > 0 && setup.sample_tokenizer == nullptr) setup.sample_tokenizer = setup.inputs.tokenizer;
  if (setup.sample_tokenizer == nullptr) {
    if (config.sample_every == 0) return;
    throw UserError(fmt::format("sample-every = {} of tokens whose tokenizer isn't known", config.sample_every),
                    "a tokenizer, which writes the text", "--tokenizer with its folder or file, or leave it out");
  }
  const text::Tokenizer& tokenizer = *setup.sample_tokenizer;
  // A blank of its own is no token of larger vocabularies.
  std::vector<std::int32_t>& prompt = setup.sample_prompt;
  prompt = tokenizer.encode_prompt(tokenizer.vocabulary() == text::ByteTokenizer::kVocabulary ? "The " : "The");
  prompt.resize(std::min(prompt.size(), static_cast<std::size_t>(config.model.context)));
  const auto tokens = static_cast<std::int64_t>(prompt.size());
  setup.sample_model = with_short_context(config.model, tokens + kSampleTokens);
  setup.sample_prefill = prefill_length(tokens, kSampleTokens, setup.sample_model.context);
}

}  // namespace

std::vector<ParameterState> TrainingSetup::parameters() const {
  return training_arrays(program->state(), shards, run.config.dtype);
}

std::uint64_t TrainingSetup::tokens_seen(std::int64_t steps_done) const {
  const std::int64_t of_this_run = steps_done - inputs.first_step;
  return inputs.tokens_seen + static_cast<std::uint64_t>(of_this_run * config().global_batch * config().seq_len);
}

std::uint64_t TrainingSetup::first_sequence() const {
  const auto length = static_cast<std::uint64_t>(config().seq_len);
  return (inputs.tokens_seen + length - 1) / length;
}

std::unique_ptr<TrainingSetup> set_up_training(comm::World& world, const ResolvedRun& run,
                                               const execute::MakeExecutor& make_executor, bool speaks) {
  auto made = std::make_unique<TrainingSetup>(world, speaks);
  TrainingSetup& setup = *made;
  setup.tuned = check_machine(world, run, make_executor == nullptr);
  setup.inputs = find_run_inputs(world, run.config, speaks);
  setup.bf16 = bf16_of_run(world, run.config, setup.inputs.resume_from);
  setup.run = with_bf16(run, setup.bf16);
  setup.batches.emplace(batch_plan(run.config, setup.inputs.source.train, setup.inputs.cut));
  if (run.config.epochs > 0) {
    setup.run.config.steps =
        steps_of_epochs(run.config, *setup.batches, setup.inputs.first_step, setup.first_sequence());
  }
  const RunConfig& config = setup.config();
  if (setup.inputs.resume_from && world.rank() == 0) {
    warn_of_jump(config, read_checkpoint_info(*setup.inputs.resume_from), *setup.batches, Log(LogTopic::run, 0));
  }
  set_up_routing(setup);
  setup.at = graph::coordinates_of(config.grid, world.rank());
  setup.specs = ops::model_parameters(config.model);
  setup.shards = shards_of(config, setup.specs, setup.at);
  if (setup.tuned == nullptr) {
    setup.tuned = gemm_tuning_of_run(world, run.gemm_tuning, setup.inputs.resume_from, StoredTuning::required,
                                     [&] { return tuned_here(setup.run, speaks); });
  }
  set_up_sample(setup);
  make_program(setup, make_executor);
  const execute::ExecutorPlace place = setup.program->executor().runs_on();
  setup.devices = find_devices(world, place, place.device.empty() ? 0 : execute::report_devices().devices.size());
  setup.held_out =
      std::make_unique<EvalBatches>(eval_batches(config, setup.inputs.source.held_out, share_of(config, setup.at)));
  fill_parameters(setup);
  return made;
}

std::string choose_held_out(TrainingSetup& setup) {
  RunConfig& config = setup.run.config;
  if (config.eval_sequences >= 0) return "";
  config.eval_sequences = 0;
  // What takes less than a minute at a Gflop/s isn't timed.
  constexpr double kQuick = 60e9, kStep = 3;
  const double flops = ops::train_flops_per_token(config.model, config.seq_len) / kStep;
  const BatchShare share = share_of(config, setup.at);
  const std::int64_t a_batch = share.ranks * share.micro_batch, all = a_batch * setup.held_out->size();
  if (flops * static_cast<double>(setup.held_out->targets()) < kQuick || setup.held_out->size() < 2) return "";
  RunConfig one = config;
  one.eval_sequences = a_batch;
  const EvalBatches batch = eval_batches(one, setup.inputs.source.held_out, share);
  const std::int64_t trained = (config.steps - setup.inputs.first_step) * config.global_batch;
  const std::int64_t evaluations = 2 + (config.eval_every > 0 ? config.steps / config.eval_every : 0);
  std::int64_t most = 0;
  StatusLine line(setup.speaks);
  line.show({.text = "timing a held-out batch"});
  // The first time a batch may take far longer, so a quick one is timed again.
  constexpr double kTimedOnce = 5;
  for (double seconds = 0, times = 0; times < 2 && seconds < kTimedOnce && most < all; ++times) {
    const auto begin = Clock::now();
    evaluate(*setup.program, batch);
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    seconds = comm::of_ranks(setup.world, seconds).front();
    most = affordable_sequences(std::max(seconds, 1e-9) / static_cast<double>(a_batch), trained, evaluations,
                                config.max_time);
  }
  if (most >= all) return "";
  config.eval_sequences = std::max<std::int64_t>(1, most / a_batch) * a_batch;
  setup.held_out = std::make_unique<EvalBatches>(eval_batches(config, setup.inputs.source.held_out, share));
  return fmt::format(
      "evaluations take the first {} of {} held-out sequences, a minute or 5 % of the run; "
      "--eval-sequences 0 takes all",
      config.eval_sequences, all);
}

}  // namespace weft::train
