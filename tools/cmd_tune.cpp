// `weft tune`: finds the fastest way to compute each matrix product of a configuration on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "base/text/text_table.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "study/columns.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/input/launch.h"
#include "train/measure/run_gemm_tuning.h"
#include "train/run/launch_run.h"

namespace weft::tools {
namespace {

struct TuneOptions {
  train::RunConfig config;  // not yet resolved
  std::string output = std::string(execute::kGemmTuningFile);
  int rounds = execute::GemmTrialOptions{}.rounds;
  bool cold = false;
  bool json = false;
  bool quiet = false;
};

struct TunedProduct {
  execute::GemmTrial trial;
  train::RunProduct of_run;
};

std::vector<TunedProduct> measure(const train::ResolvedRun& run, const TuneOptions& options) {
  const std::vector<train::RunProduct> of_run = train::products_of_run(run);
  const execute::TryGemm trial = train::gemm_trials(run.config, options.rounds, options.cold);
  std::vector<TunedProduct> products;
  StatusLine line(!options.quiet && !options.json);
  for (const train::RunProduct& product : of_run) {
    line.show({execute::to_string(product.problem), std::ssize(products), std::ssize(of_run)});
    products.push_back({trial(product.problem), product});
    line.print(fmt::format("[{}/{}] {}", products.size(), of_run.size(), execute::to_string(products.back().trial)));
  }
  return products;
}

study::Columns<TunedProduct> product_columns() {
  const auto in_ms = [](double ms) { return fmt::format("{:.3f}", ms); };
  study::Columns<TunedProduct> columns;
  columns.add("candidates", [](const TunedProduct& p) { return p.trial.candidates; });
  columns.add("product", [](const TunedProduct& p) { return execute::to_string(p.trial.problem); },
              {.head = "product", .words = true});
  columns.add("tasks", [](const TunedProduct& p) { return p.of_run.step_tasks; }, {.head = "step", .rank = 2});
  columns.add("evaluation_tasks", [](const TunedProduct& p) { return p.of_run.evaluation_tasks; },
              {.head = "eval", .rank = 2});
  columns.add("default", [](const TunedProduct& p) { return execute::to_string(p.trial.usual); })
      .shown({.head = "default", .words = true, .least = 8, .rank = 1},
             [](const TunedProduct& p) { return execute::brief(p.trial.usual); });
  columns.add(
      "default_ms", [](const TunedProduct& p) { return 1e3 * p.trial.usual_seconds; }, {.head = "ms"}, in_ms);
  columns.add("chosen", [](const TunedProduct& p) { return execute::to_string(p.trial.chosen); })
      .shown({.head = "chosen", .words = true, .least = 8}, [](const TunedProduct& p) {
        return p.trial.chosen == p.trial.usual ? "=" : execute::brief(p.trial.chosen);
      });
  columns.add(
      "chosen_ms", [](const TunedProduct& p) { return 1e3 * p.trial.chosen_seconds; }, {.head = "ms"}, in_ms);
  columns.add(
      "gain", [](const TunedProduct& p) { return p.trial.gain; }, {.head = "gain"},
      [](double gain) { return fmt::format("{:.2f}", gain); });
  return columns;
}

/// Milliseconds of all products of a training step, or of an evaluation.
struct Totals {
  double usual = 0, chosen = 0;

  Totals(const std::vector<TunedProduct>& products, std::int64_t train::RunProduct::*tasks) {
    for (const auto& [trial, of_run] : products) {
      usual += 1e3 * trial.usual_seconds * static_cast<double>(of_run.*tasks);
      chosen += 1e3 * trial.chosen_seconds * static_cast<double>(of_run.*tasks);
    }
  }
  JsonObject json() const { return JsonObject().add("chosen_ms", chosen).add("default_ms", usual); }
  std::string text() const { return fmt::format("{:.1f} ms by default, {:.1f} ms as chosen", usual, chosen); }
};

void print_products(const std::vector<TunedProduct>& products, const execute::TunedGemms& tuned,
                    const TuneOptions& options, double seconds) {
  const auto changed =
      std::ranges::count_if(products, [](const TunedProduct& p) { return p.trial.chosen != p.trial.usual; });
  const Totals step(products, &train::RunProduct::step_tasks),
      evaluation(products, &train::RunProduct::evaluation_tasks);
  StyledText text = table_text(product_columns().table(products), output_width());
  text.add(fmt::format("{} of {} products get another method\n", changed, products.size()));
  text.add(fmt::format("a training step's take {}; an evaluation's {}\n", step.text(), evaluation.text()));
  text.add(fmt::format("measured in {:.0f} s; use it with --gemm-tuning {}\n", seconds, options.output));
  print_result(options.json,
               JsonObject()
                   .add("evaluation", evaluation.json())
                   .add("file", options.output)
                   .add("fingerprint", fmt::format("{:016x}", tuned.table.fingerprint()))
                   .add("isa", tuned.machine.isa)
                   .add("library", tuned.machine.library)
                   .add("products", product_columns().json(products))
                   .add("step", step.json())
                   .add("threads", tuned.threads),
               text);
}

int tune(const TuneOptions& options) {
  return train::run_on_ranks(launched(options.config), [&](comm::World& world, const train::ResolvedRun& run) {
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
      print_products(products, tuned, options, seconds);
    }
    world.barrier();
    return 0;
  });
}

}  // namespace

Command describe_tune() {
  Command command{"tune", "find the fastest way to compute each matrix product here"};
  const auto options = std::make_shared<TuneOptions>();
  command.add(output_option(options->output, "FILE.json", "the file to write, for --gemm-tuning"));
  command.add(number_option("--rounds", &options->rounds, "rounds in which the best methods are compared", 1, 1000));
  command.add({.names = "--cold",
               .target = &options->cold,
               .help = "with device cuda: other data fills the GPU's cache before each timed run"});
  command.add({.names = "--json", .target = &options->json, .help = "print the result as one JSON object"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the table and errors"});
  const ConfigOptions config(command);
  command.description =
      "A method replaces the default only where it is more than 3 % faster, and is so again when measured once more. A "
      "method that ends with nn, nt or tn first copies operands transposed: the library sees that layout.";
  command.examples = {
      {"weft tune --model gpt2-124m --global-batch 4 --seq-len 256 -o gpt2.json"},
      {"weft train --model gpt2-124m --data tokens.bin --global-batch 4 --seq-len 256 --gemm-tuning gpt2.json"},
      {"weft tune run.toml -o tuned.json --json"},
      {"weft tune run.toml --device cuda -o h100.json"},
      {"weft train run.toml --gemm-tuning auto", "the same at the start of a run, kept for the next one"}};
  command.run = [options, config] {
    return config.on_config(options->config, [&] {
      train::leave_out_library(options->config);
      return tune(*options);
    });
  };
  return command;
}

}  // namespace weft::tools
