// `weft tune`: finds the fastest way to compute each matrix product of a configuration on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "train/measure/run_gemm_tuning.h"
#include "train/run/launch_run.h"

namespace weft::tools {
namespace {

struct TuneOptions {
  train::RunConfig config;  // not yet resolved
  std::string output = std::string(execute::kGemmTuningFile);
  int rounds = execute::GemmTrialOptions{}.rounds;
  bool json = false;
  bool quiet = false;
};

struct TunedProduct {
  execute::GemmTrial trial;
  train::RunProduct of_run;
};

std::vector<TunedProduct> measure(const train::ResolvedRun& run, const TuneOptions& options) {
  const std::vector<train::RunProduct> of_run = train::products_of_run(run);
  train::RunGemmTrials trials(run.config, options.rounds);
  std::vector<TunedProduct> products;
  StatusLine line(!options.quiet && !options.json);
  for (const train::RunProduct& product : of_run) {
    line.show({execute::to_string(product.problem), std::ssize(products), std::ssize(of_run)});
    products.push_back({trials.run(product.problem), product});
    line.print(fmt::format("[{}/{}] {}", products.size(), of_run.size(), execute::to_string(products.back().trial)));
  }
  return products;
}

// Of all products of a training step, or of an evaluation, together.
double milliseconds(const std::vector<TunedProduct>& products, double execute::GemmTrial::*seconds,
                    std::int64_t train::RunProduct::*tasks) {
  double sum = 0;
  for (const auto& [trial, of_run] : products) sum += 1e3 * trial.*seconds * static_cast<double>(of_run.*tasks);
  return sum;
}

void print_table(const std::vector<TunedProduct>& products, const TuneOptions& options, double seconds) {
  TextTable table{.columns = {{.head = "product", .words = true},
                              {.head = "step", .rank = 2},
                              {.head = "eval", .rank = 2},
                              {.head = "default", .words = true, .least = 8, .rank = 1},
                              {.head = "ms"},
                              {.head = "chosen", .words = true, .least = 8},
                              {.head = "ms"},
                              {.head = "gain"}}};
  for (const auto& [trial, of_run] : products) {
    const bool same = trial.chosen == trial.usual;
    table.rows.push_back({execute::to_string(trial.problem), fmt::format("{}", of_run.step_tasks),
                          fmt::format("{}", of_run.evaluation_tasks), execute::brief(trial.usual),
                          fmt::format("{:.3f}", 1e3 * trial.usual_seconds), same ? "=" : execute::brief(trial.chosen),
                          fmt::format("{:.3f}", 1e3 * trial.chosen_seconds), fmt::format("{:.2f}", trial.gain)});
  }
  const auto changed =
      std::ranges::count_if(products, [](const TunedProduct& p) { return p.trial.chosen != p.trial.usual; });
  StyledText text = table_text(table, output_width());
  text.add(fmt::format("{} of {} products get another method\n", changed, products.size()));
  const auto of = [&](std::int64_t train::RunProduct::*tasks) {
    return fmt::format("{:.1f} ms by default, {:.1f} ms as chosen",
                       milliseconds(products, &execute::GemmTrial::usual_seconds, tasks),
                       milliseconds(products, &execute::GemmTrial::chosen_seconds, tasks));
  };
  text.add(fmt::format("a training step's take {}; an evaluation's {}\n", of(&train::RunProduct::step_tasks),
                       of(&train::RunProduct::evaluation_tasks)));
  text.add(fmt::format("measured in {:.0f} s; use it with --gemm-tuning {}\n", seconds, options.output));
  say(stdout, text);
}

std::string to_json(const std::vector<TunedProduct>& products, const execute::TunedGemms& tuned,
                    const std::string& output) {
  JsonArray list;
  for (const auto& [trial, of_run] : products) {
    list.add(JsonObject()
                 .add("candidates", trial.candidates)
                 .add("chosen", execute::to_string(trial.chosen))
                 .add("chosen_ms", 1e3 * trial.chosen_seconds)
                 .add("default", execute::to_string(trial.usual))
                 .add("default_ms", 1e3 * trial.usual_seconds)
                 .add("evaluation_tasks", of_run.evaluation_tasks)
                 .add("gain", trial.gain)
                 .add("product", execute::to_string(trial.problem))
                 .add("tasks", of_run.step_tasks));
  }
  const auto of = [&](std::int64_t train::RunProduct::*tasks) {
    return JsonObject()
        .add("chosen_ms", milliseconds(products, &execute::GemmTrial::chosen_seconds, tasks))
        .add("default_ms", milliseconds(products, &execute::GemmTrial::usual_seconds, tasks));
  };
  return JsonObject()
      .add("evaluation", of(&train::RunProduct::evaluation_tasks))
      .add("file", output)
      .add("fingerprint", fmt::format("{:016x}", tuned.table.fingerprint()))
      .add("isa", tuned.machine.isa)
      .add("library", tuned.machine.library)
      .add("products", list)
      .add("step", of(&train::RunProduct::step_tasks))
      .add("threads", tuned.threads)
      .text();
}

int tune(const TuneOptions& options) {
  return train::run_on_ranks(options.config, [&](comm::World& world, const train::ResolvedRun& run) {
    const train::RunConfig& config = run.config;
    // The others wait for what rank 0 has measured, so that the cores are its own.
    if (world.rank() == 0) {
      expect_writable(options.output);
      const auto begin = std::chrono::steady_clock::now();
      const std::vector<TunedProduct> products = measure(run, options);
      std::vector<execute::GemmChoice> choices;
      for (const auto& [trial, of_run] : products) choices.push_back({trial.problem, trial.chosen});
      const execute::TunedGemms tuned{train::tuning_machine(config), static_cast<int>(config.threads),
                                      execute::GemmTuning(std::move(choices))};
      write_durable(options.output, weft::execute::to_json(tuned), Named::by_person);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (options.json) {
        say("{}\n", to_json(products, tuned, options.output));
      } else {
        print_table(products, options, seconds);
      }
    }
    world.barrier();
    return 0;
  });
}

}  // namespace

Command describe_tune() {
  Command command{"tune", "find the fastest way to compute each matrix product here"};
  const auto options = std::make_shared<TuneOptions>();
  command.add(output_option(options->output, "FILE", "the file to write, for --gemm-tuning"));
  command.add(number_option("--rounds", &options->rounds, "in which the best methods meet", 1, 1000));
  command.add({.names = "--json", .target = &options->json, .help = "print the result as one JSON object"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the table and errors"});
  const ConfigOptions config(command);
  command.description =
      "A method replaces the default only where it is more than 3 % faster, and is so again in a second meeting. A "
      "method that ends with nn, nt or tn first copies operands transposed: the library sees that layout.";
  command.examples = {
      {"weft tune --model gpt2-124m --global-batch 4 --seq-len 256 -o gpt2.json"},
      {"weft train --model gpt2-124m --data tokens.bin --global-batch 4 --seq-len 256 --gemm-tuning gpt2.json"},
      {"weft tune run.toml -o tuned.json --json"},
      {"weft tune run.toml --device cuda -o h100.json"},
      {"weft train run.toml --gemm-tuning auto", "the same at the start of a run, kept for the next one"}};
  command.run = [options, config] {
    options->config = config.load();
    if (config.dump()) return print_config(options->config);
    train::leave_out_library(options->config);
    return tune(*options);
  };
  return command;
}

}  // namespace weft::tools
