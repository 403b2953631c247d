// Questions to a trained model: which loss it has on a document, and how it continues one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "study/memorisation/memorisation.h"
#include "study/memorisation/study_documents.h"

namespace weft::study {

/// The documents that a training sees equally often, as texts and as a token file.
struct QuestionBucket {
  std::int64_t seen = 0;
  std::vector<DocumentIds> documents;
  std::filesystem::path file;
};

/// Loads the newest checkpoint of `run_folder` and asks it: the loss on each bucket's documents, and greedy
/// continuations of the documents without their last `tail` tokens. On one rank.
std::vector<BucketResult> question_model(comm::World& world, const train::RunConfig& config,
                                         std::span<const QuestionBucket> buckets, std::int64_t tail);

}  // namespace weft::study
