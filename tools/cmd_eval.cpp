// `weft eval`: the loss of a checkpoint, of a model of Hugging Face or of a GGUF file, on held-out text or
// tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "ops/lower.h"
#include "runtime/comm/agreement.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "text/tokenizer.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/launch.h"
#include "train/checkpoint/adapter_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/config.h"
#include "train/config/saved_model.h"
#include "train/data/tokenized_texts.h"
#include "train/evaluation.h"
#include "train/measure/bf16_products.h"
#include "train/measure/run_gemm_tuning.h"
#include "train/progress.h"
#include "train/run/launch_run.h"
#include "train/run/run_inputs.h"
#include "train/step/planning.h"
#include "train/step/run_graphs.h"
#include "train/step/step_config.h"
#include "train/step/step_data.h"
#include "train/step/training_state.h"
#include "train/stopping.h"

namespace weft::tools {
namespace {

constexpr int kNoLoss = 3;  // the exit code of a fault at run time

struct EvalOptions {
  std::string from;                       // a run or checkpoint folder, a folder of Hugging Face, or a GGUF file
  std::string adapter;                    // of PEFT, for that model
  std::vector<train::Setting> overrides;  // of the run's own configuration
  std::vector<std::string> accepted;
  bool json = false;
};

// Of a model from elsewhere, whose context may be far longer than any text that is at hand.
constexpr std::int64_t kWindow = 1024;

// The run's own configuration, freed of what its ranks and machine decided, with the options on top.
train::RunConfig config_of(const train::SavedModel& saved, const EvalOptions& options) {
  train::RunConfig config;
  if (saved.checkpoint) {
    train::load_toml_text(config, saved.checkpoint->config_toml, "the checkpoint's configuration", options.overrides);
  } else {
    config.seq_len = std::min(saved.model.context, kWindow);
    config.dtype = saved.dtype;
  }
  config.model = saved.model;
  config.model_name = config.model.name;
  config.ranks = 0;
  config.grid = graph::Grid{};
  config.zero1 = false;
  config.threads = 0;
  config.network = train::Network::loopback;
  config.token_file.clear();
  config.resume.clear();
  config.init_from.clear();
  config.adapter.clear();
  config.tokenizer.clear();    // the checkpoint has it, if it is known
  config.gemm_tuning.clear();  // the checkpoint has it, if there is one
  config.bf16_products.reset();
  train::apply_settings(config, options.overrides);
  config.accepted.insert(options.accepted.begin(), options.accepted.end());
  // No policy changes a number, so a run that was ordered by somebody's code is evaluated without running that code.
  train::leave_out_library(config);
  return config;
}

int evaluate_model(const EvalOptions& options) {
  const train::SavedModel saved = train::read_saved_model(options.from, options.adapter);
  const auto fit_batch = [](train::RunConfig& config, std::int64_t ranks) {
    const std::int64_t sharers =
        std::max<std::int64_t>(1, ranks / (config.grid.x * config.grid.y * config.grid.context));
    config.global_batch = std::max<std::int64_t>(1, config.micro_batch) * sharers;
  };
  const auto body = [&](comm::World& world, const train::ResolvedRun& resolved) {
    const train::ResolvedRun run =
        train::with_bf16(resolved, train::bf16_of_run(world, resolved.config, train::checkpoint_of(saved)));
    const train::RunConfig& config = run.config;
    train::ModelTokenizer tokenizer;
    comm::act_together(world, [&] {
      tokenizer = train::model_tokenizer(config.tokenizer, saved.path, config.model.vocab,
                                         config.accepted.contains("tokenizer"));
    });
    const train::TokenSource source = train::open_tokens(world, config, tokenizer, /*held_out_only=*/true);
    comm::expect_same_facts(world, train::facts_of(source));
    const train::ReadShare share = train::agree_on_weights(world, saved.path, saved.adapters);
    const graph::Coordinates at = graph::coordinates_of(config.grid, world.rank());
    const train::EvalBatches batches = train::eval_batches(config, source.held_out, train::share_of(config, at));
    const auto tuned =
        train::gemm_tuning_of_run(world, run.gemm_tuning, train::checkpoint_of(saved), train::StoredTuning::if_it_fits);
    execute::Program program(world, {train::eval_graph(config, at.pipe)},
                             {.policy = run.policy.policy,
                              .policy_options = train::policy_options(run),
                              .rewrites = train::chosen_rewrites(run),
                              .grid = config.grid,
                              .threads = static_cast<int>(config.threads),
                              .gemm_tuning = execute::table_of(tuned, train::bf16_unit_of(config))});
    const std::vector<ops::ParameterSpec> specs = ops::model_parameters(config.model);
    const auto shards = train::shards_of(config, specs, at);
    train::load_parameters_and_adapters(saved.weights(), config.model,
                                        train::training_arrays(program.state(), shards, config.dtype), share,
                                        train::parameters_elsewhere(config, specs, at));
    train::set_coordinates(program.state(), config.grid, at);
    train::set_first_position(program.state(), train::step_config(config), at);
    const train::StopSignals signals(
        world.rank() == 0 ? "\nweft: stopping after this batch, without a loss; a second signal ends at once\n" : "");
    StatusLine line(world.rank() == 0 && !options.json);
    train::EvaluationBar bar(line);
    std::int64_t begun = 0;
    const train::Evaluation result = train::evaluate(program, batches, [&] {
      bar.show(begun++, batches.size());
      return train::StopReasons{train::StopSignals::received() != 0, false};
    });
    if (!result.complete) {
      if (world.rank() == 0) {
        tell(fmt::format("weft: stopped by a signal after {} of {} batches: no loss", result.batches, batches.size()));
      }
      return kNoLoss;
    }
    if (world.rank() != 0) return 0;
    JsonObject json;
    json.add("checkpoint", saved.path.string()).add("dtype", to_string(config.dtype));
    json.add("perplexity", std::exp(result.loss)).add("seq_len", config.seq_len);
    if (saved.checkpoint) json.add("step", saved.checkpoint->step);
    return print_result(
        options.json, json.add("targets", result.targets).add("val_loss", result.loss),
        fmt::format("{}: {:.4f} nats a token over {} held-out tokens in windows of {} (perplexity {:.3f}), {}\n",
                    train::name_of(saved), result.loss, result.targets, config.seq_len, std::exp(result.loss),
                    to_string(config.dtype)));
  };
  return train::run_on_ranks(launched(config_of(saved, options)), body, fit_batch);
}

}  // namespace

Command describe_eval() {
  Command command{"eval", "compute the loss of a checkpoint, or of a Hugging Face model, on held-out data"};
  const auto options = std::make_shared<EvalOptions>();
  command.add(
      required(path_option("run", &options->from, "",
                           "a run or checkpoint folder, a folder of Hugging Face, or a GGUF file", Paths::files)));
  command.add(adapter_option(options->adapter));
  command.add(accept_option(options->accepted, {"tokenizer"}));
  command.add({.names = "--json", .target = &options->json, .help = "print the result as one JSON object"});
  add_keys(command, command.name, options->overrides, "the run's");
  command.examples = {{"weft eval runs/mine"},
                      {"weft eval runs/mine --val-data book.txt --json"},
                      {"weft eval llama-folder --val-data tokens.bin --seq-len 512"},
                      {"weft eval llama-folder --adapter peft-folder --val-data tokens.bin"}};
  command.run = [options] { return evaluate_model(*options); };
  return command;
}

}  // namespace weft::tools
