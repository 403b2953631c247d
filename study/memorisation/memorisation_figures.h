// What a memorisation study found: means over documents and seeds, and their tables, with what was published beside
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "study/memorisation/memorisation.h"

namespace weft::study {

/// One model's figures with one loss on the documents that it has seen equally often, over all seeds.
struct BucketSummary {
  std::string model;
  StudyLoss loss = StudyLoss::standard;
  std::int64_t seen = 0;
  MeanInterval exact;    // part of the documents whose end is written as it was
  MeanInterval prefix;   // tokens
  MeanInterval rouge_l;  // from 0 to 1
  MeanInterval nats;     // loss a token
};

/// Held-out losses of one model, in nats a token. The intervals are over seeds.
struct HeldOutSummary {
  std::string model;
  std::int64_t parameters = 0;
  MeanInterval standard, goldfish, standard_short;
  MeanInterval ratio;  // goldfish over standard_short, of the same seed
};

/// Of results that are there; by model, then loss, then the times seen.
std::vector<BucketSummary> bucket_summaries(const MemorisationStudy& study, std::span<const StudyResult> results);
std::vector<HeldOutSummary> held_out_summaries(const MemorisationStudy& study, std::span<const StudyResult> results);

/// As CSV model, loss, seed, seen, parameters, steps, seconds, held_out_loss, loss_on_documents, exact_match,
/// prefix_tokens and rouge_l; a training that isn't asked has a row with empty cells. As JSON {"summary":…,
/// "held_out":…, "results":…}. As a picture exact match over the times seen, a series for each model and loss, with
/// intervals. Both arguments outlive the results.
Results results_of(const MemorisationStudy& study, std::span<const StudyResult> results);

}  // namespace weft::study
