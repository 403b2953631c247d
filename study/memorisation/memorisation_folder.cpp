#include "study/memorisation/memorisation_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/files/json_file.h"
#include "base/files/text_file.h"
#include "base/text/hex.h"
#include "base/text/json_object.h"
#include "study/memorisation/memorisation_output.h"

namespace weft::study {
namespace {

namespace fs = std::filesystem;

constexpr const char *kMarker = "study.json", *kResults = "results";
constexpr const char* kOther = "-o with another folder, or the command that wrote this one";
constexpr std::size_t kMostRead = std::size_t{1} << 28;

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

StudyLoss loss_named(const std::string& name) {
  for (const StudyLoss loss : {StudyLoss::standard, StudyLoss::goldfish}) {
    if (to_string(loss) == name) return loss;
  }
  return StudyLoss::standard_short;
}

StudyResult result_of(const nlohmann::json& json) {
  StudyResult result;
  result.run = {json.at("model"), loss_named(json.at("loss")), json.at("seed")};
  result.parameters = json.at("parameters");
  result.steps = json.at("steps");
  result.held_out_loss = json.at("held_out_loss");
  result.seconds = json.at("seconds");
  for (const nlohmann::json& bucket : json.at("buckets")) {
    BucketResult& made = result.buckets.emplace_back();
    made.seen = bucket.at("seen");
    made.loss = bucket.at("loss");
    for (const nlohmann::json& document : bucket.at("documents")) {
      made.documents.push_back({document.at("exact"), document.at("prefix"), document.at("rouge_l")});
    }
  }
  return result;
}

}  // namespace

MemorisationFolder::MemorisationFolder(fs::path folder)
    : folder_(std::move(folder), kMarker, "weft study memorisation") {
  // By which the folder is known if it is stopped before begin().
  if (!fs::exists(path() / kMarker)) write_durable(path() / kMarker, "{}\n");
  fs::create_directories(path() / kResults);
}

void MemorisationFolder::begin(const MemorisationStudy& study, const StudyTexts& texts) {
  const fs::path file = path() / kMarker;
  const std::string now = json_lines(common_json(study, texts).text());
  const std::string before = read_text_file(file, "the study's file", kMostRead, "a file of the study", kOther);
  const auto members = json_members(now);
  for (const auto& [key, value] : json_members(before)) {
    const auto same = std::ranges::find(members, key, &std::pair<std::string, std::string>::first);
    if (same != members.end() && same->second == value) continue;
    throw UserError(fmt::format("{}: a study with {} = {}", file.string(), key, value),
                    same == members.end() ? "no such member" : fmt::format("{}, as this one has it", same->second),
                    kOther);
  }
  write_durable(file, now + "\n");
}

std::vector<StudyResult> MemorisationFolder::results() const {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path() / kResults)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<StudyResult> results;
  for (const fs::path& file : files) {
    const std::string text = read_text_file(file, "a result", kMostRead, "a result of the study", "remove it");
    try {
      results.push_back(result_of(parse_json(text, file.string())));
    } catch (const nlohmann::json::exception&) {
      throw UserError(in_quotes(file) + " is no result of a training", "a file that the study wrote",
                      "remove it, to have it computed again");
    }
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
