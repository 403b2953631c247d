// `weft train`: trains a model as its configuration says.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "base/allowed_cores.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "study/search/grid_choice.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/launch.h"
#include "tools/version.h"
#include "train/describe_run.h"
#include "train/run/launch_run.h"
#include "train/run/run_folder.h"
#include "train/step/step_config.h"
#include "train/trainer.h"

namespace weft::tools {
namespace {

std::string indented(const std::string& text) {
  std::string out = "  | ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  | ";
  }
  return out;
}

struct TrainOptions {
  std::string program;      // as it was called
  train::RunConfig config;  // not yet resolved
  bool dry_run = false;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  bool overwrite = false;
  std::string log_level = std::string(to_string(LogLevel::info));
};

bool replays_routing(const train::RunConfig& config) {
  return !config.replay_routing.empty();
}

/// null of a model without experts.
JsonValue experts_json(const train::RunConfig& config, const train::ExpertLoad& load) {
  if (load.layers.empty()) return nullptr;
  const train::BusiestExpert most = train::busiest(load);
  const train::LayerLoad* const nearest = train::nearest_choice(load);
  JsonObject experts;
  experts.add("busiest_expert", most.expert).add("busiest_layer", most.layer).add("choices", choices_in(load));
  if (replays_routing(config)) experts.add("flips", flips_in(load));
  return experts
      .add("least_margin", nearest != nullptr ? JsonValue(shortest_double(nearest->margin)) : JsonValue(nullptr))
      .add("most_by_mean", most.load);
}

JsonValue or_null(const std::optional<double>& number) {
  return number ? JsonValue(*number) : JsonValue(nullptr);
}

/// "1.5432 nats a token before, 1.2345 after step 1750"; "" where no evaluation came to its end.
std::string held_out_text(const train::TrainResult& result) {
  std::string text;
  if (result.first_val_loss) text = fmt::format("{:.4f} nats a token before", *result.first_val_loss);
  if (result.val_loss && result.evaluated_step > result.first_step) {
    text += fmt::format("{}{:.4f}{} after", text.empty() ? "" : ", ", *result.val_loss,
                        text.empty() ? " nats a token" : "");
    if (result.evaluated_step < result.steps_done) text += fmt::format(" step {}", result.evaluated_step);
  }
  return text;
}

std::string to_json(const train::RunConfig& config, const train::TrainResult& result) {
  JsonArray files;
  for (const auto& file : result.files) files.add(file.string());
  return JsonObject()
      .add("communication_ms", result.communication_ms)
      .add("communicator", result.devices.communicator)
      .add("device_memory_bytes", result.device_memory_bytes)
      .add("devices", train::to_json(result.devices))
      .add("experts", experts_json(config, result.experts))
      .add("exposed_comm_ms", result.exposed_comm_ms)
      .add("files", files)
      .add("first_loss", result.first_loss)
      .add("first_step", result.first_step)
      .add("first_step_seconds", result.first_step_seconds)
      .add("first_val_loss", or_null(result.first_val_loss))
      .add("grid", graph::to_string(config.grid))
      .add("last_loss", result.last_loss)
      .add("overlap_fraction", result.overlap_fraction)
      .add("peak_memory_bytes", result.peak_memory_bytes)
      .add("planned_memory_bytes", result.planned_memory_bytes)
      .add("program_memory_bytes", result.program_memory_bytes)
      .add("run_dir", config.run_dir)
      .add("sample", result.sample)
      .add("seconds", result.seconds)
      .add("step_ms", result.step_ms)
      .add("steps_done", result.steps_done)
      .add("stopped_by_signal", result.stopped_by_signal)
      .add("stopped_by_time", result.stopped_by_time)
      .add("summation_note", train::summation_note(config))
      .add("tokens_per_s", result.tokens_per_s)
      .add("val_loss", or_null(result.val_loss))
      .text();
}

void print_summary(const TrainOptions& options, const train::RunConfig& config, const train::TrainResult& result) {
  std::string text = "\n";
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<10} {}\n", name, value);
  };
  if (result.stopped_by_signal || result.stopped_by_time) {
    line("stopped", fmt::format("by {} after step {} of {}; go on with: {} train {}/config.toml --resume auto",
                                result.stopped_by_signal ? "a signal" : "--max-time", result.steps_done, result.steps,
                                options.program, config.run_dir));
  }
  if (result.steps_done == result.first_step) {
    line("steps", fmt::format("none left: {} of {} were done before; --steps with a larger number goes on",
                              result.first_step, result.steps));
    if (result.val_loss) line("held out", fmt::format("{:.4f} nats a token", *result.val_loss));
    say("{}", text);
    return;
  }
  const auto loss = [](double value) { return train::loss_text(value, !std::isnan(value)); };
  line("loss", fmt::format("{} at the first step, {} at the last of {} steps", loss(result.first_loss),
                           loss(result.last_loss), result.steps_done - result.first_step));
  if (const std::string held_out = held_out_text(result); !held_out.empty()) line("held out", held_out);
  line("speed", fmt::format("{} tokens/s, {:.1f} ms a step (medians); {} in all", human_count(result.tokens_per_s),
                            result.step_ms, human_duration(result.seconds)));
  if (config.grid.ranks() > 1) {
    const std::int64_t traced = std::min(config.trace_steps, result.steps_done - result.first_step);
    line("exposed", fmt::format("{:.2f} ms a step of {:.2f} ms communication, {:.0f} % overlapped (last {} step{})",
                                result.exposed_comm_ms, result.communication_ms, 100 * result.overlap_fraction, traced,
                                traced == 1 ? "" : "s"));
  }
  if (!result.experts.layers.empty()) line("experts", load_text(result.experts, replays_routing(config)));
  line("memory", human_bytes(result.peak_memory_bytes) + " at the peak of this process" +
                     (result.device_memory_bytes > 0 ? ", " + human_bytes(result.device_memory_bytes) + " on the GPU"
                                                     : std::string()));
  if (!result.sample.empty()) text += "\nA sample of what it learnt:\n" + indented(result.sample) + "\n";
  text += "\nFiles of the run:\n";
  for (const auto& file : result.files) text += "  " + file.string() + "\n";
  say("{}", text);
}

/// A line about more threads than cores, which wait for one another; "" if there are enough. `ranks`: of this machine.
std::string crowding(const train::RunConfig& config, std::int64_t ranks) {
  constexpr std::int64_t kCrowd = 2;  // a rank or two more than cores is what small examples have
  const std::int64_t cores = allowed_cores(0).cores;
  const std::int64_t threads = ranks * std::max<std::int64_t>(1, config.threads);
  if (config.device != train::DeviceKind::cpu || threads <= kCrowd * cores) return "";
  return fmt::format("{} rank{} with {} thread{} each on {} cores: threads wait for one another; --threads {}{}", ranks,
                     ranks == 1 ? "" : "s", config.threads, config.threads == 1 ? "" : "s", cores,
                     std::max<std::int64_t>(1, cores / ranks),
                     ranks > cores ? fmt::format(", and --ranks {} or fewer", cores) : "");
}

int train(const TrainOptions& options, LogLevel log_level) {
  RunLog log(log_level);
  Log(LogTopic::run).info("{}", version_text());
  const bool proposed = options.config.run_dir.empty();
  const auto body = [&](comm::World& world, train::ResolvedRun run) {
    train::RunConfig& config = run.config;
    // Nothing is measured for a run that doesn't take place.
    train::TuningSetting& tuning = run.gemm_tuning;
    if (options.dry_run && tuning.from == train::TuningSetting::From::trials) tuning = {};
    std::unique_ptr<train::RunFolder> folder;
    if (!options.dry_run) folder = train::claim_run_folder(world, config, {proposed, options.overwrite});
    const bool is_first = world.rank() == 0;
    const bool shows_progress = is_first && !options.json && !options.quiet;
    if (is_first) {
      for (const std::string& warning : config.warnings) Log(LogTopic::run, 0).warning("{}", warning);
      const std::string crowded = crowding(config, world.of_processes() ? 1 : config.ranks);
      if (!crowded.empty()) Log(LogTopic::run, 0).warning("{}", crowded);
    }
    const auto setup = train::set_up_training(world, run, nullptr, shows_progress);
    if (options.dry_run) {
      if (is_first && options.json) say("{}\n", train::describe_run_json(*setup));
      if (is_first && !options.json) say(stdout, train::describe_run(*setup, output_width()));
      return 0;
    }
    train::log_run(*setup);
    if (shows_progress) {
      const auto describe = options.verbose ? train::describe_run : train::describe_run_briefly;
      tell(describe(*setup, told_width()).plain());
    }
    const train::TrainResult result = train::run_training(*setup, options.overwrite, &log);
    if (is_first && options.json) say("{}\n", to_json(config, result));
    if (is_first && !options.json) print_summary(options, config, result);
    return 0;
  };
  return train::run_on_ranks(
      launched(options.config), body, {}, [&](const train::RunConfig& config, const train::RankCount& ranks) {
        return study::choose_grid(config, ranks,
                                  options.json || options.quiet ? study::Verbosity::quiet : study::Verbosity::choice);
      });
}

}  // namespace

Command describe_train(const std::string& program) {
  Command command{"train", "train a model"};
  const auto options = std::make_shared<TrainOptions>();
  options->program = program;
  command.add({.names = "--dry-run",
               .target = &options->dry_run,
               .help = "compile and check the step, print its plan, and leave without training"});
  command.add({.names = "--json", .target = &options->json, .help = "print the result as one JSON object"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the summary and errors"});
  command.add({.names = "--verbose",
               .target = &options->verbose,
               .help = "print all about the run before its first step: notes, and tables of plans, memory and bytes "
                       "sent, which its log has in any case"});
  command.add({.names = "--overwrite",
               .target = &options->overwrite,
               .help = "where the run folder holds a run, remove its metrics, logs, traces and checkpoints, and begin "
                       "anew"});
  command.add(word_option("--log-level", &options->log_level, "LEVEL",
                          "what log.txt in the run folder gets: error, warning, info, debug or trace, each with those "
                          "before it",
                          {"error", "warning", "info", "debug", "trace"}));
  const ConfigOptions config(command);
  command.examples = {{"weft train --model tiny --ranks 2 --steps 200"},
                      {"weft train run.toml --lr 3e-4 --set model.layers=6"},
                      {"mpirun -np 4 weft train --model small --grid auto"},
                      {"weft train --resume runs/mine --steps 400"},
                      {"weft train run.toml --run-dir runs/mine --log-level debug; less runs/mine/log.txt"},
                      {"mpirun -np 4 weft train run.toml --run-dir runs/mine --resume auto"},
                      {"torchrun --no-python --nproc-per-node 4 weft train run.toml", "as processes without MPI"},
                      {"weft train --model tiny --dump-config > run.toml", "a configuration file to start from"}};
  command.run = [options, config] {
    const LogLevel level = log_level_of(options->log_level);
    return config.on_config(
        options->config, [&] { return train(*options, level); }, OpenGrid::accepted);
  };
  return command;
}

}  // namespace weft::tools
