#include "study/memorisation/memorisation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "runtime/comm/launch.h"
#include "study/jobs.h"
#include "study/memorisation/question_model.h"
#include "train/config/resolved_run.h"
#include "train/trainer.h"

namespace weft::study {
namespace {

namespace fs = std::filesystem;

constexpr std::array kModels = {StudyModel{"1m", 4, 128, 4, 352},    StudyModel{"2m", 5, 160, 5, 448},
                                StudyModel{"3m", 6, 192, 6, 512},    StudyModel{"5m", 6, 256, 8, 672},
                                StudyModel{"10m", 8, 320, 10, 864},  StudyModel{"25m", 8, 512, 8, 1376},
                                StudyModel{"50m", 12, 576, 9, 1536}, StudyModel{"100m", 12, 832, 13, 2208}};
constexpr const char* kOrigin = "weft study memorisation";  // of settings, in messages
constexpr const char *kTrainFile = "train.bin", *kHeldOutFile = "held-out.bin", *kRunFolder = "run";
// Keys that the study decides.
constexpr std::array<std::string_view, 12> kOwnKeys = {"model",   "data",   "val-data", "tokenizer",
                                                       "run-dir", "epochs", "steps",    "packing",
                                                       "seq-len", "seed",   "resume",   "init-from"};

const StudyModel& model_named(std::string_view name) {
  const auto found = std::ranges::find(kModels, name, &StudyModel::name);
  if (found != kModels.end()) return *found;
  std::vector<std::string> names;
  for (const StudyModel& model : kModels) names.emplace_back(model.name);
  throw UserError(fmt::format("model {}", in_quotes(name)), join(names), "--models 1m 5m");
}

/// Steps of one pass over the documents.
std::int64_t steps_of(const MemorisationStudy& study) {
  DocumentCounts counts = study.counts;
  counts.background = background_of(study);
  return counts.trained() / study.batch;
}

/// The part of the targets that Goldfish loss learns.
double learnt_part(const train::Goldfish& goldfish) {
  return 1 - 1 / static_cast<double>(goldfish.k);
}

/// What a training costs, as a share of others'.
std::int64_t weight_of(const MemorisationStudy& study, const StudyRun& run) {
  const StudyModel& model = model_named(run.model);
  const auto hidden = static_cast<double>(model.hidden);
  const double layer = 4 * hidden * hidden + 3 * hidden * static_cast<double>(model.ffn);
  const double parameters =
      static_cast<double>(model.layers) * layer + hidden * static_cast<double>(study.text.vocabulary);
  return std::llround(parameters * (run.loss == StudyLoss::standard_short ? learnt_part(study.goldfish) : 1));
}

std::string name_of(const StudyRun& run) {
  return fmt::format("{} {} seed {}", run.model, to_string(run.loss), run.seed);
}

/// A folder that is removed with its content.
class ScratchFolder {
 public:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::vector<QuestionBucket> write_documents(const MemorisationStudy& study, const StudyTexts& texts, std::uint64_t seed,
                                            const fs::path& folder) {
  DocumentCounts counts = study.counts;
  counts.background = background_of(study);
  const DrawnDocuments drawn = draw_documents(counts, texts.documents(), seed);
  texts.write(folder / kTrainFile, drawn.training());
  texts.write(folder / kHeldOutFile, drawn.held_out);
  std::vector<QuestionBucket> buckets;
  for (const auto& [seen, documents] : drawn.buckets) {
    QuestionBucket& bucket = buckets.emplace_back();
    bucket.seen = seen;
    bucket.file = folder / fmt::format("seen-{}.bin", seen);
    texts.write(bucket.file, documents);
    for (const std::size_t index : documents) bucket.documents.push_back(texts.document(index));
  }
  return buckets;
}

/// Runs on ranks that are threads. Throws RuntimeFault with their report if they fail.
void run_here(std::int64_t ranks, const comm::RankBody& body) {
  std::ostringstream errors;
  if (comm::run_ranks(static_cast<int>(ranks), body, errors) != 0) throw RuntimeFault(errors.str());
}

/// nullopt: a signal stopped it.
std::optional<StudyResult> train_and_question(const MemorisationStudy& study, const StudyTexts& texts,
                                              const StudyRun& run, const fs::path& folder) {
  const ScratchFolder scratch(folder);
  const std::vector<QuestionBucket> buckets = write_documents(study, texts, run.seed, scratch.path());
  const train::ResolvedRun resolved = train::resolve(training_config(study, run, texts.tokenizer(), scratch.path()), 0);
  train::TrainResult trained;
  run_here(resolved.config.grid.ranks(), [&](comm::World& world) {
    train::Trainer trainer(world, resolved, train::Trainer::Console::silent);
    train::TrainResult result = trainer.run();
    if (world.rank() == 0) trained = std::move(result);
    return 0;
  });
  if (trained.stopped_by_signal || !trained.val_loss) return std::nullopt;
  StudyResult result{.run = run,
                     .parameters = resolved.config.model.parameters(),
                     .steps = trained.steps_done,
                     .held_out_loss = *trained.val_loss,
                     .seconds = trained.seconds,
                     .buckets = {}};
  if (run.loss == StudyLoss::standard_short) return result;
  run_here(1, [&](comm::World& world) {
    result.buckets = question_model(world, resolved.config, buckets, study.tail);
    return 0;
  });
  return result;
}

void expect(bool holds, const std::string& found, const std::string& expected, const std::string& fix) {
  if (!holds) throw UserError(found, expected, fix);
}

}  // namespace

std::span<const StudyModel> study_models() {
  return kModels;
}

double study_learning_rate(const StudyModel& model) {
  return 4e-3 * 128 / static_cast<double>(model.hidden);
}

std::string_view to_string(StudyLoss loss) {
  constexpr std::array<std::string_view, 3> kNames = {"standard", "goldfish", "standard-short"};
  return kNames[static_cast<std::size_t>(loss)];
}

void check_memorisation(const MemorisationStudy& study) {
  for (const std::string& name : study.models) model_named(name);
  const std::set<std::string> models(study.models.begin(), study.models.end());
  expect(models.size() == study.models.size(), "a model that comes twice in --models", "each once", "leave one out");
  const std::set<int> seen(study.counts.seen.begin(), study.counts.seen.end());
  expect(seen.size() == study.counts.seen.size(), "a number that comes twice in --seen", "each once", "leave one out");
  expect(seen.contains(0), "--seen without 0", "0 among them: the documents that are compared with",
         "--seen 0 1 4 16 64");
  expect(
      study.tail < study.text.length, fmt::format("--tail {} of documents of {} tokens", study.tail, study.text.length),
      "a shorter end than the document, which the beginning is to call up", "a smaller --tail, or a greater --length");
  expect(!study.goldfish.reads_context() || study.goldfish.h < study.text.length - study.tail + 1,
         fmt::format("contexts of h = {} tokens, and the end of a document begins after {}", study.goldfish.h,
                     study.text.length - study.tail),
         "contexts that aren't longer, since the first h − 1 tokens of a document are always learnt",
         "a smaller h in --goldfish, or a smaller --tail");
  for (const train::Setting& setting : study.settings) {
    const bool own = setting.key.starts_with("model.") || std::ranges::find(kOwnKeys, setting.key) != kOwnKeys.end();
    expect(!own, fmt::format("--set {}", setting.key), "a key that the study doesn't decide",
           "leave it out; `weft study memorisation --help` has the study's own flags");
  }
  expect(background_of(study) >= 0,
         fmt::format("{} background documents in steps of {}", study.counts.background, study.batch),
         "enough to fill the last step", "a greater --background");
}

void expect_enough(const MemorisationStudy& study, const StudyTexts& texts) {
  const auto needed = static_cast<std::size_t>(study.counts.all());
  expect(texts.documents() >= needed,
         fmt::format("texts of {} documents of {} tokens", texts.documents(), study.text.length),
         fmt::format("{}: {} buckets of {}, {} of background and {} held out", needed, study.counts.seen.size(),
                     study.counts.documents, study.counts.background, study.counts.held_out),
         "more --data, or a smaller --background");
}

std::int64_t background_of(const MemorisationStudy& study) {
  return study.counts.background - study.counts.trained() % study.batch;
}

std::vector<StudyRun> study_runs(const MemorisationStudy& study) {
  std::vector<StudyRun> runs;
  for (std::int64_t i = 0; i < study.seeds; ++i) {
    for (const std::string& model : study.models) {
      for (const StudyLoss loss : {StudyLoss::standard, StudyLoss::goldfish, StudyLoss::standard_short}) {
        runs.push_back({model, loss, study.seed + static_cast<std::uint64_t>(i)});
      }
    }
  }
  return runs;
}

train::RunConfig training_config(const MemorisationStudy& study, const StudyRun& run, const text::Tokenizer& tokenizer,
                                 const fs::path& folder) {
  const StudyModel& model = model_named(run.model);
  const std::int64_t all = steps_of(study);
  const bool is_short = run.loss == StudyLoss::standard_short;
  const auto part = static_cast<std::int64_t>(std::llround(static_cast<double>(all) * learnt_part(study.goldfish)));
  const std::int64_t steps = std::max<std::int64_t>(1, is_short ? part : all);
  const double lr = study.lr > 0 ? study.lr : study_learning_rate(model);
  std::vector<train::Setting> settings;
  const auto set = [&](const char* key, const auto& value) {
    settings.push_back({key, fmt::format("{}", value), kOrigin});
  };
  set("model", "llama-tiny");
  set("model.layers", model.layers);
  set("model.hidden", model.hidden);
  set("model.heads", model.heads);
  set("model.kv-heads", model.heads);
  set("model.ffn", model.ffn);
  set("model.vocab", tokenizer.vocabulary());
  set("model.context", study.text.length);
  set("model.tied", true);
  set("data", (folder / kTrainFile).string());
  set("val-data", (folder / kHeldOutFile).string());
  set("packing", "documents");
  set("seq-len", study.text.length);
  set("global-batch", study.batch);
  set("steps", steps);
  set("warmup", std::max<std::int64_t>(1, steps / 20));
  set("lr", lr);
  set("min-lr", lr / 10);
  set("seed", run.seed);
  set("threads", study.threads);
  set("trace-steps", 0);
  set("run-dir", (folder / kRunFolder).string());
  if (run.loss == StudyLoss::goldfish) set("goldfish", train::to_text(study.goldfish));
  train::RunConfig config;
  train::apply_settings(config, std::move(settings));
  train::apply_settings(config, study.settings);
  return config;
}

std::vector<StudyResult> run_memorisation(const MemorisationStudy& study, const StudyTexts& texts,
                                          std::span<const StudyResult> known, const fs::path& folder,
                                          const KeepResult& keep, const TellStatus& tell) {
  const std::vector<StudyRun> runs = study_runs(study);
  std::vector<std::optional<StudyResult>> found(runs.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto same = std::ranges::find(known, runs[i], &StudyResult::run);
    if (same != known.end()) found[i] = *same;
    if (same == known.end()) missing.push_back(i);
  }
  const auto name = [&](std::size_t job) { return name_of(runs[missing[job]]); };
  const auto weight = [&](std::size_t job) { return weight_of(study, runs[missing[job]]); };
  const auto work = [&](std::size_t job) -> Keep {
    const std::size_t i = missing[job];
    const auto result = train_and_question(study, texts, runs[i], folder / fmt::format("training-{}", i));
    if (!result) return nullptr;
    return [&found, &keep, i, result] {
      keep(*result);
      found[i] = result;
    };
  };
  do_jobs({missing.size(), name, weight}, study.jobs, work, tell);
  std::vector<StudyResult> results;
  for (std::optional<StudyResult>& result : found) {
    if (result) results.push_back(std::move(*result));
  }
  return results;
}

}  // namespace weft::study
