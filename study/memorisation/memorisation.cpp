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
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/hash.h"
#include "ops/lower.h"
#include "ops/sharding.h"
#include "runtime/comm/launch.h"
#include "runtime/execute/program/program.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/config/resolved_run.h"
#include "train/data/token_source.h"
#include "train/evaluation.h"
#include "train/generator.h"
#include "train/step/step_config.h"
#include "train/step/step_data.h"
#include "train/step/training_state.h"
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
constexpr std::array<std::string_view, 13> kOwnKeys = {"model",  "data",      "val-data", "tokenizer", "run-dir",
                                                       "epochs", "steps",     "packing",  "seq-len",   "seed",
                                                       "resume", "init-from", "adapter"};

const StudyModel& model_named(std::string_view name) {
  const auto found = std::ranges::find(kModels, name, &StudyModel::name);
  if (found != kModels.end()) return *found;
  std::vector<std::string> names;
  for (const StudyModel& model : kModels) names.emplace_back(model.name);
  throw UserError(fmt::format("model {}", in_quotes(name)), join(names), "--models 1m 5m");
}

/// Background documents of each training: the study's, less those that would not fill the last step.
std::int64_t background_of(const MemorisationStudy& study) {
  return study.counts.background - study.counts.trained() % study.batch;
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

/// The documents that a training sees equally often, as texts and as a token file.
struct QuestionBucket {
  std::int64_t seen = 0;
  std::vector<DocumentIds> documents;
  fs::path file;
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

double loss_on(execute::Program& program, const train::RunConfig& config, const std::filesystem::path& file) {
  const train::TokenSource source = train::TokenSource::open({.data = {file.string()},
                                                              .val_data = {file.string()},
                                                              .vocab = config.model.vocab,
                                                              .seq_len = config.seq_len,
                                                              .held_out_only = true,
                                                              .documents = true});
  const train::EvalBatches batches = train::eval_batches(config, source.held_out, train::share_of(config, {}));
  return train::evaluate(program, batches).loss;
}

/// Loads the newest checkpoint of the training and asks it: the loss on each bucket's documents, and greedy
/// continuations of the documents without their last `tail` tokens. On one rank.
std::vector<BucketResult> question_model(comm::World& world, const train::RunConfig& training,
                                         std::span<const QuestionBucket> buckets, std::int64_t tail) {
  train::RunConfig config = training;
  config.grid = {};
  config.ranks = 1;
  config.global_batch = config.micro_batch = 1;
  const std::int64_t prompt = config.seq_len - tail;
  std::vector<execute::ProgramGraph> graphs = train::generation_graphs(config.model, config.dtype, prompt);
  graphs.push_back({"eval", ops::lower_eval(config.model, train::step_config(config))});
  execute::Program program(world, std::move(graphs), {.threads = static_cast<int>(config.threads)});
  const std::vector<ops::ParameterSpec> specs = ops::model_parameters(config.model);
  const auto shards = ops::shard_parameters(config.model, specs, {}, {});
  const fs::path checkpoint = *train::latest_checkpoint(config.run_dir);
  train::load_parameters(checkpoint, config.model, train::training_arrays(program.state(), shards, config.dtype));
  train::set_coordinates(program.state(), {}, {});

  train::Generator generator(program, config.model, prompt);
  train::Sampler greedy({.temperature = 0});
  std::vector<BucketResult> results;
  for (const QuestionBucket& bucket : buckets) {
    BucketResult& result = results.emplace_back();
    result.seen = bucket.seen;
    result.loss = loss_on(program, config, bucket.file);
    for (const DocumentIds& document : bucket.documents) {
      const std::span<const std::int32_t> ids(document);
      std::vector<std::int32_t> written;
      generator.generate(ids.first(static_cast<std::size_t>(prompt)), tail, greedy, [&](std::int32_t token) {
        written.push_back(token);
        return true;
      });
      result.documents.push_back(recall_of(ids.last(static_cast<std::size_t>(tail)), written));
    }
  }
  return results;
}

/// Runs on ranks that are threads. Throws RuntimeFault with their report if they fail.
void run_here(std::int64_t ranks, const comm::RankBody& body) {
  std::ostringstream errors;
  if (comm::run_ranks(static_cast<int>(ranks), body, errors) != 0) throw RuntimeFault(errors.str());
}

/// The configuration of a training whose files are in `folder`. Not resolved.
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

/// nullopt: a signal stopped it.
std::optional<StudyResult> train_and_question(const MemorisationStudy& study, const StudyTexts& texts,
                                              const StudyRun& run, const fs::path& folder) {
  const ScratchFolder scratch(folder);
  const std::vector<QuestionBucket> buckets = write_documents(study, texts, run.seed, scratch.path());
  const train::ResolvedRun resolved = train::resolve(training_config(study, run, texts.tokenizer(), scratch.path()), 0);
  train::TrainResult trained;
  run_here(resolved.config.grid.ranks(), [&](comm::World& world) {
    const auto setup = train::set_up_training(world, resolved);
    train::TrainResult result = train::run_training(*setup);
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

constexpr const char* kResults = "results";
/// "1m-goldfish-1": in names of files.
std::string file_name(const StudyRun& run) {
  return fmt::format("{}-{}-{}", run.model, to_string(run.loss), run.seed);
}

StudyResult result_of(const DocumentValue& in) {
  constexpr std::int64_t kMost = INT64_MAX;
  StudyResult result;
  const auto loss = in["loss"].one_of({StudyLoss::standard, StudyLoss::goldfish, StudyLoss::standard_short});
  result.run = {in["model"].text(), loss, in["seed"].count()};
  result.parameters = in["parameters"].integer(0, kMost);
  result.steps = in["steps"].integer(0, kMost);
  result.held_out_loss = in["held_out_loss"].number();
  result.seconds = in["seconds"].number();
  for (const DocumentValue& bucket : in["buckets"].items()) {
    BucketResult& made = result.buckets.emplace_back();
    made.seen = bucket["seen"].integer(0, kMost);
    made.loss = bucket["loss"].number();
    for (const DocumentValue& document : bucket["documents"].items()) {
      made.documents.push_back(
          {document["exact"].boolean(), document["prefix"].integer(0, kMost), document["rouge_l"].number()});
    }
  }
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

Experiment<StudyResult> experiment_of(const MemorisationStudy& study, const StudyTexts& texts, const fs::path& folder) {
  Experiment<StudyResult> experiment{.threads = study.jobs};
  for (std::int64_t i = 0; i < study.seeds; ++i) {
    for (const std::string& model : study.models) {
      for (const StudyLoss loss : {StudyLoss::standard, StudyLoss::goldfish, StudyLoss::standard_short})
        experiment.points.push_back({.run = {model, loss, study.seed + static_cast<std::uint64_t>(i)}});
    }
  }
  experiment.name = [](const StudyResult& point) {
    return std::vector{point.run.model, std::string(to_string(point.run.loss)), fmt::format("seed {}", point.run.seed)};
  };
  experiment.weight = [&study](const StudyResult& point) { return weight_of(study, point.run); };
  experiment.compute = [&study, &texts, folder](std::span<StudyResult> results, const TellStatus&) {
    const StudyRun& run = results.front().run;
    auto result = train_and_question(study, texts, run, folder / ("training-" + file_name(run)));
    if (!result) return false;
    results.front() = *std::move(result);
    return true;
  };
  return experiment;
}

std::int64_t count_trainings(const MemorisationStudy& study) {
  return study.seeds * std::ssize(study.models) * 3;
}

ResultFolder memorisation_folder(fs::path path) {
  ResultFolder folder(std::move(path), "study.json", "weft study memorisation");
  train::expect_no_link(folder.path() / kResults, "-o with another name");
  fs::create_directories(folder.path() / kResults);
  return folder;
}

FolderDescription description_of(const MemorisationStudy& study, const StudyTexts& texts) {
  std::vector<std::string> settings;
  for (const train::Setting& setting : study.settings) settings.push_back(setting.key + " = " + setting.value);
  JsonObject json;
  json.add("texts", hex_fingerprint(texts.digest())).add("length", study.text.length).add("tail", study.tail);
  json.add("seen", study.counts.seen).add("documents", study.counts.documents);
  json.add("background", study.counts.background).add("held_out", study.counts.held_out);
  json.add("goldfish", train::to_text(study.goldfish)).add("lr", study.lr).add("batch", study.batch);
  json.add("set", settings);
  return {.head = json_lines(json.text()) + "\n"};
}

std::vector<StudyResult> kept_results(const ResultFolder& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder.path() / kResults)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<StudyResult> results;
  for (const fs::path& file : files) {
    const std::string text = folder.read(fs::path(kResults) / file.filename());
    results.push_back(
        result_of(read_json(text, file.string(), {.fix = "remove it, to have it computed again"}).root()));
  }
  return results;
}

void keep(const ResultFolder& folder, const StudyResult& result) {
  write_durable(folder.path() / kResults / (file_name(result.run) + ".json"),
                json_lines(result_json(result).text()) + "\n");
}

JsonObject result_json(const StudyResult& result) {
  JsonArray buckets;
  for (const BucketResult& bucket : result.buckets) {
    JsonArray documents;
    for (const Recall& recall : bucket.documents) {
      documents.add(
          JsonObject().add("exact", recall.exact).add("prefix", recall.prefix).add("rouge_l", recall.rouge_l));
    }
    buckets.add(JsonObject().add("seen", bucket.seen).add("loss", bucket.loss).add("documents", documents));
  }
  JsonObject json;
  json.add("model", result.run.model).add("loss", to_string(result.run.loss)).add("seed", result.run.seed);
  json.add("parameters", result.parameters).add("steps", result.steps).add("seconds", result.seconds);
  json.add("held_out_loss", result.held_out_loss).add("buckets", buckets);
  return json;
}

}  // namespace weft::study
