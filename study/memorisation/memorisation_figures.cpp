#include "study/memorisation/memorisation_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/units.h"
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

std::string percent(const MeanInterval& estimate) {
  return fmt::format("{:.1f} %", 100 * estimate.mean);
}

std::string percent_interval(const MeanInterval& estimate) {
  return fmt::format("{:.1f} … {:.1f}", 100 * estimate.low, 100 * estimate.high);
}

std::string with_interval(const MeanInterval& estimate) {
  return fmt::format("{} ({})", percent(estimate), percent_interval(estimate));
}

/// An interval in JSON, of which tables show the mean with so many digits.
template <class Row>
Column<Row>& add_mean(Columns<Row>& columns, const char* name, MeanInterval Row::*member, const TableColumn& head,
                      int digits = 3) {
  const auto interval = [member](const Row& row) {
    const MeanInterval& estimate = row.*member;
    return Cell("", JsonObject().add("mean", estimate.mean).add("low", estimate.low).add("high", estimate.high));
  };
  return columns.add(name, interval).shown(head, [member, digits](const Row& row) {
    return fmt::format("{:.{}f}", (row.*member).mean, digits);
  });
}

/// Of JSON and the table.
Columns<BucketSummary> bucket_columns() {
  Columns<BucketSummary> columns;
  columns.add("model", &BucketSummary::model, {.head = "model", .words = true});
  columns.add("loss", [](const BucketSummary& each) { return to_string(each.loss); }, {.head = "loss", .words = true});
  columns.add("seen", &BucketSummary::seen, {.head = "seen"});
  add_mean(columns, "exact_match", &BucketSummary::exact, {.head = "exact match"}).text =
      [](const BucketSummary& each) { return percent(each.exact); };
  columns.show({.head = "95 % interval", .rank = 2},
               [](const BucketSummary& each) { return percent_interval(each.exact); });
  add_mean(columns, "prefix_tokens", &BucketSummary::prefix, {.head = "common prefix"}, 1);
  add_mean(columns, "rouge_l", &BucketSummary::rouge_l, {.head = "ROUGE-L", .rank = 1});
  add_mean(columns, "loss_on_documents", &BucketSummary::nats, {.head = "nats a token", .rank = 3});
  return columns;
}

/// Of JSON and the table.
Columns<HeldOutSummary> held_out_columns(const MemorisationStudy& study) {
  const std::string shorter = fmt::format("standard, {} % of the steps", 100 - 100 / study.goldfish.k);
  Columns<HeldOutSummary> columns;
  columns.add("model", &HeldOutSummary::model, {.head = "model", .words = true});
  columns.add("parameters", &HeldOutSummary::parameters, {.head = "parameters"}, human_count);
  add_mean(columns, "standard", &HeldOutSummary::standard, {.head = "standard"});
  add_mean(columns, "goldfish", &HeldOutSummary::goldfish, {.head = "Goldfish"});
  add_mean(columns, "standard_short", &HeldOutSummary::standard_short, {.head = shorter});
  add_mean(columns, "goldfish_over_short", &HeldOutSummary::ratio, {.head = "Goldfish over it"}).text =
      [](const HeldOutSummary& each) {
        return fmt::format("{:+.1f} % ({:+.1f} … {:+.1f})", 100 * (each.ratio.mean - 1), 100 * (each.ratio.low - 1),
                           100 * (each.ratio.high - 1));
      };
  return columns;
}

/// What a training knows of a bucket; nullptr: it wasn't asked.
struct RecallRow {
  const StudyResult* result = nullptr;
  const BucketResult* bucket = nullptr;

  bool possible() const { return bucket != nullptr; }
};

/// Of CSV.
Columns<RecallRow> recall_columns() {
  const auto of_result = [](auto member) { return [member](const RecallRow& row) { return row.result->*member; }; };
  const auto of_bucket = [](auto member) { return [member](const RecallRow& row) { return row.bucket->*member; }; };
  const auto mean = [](auto figure) {
    return [figure](const RecallRow& row) {
      double sum = 0;
      for (const Recall& recall : row.bucket->documents) sum += static_cast<double>(std::invoke(figure, recall));
      return sum / static_cast<double>(row.bucket->documents.size());
    };
  };
  Columns<RecallRow> columns;
  columns.add("model", [](const RecallRow& row) { return row.result->run.model; });
  columns.add("loss", [](const RecallRow& row) { return to_string(row.result->run.loss); });
  columns.add("seed", [](const RecallRow& row) { return row.result->run.seed; });
  columns.figure("seen", of_bucket(&BucketResult::seen));
  columns.add("parameters", of_result(&StudyResult::parameters));
  columns.add("steps", of_result(&StudyResult::steps));
  columns.add("seconds", of_result(&StudyResult::seconds));
  columns.add("held_out_loss", of_result(&StudyResult::held_out_loss));
  columns.figure("loss_on_documents", of_bucket(&BucketResult::loss));
  columns.figure("exact_match", mean(&Recall::exact));
  columns.figure("prefix_tokens", mean(&Recall::prefix));
  columns.figure("rouge_l", mean(&Recall::rouge_l));
  return columns;
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

std::string memorisation_csv(std::span<const StudyResult> results) {
  std::vector<RecallRow> rows;
  for (const StudyResult& result : results) {
    if (result.buckets.empty()) rows.push_back({.result = &result});
    for (const BucketResult& bucket : result.buckets) rows.push_back({&result, &bucket});
  }
  return recall_columns().csv(rows);
}

JsonObject memorisation_json(const MemorisationStudy& study, std::span<const StudyResult> results) {
  JsonArray runs;
  for (const StudyResult& result : results) runs.add(result_json(result));
  return JsonObject()
      .add("summary", bucket_columns().json(bucket_summaries(study, results)))
      .add("held_out", held_out_columns(study).json(held_out_summaries(study, results)))
      .add("results", runs);
}

StyledText memorisation_text(const MemorisationStudy& study, std::span<const StudyResult> results,
                             std::optional<std::size_t> width) {
  const std::vector<BucketSummary> summaries = bucket_summaries(study, results);
  const std::vector<HeldOutSummary> losses = held_out_summaries(study, results);
  StyledText text(
      fmt::format("The last {} tokens of documents of {}, continued greedily; {} documents a bucket and seed\n",
                  study.tail, study.text.length, study.counts.documents));
  text.add(table_text(bucket_columns().table(summaries), width));
  if (losses.empty()) return text;
  text.add("\nHeld-out loss, nats a token\n");
  text.add(table_text(held_out_columns(study).table(losses), width));
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

Results results_of(const MemorisationStudy& study, std::span<const StudyResult> results) {
  return {
      .text = [&study, results](std::optional<std::size_t> width) { return memorisation_text(study, results, width); },
      .json = [&study, results] { return memorisation_json(study, results); },
      .csv = [results] { return memorisation_csv(results); },
      .picture = [&study, results] { return memorisation_picture(study, results); }};
}

}  // namespace weft::study
