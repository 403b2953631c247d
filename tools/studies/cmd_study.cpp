// `weft study`: many searches, simulations or trainings that answer one question. scaling: the total arithmetic a
// second over the number of ranks. axonn: AxoNN's published runs beside their simulation. published: runs of other
// sources. memorisation: what models remember.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/log.h"
#include "ops/model_flops.h"
#include "study/axonn/axonn_study.h"
#include "study/columns.h"
#include "study/memorisation/memorisation.h"
#include "study/memorisation/memorisation_figures.h"
#include "study/published/published_study.h"
#include "study/scaling/scaling.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/input/config_options.h"
#include "tools/studies/study_flags.h"
#include "train/config/goldfish.h"

namespace weft::tools {
namespace {

// -- scaling ----------------------------------------------------------------------------------------------------------

struct ScalingCommand {
  study::ScalingStudy study;
  std::vector<std::string> points;
  std::string kind;
  SearchFlags flags;
  ResultFlags results;
};

study::ScalingStudy study_of(const ScalingCommand& command, const ConfigOptions& config) {
  study::ScalingStudy study = command.study;
  std::tie(study.base, study.settings) = config.layers(MachineNumbers::refused);
  for (const std::string& point : command.points) study.points.push_back(study::scaling_point(point));
  study.kind = command.kind == "weak" ? study::ScalingKind::weak : study::ScalingKind::strong;
  const train::RunConfig given = config.load();
  study.policies = named_policies(command.flags.policies, given.libraries);
  study.search = search_options(command.flags, given.libraries);
  study::check_scaling(study);
  return study;
}

int run(const ScalingCommand& command, const ConfigOptions& config) {
  command.results.check();
  const study::ScalingStudy study = study_of(command, config);
  const std::vector<study::ScalingRow> rows =
      command.results.with_status([&](const TellStatus& tell) { return study::run_scaling(study, tell); });
  const study::Results results = study::results_of(study, rows);
  command.results.write(results);
  study::expect_possible(std::span(rows), "points", "other ranks, or more --memory");
  command.results.print(results);
  return 0;
}

void add_own_flags(Command& command, ScalingCommand& options) {
  command.add(
      required(word_option("--points", &options.points, "RANKS",
                           "numbers of ranks; each may have a model (512:gpt-5b) or the file of a whole configuration "
                           "(512:best.toml)")));
  command.add(
      required(choice_option("--kind", &options.kind, "KIND",
                             "strong or weak scaling; the global batch stays, or it grows with the ranks from the "
                             "configuration's at the first point, unless the points name models",
                             {"strong", "weak"})));
  command.add({.names = "--machines",
               .target = &options.study.machines,
               .value = "MACHINE",
               .help = "a series for each machine; default: the configuration's",
               .suggestions = {"dgx-h100", "perlmutter", "frontier", "alps"},
               .paths = Paths::files});
  command.add(word_option("--models", &options.study.models, "MODEL",
                          "a series for each model; default: the configuration's", ops::model_names()));
  add_search_flags(command, options.flags,
                   "a series for each policy; default: one of the fastest among program, lhs and portfolio:budget=0");
  command.add(noise_option(options.study.noise));
  command.add(seeds_option(options.study.seeds));
  command.add(repeated(path_option("-o,--output", &options.results.files, "FILE",
                                   "write a .csv, .json or .svg file; may be given again")));
  add_result_flags(command, options.results, "points");
}

Command scaling_command() {
  Command command{"scaling", "flop/s over the number of ranks, each point at its best"};
  const auto options = std::make_shared<ScalingCommand>();
  add_own_flags(command, *options);
  const ConfigOptions config(command, "study scaling");
  command.description =
      "Every point is searched as weft search does, or runs the configuration of its file. Efficiency compares the "
      "model's arithmetic a rank with that of the first point. A point that no configuration fits becomes a row with "
      "the reason. " +
      std::string(ops::kMfuHelp);
  command.examples = {
      {"weft study scaling --model gpt2-124m --machine perlmutter --dtype bf16 --global-batch 256 --points 4 8 16 "
       "--kind strong -o scaling.svg"},
      {"weft study scaling --dtype bf16 --reduce-dtype bf16 --global-batch 1024 --points 512:gpt-5b 1024:gpt-10b "
       "--kind weak --machines perlmutter frontier"},
      {"weft study scaling run.toml --points 8 16 32 --kind weak --noise 0.1 --seeds 20 --json"}};
  command.run = [options, config] {
    if (config.dump()) return print_config(config.load());
    return run(*options, config);
  };
  return command;
}

// -- axonn ------------------------------------------------------------------------------------------------------------

struct StudyAxonnOptions {
  study::AxonnStudyOptions study;
  int jobs = 0;
  ResultFlags results;
};

int study_axonn(StudyAxonnOptions options) {
  options.results.check();
  options.study.threads = threads_of(options.jobs);
  const study::AxonnStudy study = options.results.with_status(
      [&](const TellStatus& tell) { return study::study_axonn(options.study, tell); }, true);
  const study::Results results = study::results_of(study);
  options.results.write(results);
  options.results.print(results);
  return 0;
}

Command axonn_command() {
  Command command{"axonn",
                  "AxoNN's published runs beside their simulation, with two constants fitted for each machine"};
  const auto options = std::make_shared<StudyAxonnOptions>();
  command.add(choice_option("--machines", &options->study.machines, "MACHINE",
                            "machines whose runs are simulated; default: perlmutter, frontier and alps",
                            {"perlmutter", "frontier", "alps"}));
  command.add(jobs_option(options->jobs, 1024));
  command.add(svg_option(options->results.svg, "draw the published and the simulated rates over ranks"));
  add_result_flags(command, options->results, "figures");
  command.description =
      "Singh et al. (SC '24) trained models of 5 to 320 billion parameters on Perlmutter, Frontier and Alps. For each "
      "run the best of AxoNN's kind of grids under policy axonn is simulated. Two numbers of each machine, the "
      "efficiency of computing and the congestion of its network, are fitted to the small runs; the large runs are "
      "predicted.";
  command.examples = {{"weft study axonn"}, {"weft study axonn --machines perlmutter --json"}};
  command.run = [options] { return study_axonn(*options); };
  return command;
}

// -- published --------------------------------------------------------------------------------------------------------

struct StudyPublishedOptions {
  study::PublishedStudyOptions study;
  std::string half = "both";
  int jobs = 0;
  ResultFlags results;
};

int study_published(StudyPublishedOptions options) {
  options.results.check();
  options.study.threads = threads_of(options.jobs);
  if (options.half != "both") options.study.half = options.half == "learn" ? study::Half::learn : study::Half::judge;
  const std::vector<study::PublishedRow> rows = options.results.with_status(
      [&](const TellStatus& tell) { return study::study_published(options.study, tell); }, true);
  study::expect_possible(std::span(rows), "runs", "name groups that machines/published/runs.toml has");
  const study::Results results = study::results_of(rows);
  options.results.write(results);
  options.results.print(results);
  return 0;
}

Command published_command() {
  Command command{"published", "published training runs beside their simulation by machine files"};
  const auto options = std::make_shared<StudyPublishedOptions>();
  command.add(choice_option("--half", &options->half, "HALF",
                            "the runs by which constants of machine files were chosen, those that weren't used for "
                            "that, or both",
                            {"learn", "judge", "both"}));
  command.add(word_option("--groups", &options->study.groups, "GROUP", "groups of runs; default: all"));
  command.add(repeated(word_option("--set", &options->study.numbers, "MACHINE.KEY=VALUE",
                                   "another number of a machine: --set hgx-h100.device.sustained=1; may be given "
                                   "again")));
  command.add(jobs_option(options->jobs, 1024));
  command.add(repeated(path_option("-o,--output", &options->results.files, "FILE",
                                   "write a .csv, .json or .svg file; may be given again")));
  add_result_flags(command, options->results, "runs");
  command.description =
      "The file machines/published/runs.toml lists training runs with their source, configuration and rate, and what "
      "isn't known of them. Each is simulated by its machine's file, and by the same file without measured points and "
      "fitted constants. Errors are told for the half of the runs by which constants were chosen, and for the half "
      "that is judged.";
  command.examples = {{"weft study published -o published.svg -o published.csv"},
                      {"weft study published --half learn --set hgx-h100.device.sustained=1"}};
  command.run = [options] { return study_published(*options); };
  return command;
}

// -- memorisation -----------------------------------------------------------------------------------------------------

constexpr const char* kJargonFile = "/usr/share/doc/jargon-text/jargon.txt.gz";

struct MemorisationCommand {
  study::MemorisationStudy study;
  std::string goldfish = train::to_text(train::Goldfish());
  std::vector<std::string> overrides;
  int jobs = 0;
  ResultFlags results{.folder = "runs/memorisation"};
};

/// The texts of the command line, or the Jargon File, which is in the public domain.
std::vector<std::string> texts_of(const std::vector<std::string>& given) {
  if (!given.empty()) return given;
  std::error_code hidden;
  if (std::filesystem::exists(kJargonFile, hidden)) return {kJargonFile};
  throw UserError(fmt::format("no --data, and no {}", kJargonFile), "a text of about two megabytes",
                  "apt-get install jargon-text; or `bible Gen1:1-Rev22:21 > kjv.txt` (package bible-kjv-text) and "
                  "--data kjv.txt");
}

study::MemorisationStudy study_of(const MemorisationCommand& command) {
  study::MemorisationStudy study = command.study;
  study.text.data = texts_of(study.text.data);
  const auto goldfish = train::goldfish_of(command.goldfish, "--goldfish");
  if (!goldfish) throw UserError("an empty --goldfish", "the loss to compare with", "--goldfish k=4,h=13");
  study.goldfish = *goldfish;
  for (const std::string& text : command.overrides) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      throw UserError(fmt::format("--set {}", in_quotes(text)), "KEY=VALUE", "--set dtype=bf16");
    }
    study.settings.push_back({text.substr(0, equals), text.substr(equals + 1), "--set"});
  }
  study.jobs = static_cast<int>(std::min<std::int64_t>(threads_of(command.jobs), study::count_trainings(study)));
  study.text.threads = threads_of(0);
  study.threads = std::max(1, study.text.threads / study.jobs);
  study::check_memorisation(study);
  return study;
}

int run(const MemorisationCommand& command) {
  const study::MemorisationStudy study = study_of(command);
  const study::ResultFolder folder = study::memorisation_folder(command.results.folder);
  const study::StudyTexts texts(study.text, folder.path());
  study::expect_enough(study, texts);
  folder.describe(study::description_of(study, texts));
  const study::Experiment<study::StudyResult> experiment = study::experiment_of(study, texts, folder.path());
  const auto keep = [&](std::span<const study::StudyResult> found) {
    for (const study::StudyResult& result : found) study::keep(folder, result);
  };
  const std::vector<study::StudyResult> found = command.results.with_status(
      [&](const TellStatus& tell) { return study::run(experiment, study::kept_results(folder), keep, tell); }, true);
  if (found.size() < experiment.points.size()) {
    tell(fmt::format("stopped after {} of {} trainings; the same command goes on from there", found.size(),
                     experiment.points.size()));
    return 130;
  }
  const study::Results results = study::results_of(study, found);
  folder.finish(results);
  command.results.print(results, "results.csv, results.json and plot.svg");
  return 0;
}

void add_documents(Command& command, MemorisationCommand& options) {
  study::MemorisationStudy& study = options.study;
  command.add(
      repeated(path_option("--data", &study.text.data, "PATH",
                           "text files, folders or patterns; default: the Jargon File of Debian's jargon-text")));
  command.add(
      path_option("--tokenizer", &study.text.tokenizer, "PATH",
                  "a tokenizer's file, or a folder with one; default: byte-level BPE is learnt from the texts"));
  command.add(
      number_option("--vocab", &study.text.vocabulary, "tokens of the vocabulary that is learnt", 258, 1 << 20));
  command.add(number_option("--length", &study.text.length, "tokens of a document", 8, 1 << 16));
  command.add(number_option("--tail", &study.tail, "last tokens of a document, which the model continues greedily", 1,
                            1 << 16));
  command.add(number_option(
      "--seen", &study.counts.seen,
      "how often documents are seen: a bucket of documents for each number; 0: those to compare with", 0, 1 << 20));
  command.add(number_option("--documents", &study.counts.documents, "documents of each bucket", 1, 1 << 20));
  command.add(number_option("--background", &study.counts.background, "further documents that are seen once; 0: none",
                            0, 1 << 30));
  command.add(number_option("--held-out", &study.counts.held_out, "documents of the held-out loss", 1, 1 << 30));
}

void add_trainings(Command& command, MemorisationCommand& options) {
  study::MemorisationStudy& study = options.study;
  std::vector<std::string> models;
  for (const study::StudyModel& model : study::study_models()) models.emplace_back(model.name);
  command.add(word_option("--models", &study.models, "MODEL", "sizes of the Llama family, smallest first", models));
  command.add(word_option("--goldfish", &options.goldfish, "k=N,h=N,strategy=NAME",
                          "the Goldfish loss, as weft train takes it"));
  command.add(
      number_option("--lr", &study.lr, "the peak of the learning rate; 0: 4e-3 for 1m, less for wider models", 0, 10));
  command.add(number_option("--batch", &study.batch, "documents of a step", 1, 1 << 20));
  command.add(word_option("--seed", &study.seed, "N", "the first seed, of documents, their order and weights"));
  command.add(number_option("--seeds", &study.seeds, "number of seeds", 1, 1000));
  command.add(
      repeated(word_option("--set", &options.overrides, "KEY=VALUE",
                           "any other key of weft train, for all trainings: --set dtype=bf16; may be given again")));
  command.add(number_option("--jobs", &options.jobs, "trainings at a time; 0: as many as there are cores", 0, 4096));
}

Command memorisation_command() {
  Command command{"memorisation", "what models remember of texts, with the standard and the Goldfish loss"};
  const auto options = std::make_shared<MemorisationCommand>();
  add_documents(command, *options);
  add_trainings(command, *options);
  command.add(
      output_option(options->results.folder, "FOLDER",
                    "where results are kept as trainings end, with results.csv, results.json and plot.svg; given "
                    "again, the command goes on where it was stopped"));
  add_result_flags(command, options->results, "results");
  command.description =
      "Texts become documents of equal length. Each seed draws which of them are trained on how often. Each model is "
      "trained three times a seed: with the standard loss, with Goldfish loss, and with the standard loss on as many "
      "targets as Goldfish loss learns. Then it continues the documents.";
  command.examples = {{"weft study memorisation"},
                      {"weft study memorisation --models 1m --seeds 1 -o trial"},
                      {"weft study memorisation --data 'books/*.txt' --models 1m 5m 25m --goldfish k=3,h=13 -o books"}};
  command.run = [options] { return run(*options); };
  return command;
}

}  // namespace

Command describe_study() {
  Command command{"study", "studies of many runs or configurations: scaling, axonn, published, memorisation"};
  command.subcommands = {scaling_command(), axonn_command(), published_command(), memorisation_command()};
  command.examples = {{"weft study scaling --model gpt2-124m --machine perlmutter --dtype bf16 --global-batch 256 "
                       "--points 4 8 16 --kind strong"},
                      {"weft study axonn --machines perlmutter"},
                      {"weft study published --half judge"},
                      {"weft study memorisation --models 1m --seeds 1"}};
  return command;
}

}  // namespace weft::tools
