// `weft tune`: finds the fastest way to compute each matrix product of a configuration on this machine, and on a GPU
// each attention.
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

/// A trial of a product or of an attention, as tables show it.
struct Tuned {
  std::string problem;
  std::int64_t step_tasks = 0, evaluation_tasks = 0;
  std::size_t candidates = 0;
  std::string usual, usual_brief, chosen, chosen_brief;
  double usual_seconds = 0, chosen_seconds = 0, gain = 1;
};

std::string brief(const execute::AttentionMethod& method) {
  return execute::to_string(method);
}

template <class Use, class Trial>
Tuned tuned_of(const Use& use, const Trial& trial) {
  using execute::to_string;
  return {to_string(trial.problem),
          use.step_tasks,
          use.evaluation_tasks,
          trial.candidates,
          to_string(trial.usual),
          brief(trial.usual),
          to_string(trial.chosen),
          brief(trial.chosen),
          trial.usual_seconds,
          trial.chosen_seconds,
          trial.gain};
}

struct Measured {
  std::vector<Tuned> products, attention;
  execute::GemmTuning table;
};

Measured measure(const train::ResolvedRun& run, const TuneOptions& options) {
  const std::vector<train::RunProduct> products = train::products_of_run(run);
  const std::vector<train::RunAttention> attention = train::attention_of_run(run);
  const std::int64_t all = std::ssize(products) + std::ssize(attention);
  std::int64_t done = 0;
  StatusLine line(!options.quiet && !options.json);
  const auto try_all = [&](const auto& uses, const auto& trial_of, auto& choices) {
    std::vector<Tuned> tuned;
    for (const auto& use : uses) {
      line.show({execute::to_string(use.problem), done, all});
      const auto trial = trial_of(use.problem);
      tuned.push_back(tuned_of(use, trial));
      choices.push_back({use.problem, trial.chosen});
      line.print(fmt::format("[{}/{}] {}", ++done, all, execute::to_string(trial)));
    }
    return tuned;
  };
  Measured measured;
  std::vector<execute::GemmChoice> of_products;
  std::vector<execute::AttentionChoice> of_attention;
  measured.products = try_all(products, train::gemm_trials(run.config, options.rounds, options.cold), of_products);
  if (!attention.empty()) {
    measured.attention =
        try_all(attention, train::attention_trials(run.config, options.rounds, options.cold), of_attention);
  }
  measured.table = execute::GemmTuning(std::move(of_products), std::nullopt, std::move(of_attention));
  return measured;
}

/// `what`: "product" or "attention".
study::Columns<Tuned> columns_of(const std::string& what) {
  const auto in_ms = [](double ms) { return fmt::format("{:.3f}", ms); };
  study::Columns<Tuned> columns;
  columns.add("candidates", [](const Tuned& t) { return t.candidates; });
  columns.add(what, [](const Tuned& t) { return t.problem; }, {.head = what, .words = true});
  columns.add("tasks", [](const Tuned& t) { return t.step_tasks; }, {.head = "step", .rank = 2});
  columns.add("evaluation_tasks", [](const Tuned& t) { return t.evaluation_tasks; }, {.head = "eval", .rank = 2});
  columns.add("default", [](const Tuned& t) { return t.usual; })
      .shown({.head = "default", .words = true, .least = 8, .rank = 1}, [](const Tuned& t) { return t.usual_brief; });
  columns.add(
      "default_ms", [](const Tuned& t) { return 1e3 * t.usual_seconds; }, {.head = "ms"}, in_ms);
  columns.add("chosen", [](const Tuned& t) { return t.chosen; })
      .shown({.head = "chosen", .words = true, .least = 8},
             [](const Tuned& t) { return t.chosen == t.usual ? "=" : t.chosen_brief; });
  columns.add(
      "chosen_ms", [](const Tuned& t) { return 1e3 * t.chosen_seconds; }, {.head = "ms"}, in_ms);
  columns.add(
      "gain", [](const Tuned& t) { return t.gain; }, {.head = "gain"},
      [](double gain) { return fmt::format("{:.2f}", gain); });
  return columns;
}

/// Milliseconds of all that is tuned in a training step, or in an evaluation.
struct Totals {
  double usual = 0, chosen = 0;

  Totals(const Measured& measured, std::int64_t Tuned::*tasks) {
    for (const std::vector<Tuned>* all : {&measured.products, &measured.attention}) {
      for (const Tuned& tuned : *all) {
        usual += 1e3 * tuned.usual_seconds * static_cast<double>(tuned.*tasks);
        chosen += 1e3 * tuned.chosen_seconds * static_cast<double>(tuned.*tasks);
      }
    }
  }
  JsonObject json() const { return JsonObject().add("chosen_ms", chosen).add("default_ms", usual); }
  std::string text() const { return fmt::format("{:.1f} ms by default, {:.1f} ms as chosen", usual, chosen); }
};

void print_measured(const Measured& measured, const execute::TunedGemms& tuned, const TuneOptions& options,
                    double seconds) {
  const Totals step(measured, &Tuned::step_tasks), evaluation(measured, &Tuned::evaluation_tasks);
  StyledText text;
  const auto add = [&](const std::string& what, const std::vector<Tuned>& all, std::string_view name) {
    const auto changed = std::ranges::count_if(all, [](const Tuned& t) { return t.chosen != t.usual; });
    text.add(table_text(columns_of(what).table(all), output_width()));
    text.add(fmt::format("{} of {} {} get another method\n", changed, all.size(), name));
  };
  add("product", measured.products, "products");
  if (!measured.attention.empty()) add("attention", measured.attention, "attention kernels");
  text.add(fmt::format("a training step's take {}; an evaluation's {}\n", step.text(), evaluation.text()));
  text.add(fmt::format("measured in {:.0f} s; use it with --gemm-tuning {}\n", seconds, options.output));
  print_result(options.json,
               JsonObject()
                   .add("attention", columns_of("attention").json(measured.attention))
                   .add("attention_library", tuned.machine.of_attention)
                   .add("evaluation", evaluation.json())
                   .add("file", options.output)
                   .add("fingerprint", fmt::format("{:016x}", tuned.table.fingerprint()))
                   .add("isa", tuned.machine.isa)
                   .add("library", tuned.machine.library)
                   .add("products", columns_of("product").json(measured.products))
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
      const Measured measured = measure(run, options);
      const execute::TunedGemms tuned{train::tuning_machine(config), static_cast<int>(config.threads), measured.table};
      write_durable(options.output, weft::execute::to_json(tuned), Named::by_person);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      print_measured(measured, tuned, options, seconds);
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
      "On a GPU cuDNN's engines for attention are timed, too. A method replaces the default only where it is more than "
      "3 % faster, and is so again when measured once more. A "
      "method that ends with nn, nt or tn first copies operands transposed: the library sees that layout.";
  command.examples = {
      {"weft tune --model gpt2-124m --global-batch 4 --seq-len 256 -o gpt2.json"},
      {"weft train --model gpt2-124m --data tokens.bin --global-batch 4 --seq-len 256 --gemm-tuning gpt2.json"},
      {"weft tune run.toml -o tuned.json --json"},
      {"weft tune run.toml --device cuda -o h100.json"},
      {"weft tune run.toml --device cuda --dtype bf16 --attention-gradient fastest", "attention of any bits, too"},
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
