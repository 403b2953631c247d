// A compute stream as its thread walks it: batches of entries that run one after another without looking elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"

namespace weft::execute {

/// "`stream` has completed `entries` entries of this step": 0 or less means entries of the step before.
struct StreamWait {
  std::uint32_t stream = 0;
  std::int64_t entries = 0;
};

/// Only a batch's first entry waits, and other streams only wait for its last entry.
struct StreamBatch {
  std::uint32_t begin = 0, end = 0;             // entries
  std::uint32_t first_wait = 0, last_wait = 0;  // in the flat array
  bool signals = false;                         // another stream waits for the last entry, or the stream ends here
};

/// The entries of one stream, cut into batches, with all of their waits in one flat array.
///
///   entries   a b c(waits) d e(signals) f      batches   [a b] [c d e] [f]
class StreamBatches {
 public:
  StreamBatches() = default;
  StreamBatches(const plan::Plan& plan, plan::StreamId stream);

  std::span<const StreamBatch> batches() const { return batches_; }
  std::span<const StreamWait> waits(const StreamBatch& batch) const {
    return std::span(waits_).subspan(batch.first_wait, batch.last_wait - batch.first_wait);
  }

 private:
  std::vector<StreamBatch> batches_;
  std::vector<StreamWait> waits_;
};

}  // namespace weft::execute
