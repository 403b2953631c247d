// A study of what models remember: documents that are seen a known number of times in one training, with the standard
// loss and with Goldfish loss (Hans et al., "Be like a Goldfish, Don't Memorize!", 2024), by models of several sizes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json_object.h"
#include "study/experiment.h"
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
  double held_out_loss = 0;                // nats a token, of all targets
  double seconds = 0;                      // of training
  std::vector<BucketResult> buckets = {};  // by the times that they are seen; none of standard_short
};

/// Throws UserError on what no training could be: unknown models, a tail as long as a document, buckets that come
/// twice, keys that the study sets.
void check_memorisation(const MemorisationStudy& study);

/// Throws UserError if the texts have too few documents.
void expect_enough(const MemorisationStudy& study, const StudyTexts& texts);

/// All trainings: by seed, then by model, then by loss, so that a study that is stopped has whole seeds. A training and
/// its questions take place in `folder`, where nothing of them stays. A signal ends them. The arguments outlive the
/// experiment.
Experiment<StudyResult> experiment_of(const MemorisationStudy& study, const StudyTexts& texts,
                                      const std::filesystem::path& folder);

std::int64_t count_trainings(const MemorisationStudy& study);

/// Makes the folder of a study, or opens one that such a study left. tokenizer.json is what the study learnt; results/
/// has a file for each training that is done, so that a study that was stopped goes on. Throws the exceptions of
/// ResultFolder.
ResultFolder memorisation_folder(std::filesystem::path path);
/// study.json: what all trainings have in common.
FolderDescription description_of(const MemorisationStudy& study, const StudyTexts& texts);
/// The results of trainings that are done. Throws UserError, naming the file, if one can't be read.
std::vector<StudyResult> kept_results(const ResultFolder& folder);
void keep(const ResultFolder& folder, const StudyResult& result);
JsonObject result_json(const StudyResult& result);

}  // namespace weft::study
