#include "study/memorisation/memorisation_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/text/csv.h"
#include "base/text/text_table.h"
#include "base/text/units.h"
#include "inspect/drawing/chart.h"

namespace weft::study {
namespace {

/// The figures of one run each, by runs of a model and loss.
using Groups = std::vector<std::vector<double>>;

std::vector<const StudyResult*> results_of(std::span<const StudyResult> results, std::string_view model,
                                           StudyLoss loss) {
  std::vector<const StudyResult*> found;
  for (const StudyResult& result : results) {
    if (result.run.model == model && result.run.loss == loss) found.push_back(&result);
  }
  return found;
}

MeanInterval over_documents(const std::vector<const BucketResult*>& buckets,
                            const std::function<double(const Recall&)>& figure) {
  Groups groups;
  for (const BucketResult* bucket : buckets) {
    std::vector<double>& values = groups.emplace_back();
    for (const Recall& recall : bucket->documents) values.push_back(figure(recall));
  }
  return mean_interval(groups);
}

MeanInterval over_seeds(const std::vector<double>& values) {
  Groups groups;
  for (const double value : values) groups.push_back({value});
  return mean_interval(groups);
}

MeanInterval held_out(std::span<const StudyResult> results, const std::string& model, StudyLoss loss) {
  std::vector<double> values;
  for (const StudyResult* result : results_of(results, model, loss)) values.push_back(result->held_out_loss);
  return over_seeds(values);
}

JsonObject json_of(const MeanInterval& estimate) {
  return JsonObject().add("mean", estimate.mean).add("low", estimate.low).add("high", estimate.high);
}

std::string percent(const MeanInterval& estimate) {
  return fmt::format("{:.1f} %", 100 * estimate.mean);
}

std::string percent_interval(const MeanInterval& estimate) {
  return fmt::format("{:.1f} … {:.1f}", 100 * estimate.low, 100 * estimate.high);
}

std::string with_interval(const MeanInterval& estimate) {
  return fmt::format("{} ({})", percent(estimate), percent_interval(estimate));
}

TextTable recall_table(const std::vector<BucketSummary>& summaries) {
  TextTable table;
  table.columns = {{.head = "model", .words = true}, {.head = "loss", .words = true},      {.head = "seen"},
                   {.head = "exact match"},          {.head = "95 % interval", .rank = 2}, {.head = "common prefix"},
                   {.head = "ROUGE-L", .rank = 1},   {.head = "nats a token", .rank = 3}};
  for (const BucketSummary& each : summaries) {
    table.rows.push_back({each.model, std::string(to_string(each.loss)), fmt::format("{}", each.seen),
                          percent(each.exact), percent_interval(each.exact), fmt::format("{:.1f}", each.prefix.mean),
                          fmt::format("{:.3f}", each.rouge_l.mean), fmt::format("{:.3f}", each.nats.mean)});
  }
  return table;
}

TextTable held_out_table(const MemorisationStudy& study, const std::vector<HeldOutSummary>& summaries) {
  const std::int64_t part = 100 - 100 / study.goldfish.k;
  TextTable table;
  table.columns = {{.head = "model", .words = true},
                   {.head = "parameters"},
                   {.head = "standard"},
                   {.head = "Goldfish"},
                   {.head = fmt::format("standard, {} % of the steps", part)},
                   {.head = "Goldfish over it"}};
  for (const HeldOutSummary& each : summaries) {
    table.rows.push_back({each.model, human_count(static_cast<double>(each.parameters)),
                          fmt::format("{:.3f}", each.standard.mean), fmt::format("{:.3f}", each.goldfish.mean),
                          fmt::format("{:.3f}", each.standard_short.mean),
                          fmt::format("{:+.1f} % ({:+.1f} … {:+.1f})", 100 * (each.ratio.mean - 1),
                                      100 * (each.ratio.low - 1), 100 * (each.ratio.high - 1))});
  }
  return table;
}

const BucketSummary* find(const std::vector<BucketSummary>& summaries, const std::string& model, StudyLoss loss,
                          std::int64_t seen) {
  const auto found = std::ranges::find_if(summaries, [&](const BucketSummary& each) {
    return each.model == model && each.loss == loss && each.seen == seen;
  });
  return found == summaries.end() ? nullptr : &*found;
}

/// The largest model's figures beside the published ones.
TextTable published_table(const MemorisationStudy& study, const std::vector<BucketSummary>& summaries,
                          const std::vector<HeldOutSummary>& losses) {
  TextTable table{
      .columns = {{.head = "", .words = true}, {.head = "here", .words = true}, {.head = "published", .words = true}}};
  if (losses.empty()) return table;
  const std::string& model = losses.back().model;
  const std::int64_t most = std::ranges::max(study.counts.seen);
  const auto add = [&](const BucketSummary* of, const std::string& what, const char* published,
                       const std::function<std::string(const BucketSummary&)>& figure) {
    if (of != nullptr) table.rows.push_back({what, figure(*of), published});
  };
  const auto exact = [](const BucketSummary& each) { return with_interval(each.exact); };
  add(find(summaries, model, StudyLoss::standard, most), fmt::format("{}, seen {} times: exact match", model, most),
      "about 85 % by 7B after 100 epochs [1]", exact);
  add(find(summaries, model, StudyLoss::goldfish, most), "with Goldfish loss", "almost none [1]", exact);
  add(find(summaries, model, StudyLoss::goldfish, 0), "never seen, with Goldfish loss", "", exact);
  add(find(summaries, model, StudyLoss::goldfish, most), "tokens before a difference, with Goldfish loss",
      "about 5 [1]", [](const BucketSummary& each) {
        return fmt::format("{:.1f} ({:.1f} … {:.1f})", each.prefix.mean, each.prefix.low, each.prefix.high);
      });
  add(find(summaries, model, StudyLoss::standard, 1), "seen once: exact match", "from 70B on [2]", exact);
  table.rows.push_back({fmt::format("held-out loss of Goldfish, over {} % of the steps", 100 - 100 / study.goldfish.k),
                        fmt::format("{:+.1f} %", 100 * (losses.back().ratio.mean - 1)),
                        "the same: with k = 4, N tokens teach like 0.75 N [1]"});
  return table;
}

constexpr const char* kSources =
    "[1] Hans et al., \"Be like a Goldfish, Don't Memorize!\", 2024\n"
    "[2] Singh et al., \"Democratizing AI: Open-source Scalable LLM Training on GPU-based Supercomputers\", SC 2024\n";

}  // namespace

std::vector<BucketSummary> bucket_summaries(const MemorisationStudy& study, std::span<const StudyResult> results) {
  std::vector<BucketSummary> summaries;
  std::vector<int> all_seen = study.counts.seen;
  std::ranges::sort(all_seen);
  for (const std::string& model : study.models) {
    for (const StudyLoss loss : {StudyLoss::standard, StudyLoss::goldfish}) {
      const std::vector<const StudyResult*> runs = results_of(results, model, loss);
      if (runs.empty()) continue;
      for (const int seen : all_seen) {
        std::vector<const BucketResult*> buckets;
        std::vector<double> nats;
        for (const StudyResult* run : runs) {
          const auto bucket = std::ranges::find(run->buckets, seen, &BucketResult::seen);
          if (bucket == run->buckets.end()) continue;
          buckets.push_back(&*bucket);
          nats.push_back(bucket->loss);
        }
        summaries.push_back(
            {model, loss, seen, over_documents(buckets, [](const Recall& recall) { return recall.exact ? 1.0 : 0.0; }),
             over_documents(buckets, [](const Recall& recall) { return static_cast<double>(recall.prefix); }),
             over_documents(buckets, [](const Recall& recall) { return recall.rouge_l; }), over_seeds(nats)});
      }
    }
  }
  return summaries;
}

std::vector<HeldOutSummary> held_out_summaries(const MemorisationStudy& study, std::span<const StudyResult> results) {
  std::vector<HeldOutSummary> summaries;
  for (const std::string& model : study.models) {
    const std::vector<const StudyResult*> goldfish = results_of(results, model, StudyLoss::goldfish);
    const std::vector<const StudyResult*> shorter = results_of(results, model, StudyLoss::standard_short);
    std::vector<double> ratios;
    for (const StudyResult* result : goldfish) {
      const auto other =
          std::ranges::find_if(shorter, [&](const StudyResult* each) { return each->run.seed == result->run.seed; });
      if (other != shorter.end()) ratios.push_back(result->held_out_loss / (*other)->held_out_loss);
    }
    if (ratios.empty()) continue;
    summaries.push_back({model, goldfish.front()->parameters, held_out(results, model, StudyLoss::standard),
                         held_out(results, model, StudyLoss::goldfish),
                         held_out(results, model, StudyLoss::standard_short), over_seeds(ratios)});
  }
  return summaries;
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

std::string memorisation_csv(std::span<const StudyResult> results) {
  std::string text = csv_line({"model", "loss", "seed", "seen", "parameters", "steps", "seconds", "held_out_loss",
                               "loss_on_documents", "exact_match", "prefix_tokens", "rouge_l"});
  for (const StudyResult& result : results) {
    const CsvRow head = {result.run.model, std::string(to_string(result.run.loss)), fmt::format("{}", result.run.seed)};
    const CsvRow of_run = {fmt::format("{}", result.parameters), fmt::format("{}", result.steps),
                           fmt::format("{}", result.seconds), fmt::format("{}", result.held_out_loss)};
    const auto add = [&](const std::string& seen, const CsvRow& figures) {
      CsvRow row = head;
      row.push_back(seen);
      row.insert(row.end(), of_run.begin(), of_run.end());
      row.insert(row.end(), figures.begin(), figures.end());
      text += csv_line(row);
    };
    if (result.buckets.empty()) add("", {"", "", "", ""});
    for (const BucketResult& bucket : result.buckets) {
      double exact = 0, prefix = 0, rouge = 0;
      for (const Recall& recall : bucket.documents) {
        exact += recall.exact ? 1 : 0;
        prefix += static_cast<double>(recall.prefix);
        rouge += recall.rouge_l;
      }
      const auto count = static_cast<double>(bucket.documents.size());
      add(fmt::format("{}", bucket.seen), {fmt::format("{}", bucket.loss), fmt::format("{}", exact / count),
                                           fmt::format("{}", prefix / count), fmt::format("{}", rouge / count)});
    }
  }
  return text;
}

JsonObject memorisation_json(const MemorisationStudy& study, std::span<const StudyResult> results) {
  JsonArray summary, losses, runs;
  for (const BucketSummary& each : bucket_summaries(study, results)) {
    JsonObject json;
    json.add("model", each.model).add("loss", to_string(each.loss)).add("seen", each.seen);
    json.add("exact_match", json_of(each.exact)).add("prefix_tokens", json_of(each.prefix));
    json.add("rouge_l", json_of(each.rouge_l)).add("loss_on_documents", json_of(each.nats));
    summary.add(json);
  }
  for (const HeldOutSummary& each : held_out_summaries(study, results)) {
    JsonObject json;
    json.add("model", each.model).add("parameters", each.parameters);
    json.add("standard", json_of(each.standard)).add("goldfish", json_of(each.goldfish));
    json.add("standard_short", json_of(each.standard_short)).add("goldfish_over_short", json_of(each.ratio));
    losses.add(json);
  }
  for (const StudyResult& result : results) runs.add(result_json(result));
  return JsonObject().add("summary", summary).add("held_out", losses).add("results", runs);
}

StyledText memorisation_text(const MemorisationStudy& study, std::span<const StudyResult> results,
                             std::optional<std::size_t> width) {
  const std::vector<BucketSummary> summaries = bucket_summaries(study, results);
  const std::vector<HeldOutSummary> losses = held_out_summaries(study, results);
  StyledText text(
      fmt::format("The last {} tokens of documents of {}, continued greedily; {} documents a bucket and seed\n",
                  study.tail, study.text.length, study.counts.documents));
  text.add(table_text(recall_table(summaries), width));
  if (losses.empty()) return text;
  text.add("\nHeld-out loss, nats a token\n");
  text.add(table_text(held_out_table(study, losses), width));
  text.add("\n");
  text.add(table_text(published_table(study, summaries, losses), width));
  text.add(kSources);
  return text;
}

inspect::Picture memorisation_picture(const MemorisationStudy& study, std::span<const StudyResult> results) {
  std::vector<int> seen = study.counts.seen;
  std::ranges::sort(seen);
  inspect::SeriesChart chart{
      .title = fmt::format("Documents whose last {} tokens a model writes as they were", study.tail),
      .x = {.title = "times seen in training"},
      .y = {.title = "exact match, %", .from_zero = true}};
  for (const int times : seen) chart.x.places.push_back(fmt::format("{}", times));
  for (const BucketSummary& each : bucket_summaries(study, results)) {
    const std::string name = fmt::format("{}, {}", each.model, to_string(each.loss));
    if (chart.series.empty() || chart.series.back().name != name) {
      chart.series.push_back({.name = name, .dashed = each.loss == StudyLoss::goldfish});
    }
    const auto place = static_cast<double>(std::ranges::find(seen, each.seen) - seen.begin());
    chart.series.back().points.push_back({.x = place,
                                          .y = 100 * each.exact.mean,
                                          .low = 100 * each.exact.low,
                                          .high = 100 * each.exact.high,
                                          .tooltip = name + ": " + with_interval(each.exact)});
  }
  return inspect::chart_picture(chart);
}

}  // namespace weft::study
