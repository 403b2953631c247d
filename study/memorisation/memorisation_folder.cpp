#include "study/memorisation/memorisation_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/files/json_file.h"
#include "base/text/hex.h"
#include "base/text/json_object.h"
#include "study/memorisation/memorisation_output.h"

namespace weft::study {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResults = "results";
/// What results depend on, besides model, loss and seed.
JsonObject common_json(const MemorisationStudy& study, const StudyTexts& texts) {
  std::vector<std::string> settings;
  for (const train::Setting& setting : study.settings) settings.push_back(setting.key + " = " + setting.value);
  JsonObject json;
  json.add("texts", hex_fingerprint(texts.digest())).add("length", study.text.length).add("tail", study.tail);
  json.add("seen", study.counts.seen).add("documents", study.counts.documents);
  json.add("background", study.counts.background).add("held_out", study.counts.held_out);
  json.add("goldfish", train::to_text(study.goldfish)).add("lr", study.lr).add("batch", study.batch);
  json.add("set", settings);
  return json;
}

fs::path result_path(const fs::path& folder, const StudyRun& run) {
  return folder / kResults / fmt::format("{}-{}-{}.json", run.model, to_string(run.loss), run.seed);
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

}  // namespace

MemorisationFolder::MemorisationFolder(fs::path folder)
    : folder_(std::move(folder), "study.json", "weft study memorisation") {
  fs::create_directories(path() / kResults);
}

void MemorisationFolder::begin(const MemorisationStudy& study, const StudyTexts& texts) {
  folder_.describe({.head = json_lines(common_json(study, texts).text()) + "\n"});
}

std::vector<StudyResult> MemorisationFolder::results() const {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path() / kResults)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<StudyResult> results;
  for (const fs::path& file : files) {
    const std::string text = folder_.read(fs::path(kResults) / file.filename());
    results.push_back(
        result_of(read_json(text, file.string(), {.fix = "remove it, to have it computed again"}).root()));
  }
  return results;
}

void MemorisationFolder::keep(const StudyResult& result) const {
  write_durable(result_path(path(), result.run), json_lines(result_json(result).text()) + "\n");
}

void MemorisationFolder::finish(const MemorisationStudy& study, std::span<const StudyResult> results) const {
  write_durable(path() / "results.csv", memorisation_csv(results));
  write_durable(path() / "results.json", indented_json(memorisation_json(study, results).text(), 1) + "\n");
  write_durable(path() / "plot.svg", memorisation_picture(study, results).svg());
}

}  // namespace weft::study
