#include "text/corpus/parallel_encode.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
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
  std::exception_ptr failure;
  bool done = false;
};

/// Threads that encode batches in any order; the owner takes them in theirs.
class Encoders {
 public:
  explicit Encoders(const ParallelEncode& work) : work_(work) {
    for (int i = 0; i < work.threads; ++i) threads_.emplace_back([this] { run(); });
  }
  ~Encoders() {
    {
      const std::lock_guard guard(lock_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Encoders(const Encoders&) = delete;
  Encoders& operator=(const Encoders&) = delete;

  void add(Batch* batch) {
    {
      const std::lock_guard guard(lock_);
      waiting_.push_back(batch);
    }
    changed_.notify_one();
  }
  void wait_for(const Batch& batch) {
    std::unique_lock guard(lock_);
    finished_.wait(guard, [&] { return batch.done; });
  }

 private:
  void run() {
    while (true) {
      Batch* batch = nullptr;
      {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return stop_ || !waiting_.empty(); });
        if (stop_) return;
        batch = waiting_.front();
        waiting_.pop_front();
      }
      try {
        encode(*batch);
      } catch (...) {
        batch->failure = std::current_exception();
      }
      {
        const std::lock_guard guard(lock_);
        batch->done = true;
      }
      finished_.notify_one();
    }
  }
  void encode(Batch& batch) const {
    for (TextPart& part : batch.parts) {
      std::vector<TextPiece> pieces;
      if (part.json) {
        pieces = work_.pieces(part);
      } else {
        pieces.push_back({.text = std::move(part.text)});
      }
      part.text.clear();
      EncodedPart& result = batch.results.emplace_back();
      const std::size_t begin = batch.ids.size();
      for (const TextPiece& piece : pieces) encode(piece, begin, batch.ids, result);
      batch.ends.push_back(batch.ids.size());
    }
  }
  /// `begin`: of the part's ids.
  void encode(const TextPiece& piece, std::size_t begin, std::vector<std::int32_t>& ids, EncodedPart& result) const {
    const std::size_t at = ids.size();
    work_.tokenizer.encode(piece.text, work_.options, ids);
    result.text_bytes += piece.text.size();
    result.differs |= work_.verify && work_.tokenizer.decode(std::span(ids).subspan(at)) != piece.text;
    if (const auto& end = work_.tokenizer.facts().end; piece.ends && end) ids.push_back(*end);
    if (!piece.learnt && ids.size() > at) result.ignored.push_back({at - begin, ids.size() - begin});
  }

  const ParallelEncode& work_;
  std::mutex lock_;
  std::condition_variable changed_, finished_;
  std::deque<Batch*> waiting_;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

std::unique_ptr<Batch> next_batch(const ParallelEncode& work) {
  auto batch = std::make_unique<Batch>();
  for (std::size_t bytes = 0; bytes < kBatchBytes;) {
    auto part = work.next();
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
  const std::size_t most = static_cast<std::size_t>(work.threads) * 2 + 1;
  std::deque<std::unique_ptr<Batch>> batches;  // outlive the threads
  Encoders encoders(work);
  bool more = true;
  while (more || !batches.empty()) {
    while (more && batches.size() < most) {
      auto batch = next_batch(work);
      more = batch != nullptr;
      if (!more) break;
      encoders.add(batch.get());
      batches.push_back(std::move(batch));
    }
    if (batches.empty()) break;
    encoders.wait_for(*batches.front());
    take_batch(work, *batches.front());
    batches.pop_front();
  }
}

}  // namespace weft::text
