#include "text/corpus/parallel_encode.h"

#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

namespace weft::text {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{1} << 20;  // short texts are handed over together

struct Batch {
  std::vector<TextPart> parts;
  std::vector<std::size_t> ends;     // of each part's ids
  std::vector<EncodedPart> results;  // their ids are set when they are taken
  std::vector<std::int32_t> ids;
  std::exception_ptr failure;  // thrown when it is its turn, so that the first of several is told
};

/// `begin`: of the part's ids.
void encode_piece(const ParallelEncode& work, const TextPiece& piece, std::size_t begin, std::vector<std::int32_t>& ids,
                  EncodedPart& result) {
  const std::size_t at = ids.size();
  work.tokenizer.encode(piece.text, work.options, ids);
  result.text_bytes += piece.text.size();
  result.differs |= work.verify && work.tokenizer.decode(std::span(ids).subspan(at)) != piece.text;
  if (const auto& end = work.tokenizer.facts().end; piece.ends && end) ids.push_back(*end);
  if (!piece.learnt && ids.size() > at) result.ignored.push_back({at - begin, ids.size() - begin});
}

void encode(const ParallelEncode& work, Batch& batch) {
  for (TextPart& part : batch.parts) {
    const std::vector<TextPiece> pieces = work.files.pieces(part);
    part.text.clear();
    EncodedPart& result = batch.results.emplace_back();
    const std::size_t begin = batch.ids.size();
    for (const TextPiece& piece : pieces) encode_piece(work, piece, begin, batch.ids, result);
    batch.ends.push_back(batch.ids.size());
  }
}

std::shared_ptr<Batch> next_batch(const ParallelEncode& work) {
  auto batch = std::make_shared<Batch>();
  for (std::size_t bytes = 0; bytes < kBatchBytes;) {
    auto part = work.files.next();
    if (!part) break;
    bytes += part->text.size();
    batch->parts.push_back(std::move(*part));
  }
  if (batch->parts.empty()) return nullptr;
  return batch;
}

void take_batch(const ParallelEncode& work, Batch& batch) {
  if (batch.failure) std::rethrow_exception(batch.failure);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < batch.parts.size(); ++i) {
    EncodedPart& result = batch.results[i];
    result.ids = std::span(batch.ids).subspan(begin, batch.ends[i] - begin);
    work.take(batch.parts[i], result);
    begin = batch.ends[i];
  }
}

}  // namespace

void encode_in_order(const ParallelEncode& work) {
  using Pointer = std::shared_ptr<Batch>;
  using tbb::filter_mode;
  const auto read = [&](tbb::flow_control& flow) {
    Pointer batch = next_batch(work);
    if (batch == nullptr) flow.stop();
    return batch;
  };
  const auto encode_one = [&](Pointer batch) {
    try {
      encode(work, *batch);
    } catch (...) {
      batch->failure = std::current_exception();
    }
    return batch;
  };
  const auto take = [&](const Pointer& batch) { take_batch(work, *batch); };
  const auto most = static_cast<std::size_t>(work.threads);
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, most);
  tbb::parallel_pipeline(most * 2 + 1, tbb::make_filter<void, Pointer>(filter_mode::serial_in_order, read) &
                                           tbb::make_filter<Pointer, Pointer>(filter_mode::parallel, encode_one) &
                                           tbb::make_filter<Pointer, void>(filter_mode::serial_in_order, take));
}

}  // namespace weft::text
