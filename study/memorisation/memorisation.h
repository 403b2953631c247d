// A study of what models remember: documents that are seen a known number of times in one training, with the standard
// loss and with Goldfish loss (Hans et al., "Be like a Goldfish, Don't Memorize!", 2024), by models of several sizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status_line.h"
#include "study/memorisation/recall.h"
#include "study/memorisation/study_documents.h"
#include "train/config/config.h"

namespace weft::study {

/// A model of the Llama family, named after its parameters with a vocabulary of 2,048.
struct StudyModel {
  std::string_view name;
  std::int64_t layers, hidden, heads, ffn;
};

std::span<const StudyModel> study_models();

/// 4e-3 for a width of 128, and less for wider models as the inverse of their width (Yang et al., "Tensor Programs V",
/// 2022).
double study_learning_rate(const StudyModel& model);

/// standard_short: the standard loss on the part 1 − 1/k of the steps, as many targets as Goldfish loss learns.
enum class StudyLoss : std::uint8_t { standard, goldfish, standard_short };

std::string_view to_string(StudyLoss loss);

struct MemorisationStudy {
  StudyTextOptions text;
  DocumentCounts counts;
  std::vector<std::string> models = {"1m", "3m", "10m"};
  std::int64_t tail = 32;  // last tokens of a document, which the model is to write
  train::Goldfish goldfish;
  double lr = 0;           // the peak of the learning rate; 0: study_learning_rate()
  std::int64_t batch = 8;  // documents of a step
  std::uint64_t seed = 1;  // the first one: of documents, their order and initial weights
  std::int64_t seeds = 3;
  std::vector<train::Setting> settings;  // further keys of every training
  int jobs = 1;                          // trainings at a time
  int threads = 1;                       // of each
};

/// One training of the study.
struct StudyRun {
  std::string model;
  StudyLoss loss = StudyLoss::standard;
  std::uint64_t seed = 1;
  friend bool operator==(const StudyRun&, const StudyRun&) = default;
};

/// What a model knows of the documents that it has seen equally often.
struct BucketResult {
  std::int64_t seen = 0;          // times
  double loss = 0;                // nats a token
  std::vector<Recall> documents;  // greedy continuations of each
  friend bool operator==(const BucketResult&, const BucketResult&) = default;
};

struct StudyResult {
  StudyRun run;
  std::int64_t parameters = 0, steps = 0;
  double held_out_loss = 0;           // nats a token, of all targets
  double seconds = 0;                 // of training
  std::vector<BucketResult> buckets;  // by the times that they are seen; none of standard_short
};

/// Throws UserError on what no training could be: unknown models, a tail as long as a document, buckets that come
/// twice, keys that the study sets.
void check_memorisation(const MemorisationStudy& study);

/// Throws UserError if the texts have too few documents.
void expect_enough(const MemorisationStudy& study, const StudyTexts& texts);

/// All trainings: by seed, then by model, then by loss, so that a study that is stopped has whole seeds.
std::vector<StudyRun> study_runs(const MemorisationStudy& study);

/// Background documents of each training: the study's, less those that would not fill the last step.
std::int64_t background_of(const MemorisationStudy& study);

/// The configuration of a training whose files are in `folder`: train.bin and held-out.bin. Not resolved.
train::RunConfig training_config(const MemorisationStudy& study, const StudyRun& run, const text::Tokenizer& tokenizer,
                                 const std::filesystem::path& folder);

/// Is called after each training, by one thread at a time.
using KeepResult = std::function<void(const StudyResult& result)>;

/// Trains and questions the models of all runs that aren't in `known`, in `folder`, where nothing of it stays. Returns
/// all results in the order of study_runs(). A signal ends it: then there are fewer.
std::vector<StudyResult> run_memorisation(const MemorisationStudy& study, const StudyTexts& texts,
                                          std::span<const StudyResult> known, const std::filesystem::path& folder,
                                          const KeepResult& keep, const TellStatus& tell);

}  // namespace weft::study
