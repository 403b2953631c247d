// `weft explain`: why collectives of a step are exposed, what would hide them, and what the step's length comes from.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "runtime/cost/machine_numbers.h"
#include "runtime/plan/plan_file.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/explanation_output.h"
#include "tools/input/config_options.h"
#include "tools/input/step_input.h"

namespace weft::tools {
namespace {

struct ExplainCommand : StepSource {
  simulate::ExplainOptions options;
  std::string apply, output;
  int pipe_rank = -1;  // of a pipeline: whose collectives are explained; below 0: bubbles are
  bool all = false;    // print every group, not the verdict alone
  bool json = false;
};

/// "1,3": the numbers of remedies.
std::vector<int> remedy_numbers(const std::string& text) {
  std::vector<int> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(static_cast<int>(
        parse_number<std::int64_t>(std::string_view(text).substr(begin, end - begin), "--apply", 1, 1'000'000)));
    begin = end + 1;
  }
  return numbers;
}

/// Of a step that has settings to change, which only a configuration has. Of a pipeline's rank, none are tried.
std::vector<study::Change> settings_of(StepReader& reader, const study::PolicyStep& step) {
  return study::other_settings(step, [&](train::ResolvedRun run) {
    study::PolicyStep other = reader.step_of(std::move(run));
    plan_step(other);
    return other;
  });
}

/// Of a step as it was recorded, what it is bound by is told by its replay, beside the moves that were found.
void judge_recorded(const StepReader& reader, const study::PolicyStep& step, study::Verdict& verdict) {
  if (reader.open() == nullptr) return;
  const std::optional<inspect::StepVerdict> judged = reader.open()->verdict(step.report);
  if (!judged) return;
  if (verdict.by == study::BoundBy::order) {
    verdict.facts = {fmt::format("another order gains at most {:.3f} ms", verdict.busy_ns * 1e-6)};
  }
  verdict.by = study::find_bound(judged->bound_by).value_or(verdict.by);
  verdict.text = judged->text;
  verdict.facts.insert(verdict.facts.begin(), judged->waits.begin(), judged->waits.end());
  if (!judged->off.empty()) verdict.facts.push_back(judged->off);
  std::vector<study::Change> changes;
  for (const inspect::StepRemedy& remedy : judged->remedies)
    changes.push_back({remedy.what, remedy.gain_ns, remedy.flag});
  study::add_changes(verdict, std::move(changes));
}

int explain_bubbles(const ExplainCommand& command, StepReader& reader, const study::PolicyStep& step) {
  if (!command.apply.empty() || !command.output.empty() || !command.options.only.empty()) {
    throw UserError("--apply, -o or --collective with a grid of pipeline stages",
                    "the stage whose collectives are meant: without one, bubbles are explained", "add --pipe-rank 0");
  }
  const auto most = static_cast<std::size_t>(command.options.most_remedied);
  study::Verdict verdict = bubble_verdict(step, settings_of(reader, step));
  judge_recorded(reader, step, verdict);
  return print_result(command.json, bubble_json(step, most, verdict), bubble_text(step, most, verdict, output_width()));
}

int explain_step(const ExplainCommand& command) {
  StepReader reader(command);
  study::PolicyStep planned = reader.step();
  const simulate::Problem& problem = planned.problem;
  const bool bubbles = problem.classes.size() > 1 && command.pipe_rank < 0;
  std::vector<int> numbers;
  if (!command.apply.empty() && !bubbles) numbers = remedy_numbers(command.apply);
  if (!command.output.empty() && !bubbles) {
    if (numbers.empty()) {
      throw UserError("-o without --apply", "the numbers of the remedies that the plan gets",
                      "add --apply 1, or leave -o out");
    }
    expect_writable(command.output);
  }
  const auto of_class = static_cast<std::size_t>(std::max(0, command.pipe_rank));
  if (of_class >= problem.classes.size()) {
    throw UserError(fmt::format("--pipe-rank {} of a step of {} stages", of_class, problem.classes.size()),
                    fmt::format("from 0 to {}", problem.classes.size() - 1), "choose one of them, or leave it out");
  }
  plan_step(planned);
  const simulate::Report& report = planned.report;
  if (!report.planned()) throw UserError(report.refusal, "", "");
  simulate::prove_windows(problem, {&planned.report, 1});
  if (bubbles) return explain_bubbles(command, reader, planned);
  const simulate::Explanation explanation = simulate::explain(problem, report, command.options, of_class);
  ExplainedStep step{report, explanation, of_class, command.options.only};
  std::vector<study::Change> settings;
  if (!numbers.empty()) {
    step.applied = simulate::apply_remedies(problem, report, explanation, numbers, of_class);
  } else if (command.options.only.empty() && planned.run && problem.classes.size() == 1) {
    settings = settings_of(reader, planned);
    const auto halved = std::ranges::find_if(
        settings, [](const study::Change& change) { return change.what.starts_with("--micro-batch "); });
    if (halved != settings.end()) step.halved = HalvedBatch{planned.run->config.micro_batch / 2, halved->gain_ns};
  }
  step.verdict = study::verdict_of(report, of_class, explanation, std::move(settings));
  judge_recorded(reader, planned, step.verdict);
  step.whole = command.all || !numbers.empty() || !command.options.only.empty();
  if (!command.output.empty()) {
    write_durable(command.output, plan::to_json(step.applied->file), Named::by_person);
    step.output = command.output;
  }
  step.summation_note = planned.note;
  const bool by_machine = planned.run ? planned.run->profile == nullptr : reader.open()->has_machine;
  if (by_machine) step.unsure = cost::unsure_numbers(problem.machine);
  return print_result(command.json, explanation_json(step), explanation_text(step, output_width()));
}

}  // namespace

Command describe_explain() {
  Command command{"explain", "why collectives are exposed, and what would hide them"};
  const auto options = std::make_shared<ExplainCommand>();
  options->options.most_remedied = 12;  // as many as have a paragraph
  command.add(word_option("--collective", &options->options.only, "NAME",
                          "explain this one alone, or this group: mb*.L*.mlp.up.fwd.all_gather_w"));
  command.add(number_option("--pipe-rank", &options->pipe_rank,
                            "of a pipeline: explain this rank's collectives; without it, the ranks' bubbles", 0,
                            1000000));
  command.add(number_option("--most", &options->options.most_remedied,
                            "groups of collectives whose remedies are simulated, the most exposed first; 0: none", 0));
  command.add(
      word_option("--apply", &options->apply, "NUMBERS",
                  "simulate the plan with these remedies, by the numbers that are printed with the same options"));
  command.add(output_option(options->output, "FILE.json",
                            "write that plan for --policy file:FILE, if its step is simulated to be shorter"));
  command.add(scale_option(options->scales));
  command.add({.names = "--all",
               .target = &options->all,
               .help = "print every group with its cause and remedies, not the verdict alone; --apply and --collective "
                       "do too"});
  command.add({.names = "--json", .target = &options->json, .help = "print as JSON"});
  const ConfigOptions config(command);
  command.description =
      "First what the step is bound by, and the three changes that shorten it most: remedies and other settings.\n"
      "Collectives that differ in layer and micro-batch alone are a group. A remedy is applied to all of a group at\n"
      "once; its gain is what the whole step gets shorter by, simulated, within the memory that a plan may take.\n"
      "Remedies with a number can be applied.";
  command.examples = {{"weft explain --model gpt2-124m --grid y=2,data=2 --machine dgx-h100 --policy axonn"},
                      {"weft explain run.toml --policy program --profile slow.json --all"},
                      {"weft explain run.toml --collective mb0.L3.mlp.up.bwd.all_reduce_dx --json"},
                      {"weft explain run.toml --collective 'mb*.L*.mlp.up.bwd.all_reduce_dx'", "all layers at once"},
                      {"weft explain run.toml --apply 1,3 -o plan.json; weft train run.toml --policy file:plan.json",
                       "trains with the first and the third remedy"},
                      {"weft explain pipeline.toml --pipe-rank 1 --apply 1 -o plan.json",
                       "of a pipeline: what would hide the second rank's collectives"}};
  command.run = [options, config] { return config.on_step(*options, [&] { return explain_step(*options); }); };
  return command;
}

}  // namespace weft::tools
