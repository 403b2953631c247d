// `weft eval`: the loss of a checkpoint on held-out text.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/lower.h"
#include "tools/commands.h"
#include "tools/config_options.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/evaluation.h"
#include "train/gemm_tuning_file.h"
#include "train/launch_run.h"
#include "train/planning.h"
#include "train/trainer.h"
#include "train/training_state.h"

namespace weft {
namespace {

struct EvalOptions {
  std::string from;                // a run or checkpoint folder
  std::vector<Setting> overrides;  // of the run's own configuration
  bool json = false;
};

// The run's own configuration, freed of what its ranks and machine decided, with the options on top.
RunConfig config_of(const CheckpointInfo& info, const EvalOptions& options) {
  RunConfig config;
  load_toml_text(config, info.config_toml, "the checkpoint's configuration", options.overrides);
  config.ranks = 0;
  config.grid = Grid{};
  config.zero1 = false;
  config.threads = 0;
  config.resume.clear();
  config.init_from.clear();
  config.gemm_tuning.clear();  // the checkpoint has it, if there is one
  apply_settings(config, options.overrides);
  return config;
}

int evaluate_checkpoint(const EvalOptions& options) {
  const std::filesystem::path checkpoint = find_checkpoint(options.from);
  const CheckpointInfo info = read_checkpoint_info(checkpoint);
  const auto fit_batch = [](RunConfig& config, std::int64_t ranks) {
    const std::int64_t sharers = std::max<std::int64_t>(1, ranks / (config.grid.x * config.grid.y));
    config.global_batch = std::max<std::int64_t>(1, config.micro_batch) * sharers;
  };
  const auto body = [&](World& world, const RunConfig& config) {
    const TokenSource source =
        TokenSource::open({config.data, config.val_data, config.model.vocab, config.seq_len, config.data_dtype});
    const Coordinates at = coordinates_of(config.grid, world.rank());
    const EvalBatches batches(source.held_out(), config.seq_len, share_of(config, at), config.eval_sequences);
    const auto tuned = gemm_tuning_of_run(world, config.gemm_tuning, checkpoint, StoredTuning::if_it_fits);
    Program program(world, {{"eval", lower_eval(config.model, step_config(config))}},
                    {.policy = config.policy,
                     .policy_options = policy_options(config),
                     .rewrites = chosen_rewrites(config),
                     .grid = config.grid,
                     .threads = static_cast<int>(config.threads),
                     .gemm_tuning = table_of(tuned)});
    const std::vector<ParameterSpec> specs = model_parameters(config.model);
    const auto shards = shard_parameters(config.model, specs, config.grid, at);
    load_parameters(checkpoint, config.model, weights_of(program.state(), shards, config.dtype),
                    {world.rank(), world.size()});
    set_coordinates(program.state(), config.grid, at);
    const Evaluation result = evaluate(program, batches);
    if (world.rank() != 0) return 0;
    if (options.json) {
      const nlohmann::json json = {{"checkpoint", checkpoint.string()},
                                   {"step", info.step},
                                   {"val_loss", result.loss},
                                   {"perplexity", std::exp(result.loss)},
                                   {"targets", result.targets}};
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("{}, step {}: {:.4f} nats a token over {} held-out tokens (perplexity {:.3f})\n", checkpoint.string(),
                 info.step, result.loss, result.targets, std::exp(result.loss));
    }
    return 0;
  };
  return run_on_ranks(config_of(info, options), body, fit_batch);
}

}  // namespace

Command add_eval(CLI::App& root) {
  CLI::App* app = root.add_subcommand("eval", "compute the loss of a checkpoint on held-out text");
  const auto options = std::make_shared<EvalOptions>();
  app->add_option("run", options->from, "a run or checkpoint folder")->type_name("FOLDER")->required();
  app->add_flag("--json", options->json, "print the result as one JSON object");
  for (const ConfigKey& key : config_keys()) {
    constexpr std::array<std::string_view, 11> kTaken{"data",  "val-data", "data-dtype",  "ranks",
                                                      "grid",  "threads",  "micro-batch", "eval-sequences",
                                                      "dtype", "seq-len",  "gemm-tuning"};
    if (std::find(kTaken.begin(), kTaken.end(), key.name) == kTaken.end()) continue;
    add_key_flag(*app, key, options->overrides, "the run's");
  }
  app->footer(
      "Examples:\n"
      "  weft eval runs/mine\n"
      "  weft eval runs/mine --val-data book.txt --json");
  return [options] { return evaluate_checkpoint(*options); };
}

}  // namespace weft
